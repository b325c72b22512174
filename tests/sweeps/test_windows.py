"""Windows in sweeps: runs look for them as `fusiest map` does, and what other designs have found changes no answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import fusiest
from fusiest.mapper import Options, run
from fusiest.mapper.windows import interleavings
from fusiest.mapper.windows import window_plans as plans
from fusiest.pmapping import Effort, Table, TurnRows, TurnsAsked
from fusiest.pmapping.explore import EinsumSearch
from fusiest.spec import Memory
from fusiest.sweeps import Reuse, Store
from fusiest.sweeps.file.sweepfile import make_sweep
from fusiest.sweeps.reuse.design_bounds import NO_BOUNDS
from fusiest.sweeps.reuse.windowing import least_of_run, run_options
from fusiest.sweeps.runs.driver import Driver, run_all
from fusiest.sweeps.session import Running, Sweep
from tests.load_text import load_text
from tests.mapper.test_windows import ARCH, BLOCK, PAIR
from tests.sweeps.test_random_sweeps import Here

SKIPPING = PAIR.replace("H: p + s", "H: 3 * p + s").replace("p < 32, 0 <= s < 3", "p < 11, 0 <= s < 2")
EDP = Options(objective=("edp",), jobs=1)


def fields(tmp_path: Path, **more: object) -> dict[str, object]:
    (tmp_path / "chip.yaml").write_text(ARCH.replace("SIZE", "160"))
    (tmp_path / "pair.yaml").write_text(PAIR)
    return {"arch": str(tmp_path / "chip.yaml"), "workloads": [str(tmp_path / "pair.yaml")], "objective": "edp", **more}


def test_runs_equal_map(tmp_path: Path) -> None:
    """Neither mappings without windows that are best for a size, nor those of other designs, take a search's place."""
    sweep = make_sweep(fields(tmp_path, parameters={"Buf.size": [250, 120, 400]}))
    with Store(tmp_path / "runs") as store:
        answers = list(run_all(Driver(sweep, store, reuse=Reuse(covered=False)), Here()))
    for answer in answers:
        spec = load_text(ARCH.replace("SIZE", str(answer.design.values["Buf.size"])), PAIR)
        result = fusiest.map(spec, "edp", jobs=1)
        best, row = result.best(), answer.row
        assert (row.energy, row.latency, row.gap) == pytest.approx((best.energy, best.latency, result.gap), rel=1e-9)
    without = run(load_text(ARCH.replace("SIZE", "250"), PAIR), EDP).best()
    least = next(a.row for a in answers if a.design.values["Buf.size"] == 250)
    assert (least.energy or 0) < 0.6 * without.energy


def test_which_windows_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load_text(ARCH.replace("SIZE", "160"), PAIR)
    assert run_options(spec, EDP, usual=True).windows == "all"
    assert run_options(spec, EDP, usual=False).windows == "none"
    assert run_options(fusiest.load("simple", "matmuls"), EDP, usual=True) is EDP
    said = {}
    for windows in ("none", "retained", None):
        more = {"windows": windows} if windows else {}
        with Sweep(make_sweep(fields(tmp_path, **more)), Running(jobs=1)) as sweep:
            design = sweep.driver.designs.design(0)
            said[windows] = sweep.windows(design, sweep.file.workloads[0])
    assert said == {"none": "none", "retained": "retained", None: "all"}
    monkeypatch.setattr(plans, "LONGEST_WORKLOAD", 1)
    assert run_options(spec, EDP, usual=True).windows == "all"  # also in long ones


def test_tables_below_windows_serve_all_bandwidths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is explored once for four bandwidths of two memories, and every run is what `map` gives. Other sizes have others."""
    explored = Counter[object]()
    explore = interleavings.turn_rows

    def counted(spec: fusiest.Spec, name: str, asked: TurnsAsked) -> TurnRows:
        size = next(str(n.size) for n in spec.require_arch().nodes if isinstance(n, Memory) and n.name == "Buf")
        explored[size, name, replace(asked, most=0)] += 1
        return explore(spec, name, asked)

    monkeypatch.setattr(interleavings, "turn_rows", counted)
    rates = {"DRAM.read.throughput": [1, 3], "Buf.write.throughput": [8, 2], "Buf.size": [120, 90]}
    sweep = make_sweep(fields(tmp_path, parameters=rates))
    with Store(tmp_path / "runs") as store:
        answers = list(run_all(Driver(sweep, store, reuse=Reuse(covered=False)), Here()))
    assert len(answers) == 8
    assert explored
    assert set(explored.values()) == {1}
    for answer in answers:
        values = answer.design.values
        arch = ARCH.replace("SIZE", str(values["Buf.size"]))
        arch = arch.replace(
            "read, energy: 100, throughput: 1", f"read, energy: 100, throughput: {values['DRAM.read.throughput']}"
        )
        arch = arch.replace(
            "write, energy: 1, throughput: 8", f"write, energy: 1, throughput: {values['Buf.write.throughput']}"
        )
        result = fusiest.map(load_text(arch, PAIR), "edp", jobs=1)
        best, row = result.best(), answer.row
        assert (row.energy, row.latency) == pytest.approx((best.energy, best.latency), rel=1e-9)
        assert row.gap == pytest.approx(result.gap, rel=1e-9)


def test_tables_beside_runs_serve_all_bandwidths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where runs are joined with their neighbours, those of the neighbours are explored for the first of three bandwidths alone."""
    explored = Counter[object]()
    table = EinsumSearch.table

    def counted(self: EinsumSearch, effort: Effort) -> Table:
        if self.question.usage and len(self.spec.info.einsums) == 2:  # a run of two is one, joined with the third
            explored[tuple(self.spec.info.einsums), self.einsum, self.question.rates] += 1
        return table(self, effort)

    monkeypatch.setattr(EinsumSearch, "table", counted)
    made = fields(tmp_path, parameters={"DRAM.read.throughput": [1, 2, 5], "Buf.size": [400]})
    (tmp_path / "pair.yaml").write_text(BLOCK)
    with Store(tmp_path / "runs") as store:
        answers = list(run_all(Driver(make_sweep(made), store, reuse=Reuse(covered=False)), Here()))
    assert len(answers) == 3
    assert {rates for _, _, rates in explored} == {frozenset({"DRAM"})}
    assert set(explored.values()) == {1}
    for answer in answers:
        arch = ARCH.replace("SIZE", "400").replace(
            "read, energy: 100, throughput: 1",
            f"read, energy: 100, throughput: {answer.design.values['DRAM.read.throughput']}",
        )
        best, row = fusiest.map(load_text(arch, BLOCK), "edp", jobs=1).best(), answer.row
        assert (row.energy, row.latency) == pytest.approx((best.energy, best.latency), rel=1e-9)


def test_rows_that_nobody_reads_are_in_no_bound() -> None:
    """Windows leave them out, and computing them with it."""
    spec = load_text(ARCH.replace("SIZE", "160"), SKIPPING)
    assert least_of_run(spec, EDP)["energy"] > 0
    assert least_of_run(spec, run_options(spec, EDP, usual=True)) == NO_BOUNDS
