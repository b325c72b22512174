"""`fusiest.map` and `fusiest map`: results, options, interruption, and what is said when nothing fits."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import fusiest
from fusiest.mapper import mapper, tables, workforce
from fusiest.mapper.mapper import count_down_sets
from fusiest.mapper.workforce import Workforce
from fusiest.pmapping.explain import why_none
from fusiest.spec.dumping import dump
from fusiest.spec.reading.loading import load_texts
from tests.command_line import run
from tests.load_text import load_text

CHAIN = {"N_EINSUMS": 3, "M": 64, "KN": 32}

DIAMOND = """
arch:
  nodes:
  - !Memory {name: DRAM, component_class: Dummy, size: inf, tensors: {keep: ~Intermediates, may_keep: All},
             actions: [{name: read, energy: 50, throughput: 4}, {name: write, energy: 60, throughput: 4}]}
  - !Memory {name: Buf, component_class: Dummy, size: SIZE, tensors: {keep: ~DRAM, may_keep: All},
             actions: [{name: read, energy: 1, throughput: 16}, {name: write, energy: 2, throughput: 16}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  rank_sizes: {M: 8, N: 8}
  bits_per_value: 8
  einsums:
  - "A[m, n] = X[m, n]"
  - "B[m, n] = A[m, n]"
  - "C[m, n] = A[m, n]"
  - "D[m, n] = B[m, n] * C[m, n]"
"""


def diamond(tmp_path: Path, size: str) -> fusiest.Spec:
    file = tmp_path / "diamond.yaml"
    file.write_text(DIAMOND.replace("SIZE", size))
    return fusiest.load(file)


def front(result: fusiest.Result) -> list[tuple[float, float]]:
    return [(m.energy, m.latency) for m in result.mappings]


def test_front_contains_the_single_optima() -> None:
    spec = fusiest.load("simple", "matmuls", **CHAIN, GlobalBufferSize=6000, GlobalBufferThroughput=4e9)
    whole = fusiest.map(spec)
    assert whole.optimal
    assert whole.gap == 0
    assert front(whole) == sorted(front(whole))
    for objective in ("energy", "latency", "edp"):
        single = fusiest.map(spec, objective).best(objective)
        assert getattr(single, objective) == pytest.approx(getattr(whole.best(objective), objective), rel=1e-9)


LATE = """
workload:
  rank_sizes: {M: 16, K: 4, A: 2, B: 2, C: 2, D: 2, E: 2}
  bits_per_value: {All: 8}
  einsums:
  - T1[m, b] = T0[m, a] * W0[a, b]
  - T2[m, c] = T1[m, b] * W1[b, c]
  - T3[m, d] = T2[m, c] * W2[c, d]
  - WB[d, e] = X[d, k] * Y[k, e]
  - T4[m, e] = T3[m, d] * WB[d, e]
"""
"""WB is listed late, and best made early."""


def test_too_many_orders_are_not_claimed_to_be_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The given order is searched then; what other orders could save is bounded, not known."""
    spec = load_text(dump(fusiest.load("simple", GlobalBufferSize=256, MainMemoryEnergy=20e-12)), LATE)
    best = fusiest.map(spec, "energy", jobs=1).best("energy").energy
    given = fusiest.map(spec, "energy", orders="given", jobs=1)
    assert (given.optimal, given.gap) == (True, 0.0)
    monkeypatch.setattr(mapper, "MOST_DOWN_SETS", 5)
    result = fusiest.map(spec, "energy", jobs=1)
    assert result.stats.orders.startswith("given (more than 5 sets")
    assert not result.optimal
    assert result.best("energy").energy * (1 - result.gap) <= best * (1 + 1e-9) < result.best("energy").energy


def test_objectives_have_one_order() -> None:
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=12, M=4, KN=4)
    assert front(fusiest.map(spec, "latency,energy")) == front(fusiest.map(spec, "energy,latency"))
    for objective in ("energy,latency,energy", "energy,energy", "edp,energy"):
        with pytest.raises(fusiest.FusiestError, match="give energy, latency, edp, or energy,latency"):
            fusiest.map(spec, objective)


def forced(size: int) -> fusiest.Spec:
    """Intermediates have to stay on chip."""
    kept = "dataflow: {memories: [{memory: outermost, tensors: {keep: ~Intermediates, may_keep: Nothing}}]}\n"
    return load_text(dump(fusiest.load("simple", "matmuls", N_EINSUMS=3, M=16, KN=16, GlobalBufferSize=size)), kept)


@pytest.mark.parametrize("size", [16, 64, 135])
def test_how_much_a_memory_lacks_for_tensors_that_einsums_share(size: int) -> None:
    """136 bits are enough, and no less."""
    assert fusiest.map(forced(136), "energy", jobs=1).mappings
    said = f"GlobalBuffer would have to hold at least 136 bits, {136 - size} more than its size of {size}"
    with pytest.raises(fusiest.FusiestError, match=said):
        fusiest.map(forced(size), "energy", jobs=1)


def test_how_much_a_memory_lacks_is_exact_for_large_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tensors of 720,720,000,003 bits each."""
    monkeypatch.setattr(why_none, "_SECONDS", 1e9)
    spec = load_text("""
        arch:
          nodes:
          - !Memory {name: DRAM, size: 40, component_class: Dummy}
          - !Compute {name: MAC, component_class: Dummy}
        workload: {bits_per_value: {All: 1}, rank_sizes: {M: 720720000003}, einsums: ["Z[m] = A[m]"]}
    """)
    with pytest.raises(fusiest.FusiestError, match=r"at least 1,441,440,000,006 bits, 1,441,439,999,966 more"):
        fusiest.map(spec, "energy", jobs=1)


def test_too_few_fused_loops_are_a_reason() -> None:
    said = r"at least 4,096 bits, 3,960 more than its size of 136; or it needs more fused loops than 0"
    with pytest.raises(fusiest.FusiestError, match=said):
        fusiest.map(forced(136), "energy", jobs=1, max_fused_loops=0)


class Asked(NamedTuple):
    einsum: str


def killed_unless_here(here: int, task: Asked) -> int:
    if task.einsum == "B" and os.getpid() != here:
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def test_a_killed_worker_costs_only_its_own_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the system runs out of memory: what is missing is explored here."""
    monkeypatch.setattr(workforce, "_WORTH_A_PROCESS_SECONDS", -1.0)
    work: Any = functools.partial(killed_unless_here, os.getpid())
    with Workforce[Any, int](work, 2) as force:
        found = {task.einsum: answer for task, answer in force.each([Asked(name) for name in "ABC"])}
    assert found.keys() == {"A", "B", "C"}
    assert found["B"] == os.getpid()


def test_the_hardest_einsums_go_to_processes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would keep one process at work when the others are done."""
    asked: list[list[str]] = []

    def each(self: object, tasks: Sequence[tables.TableTask]) -> Iterator[tuple[tables.TableTask, tables.Answer]]:
        asked.append([task.einsum for task in tasks])
        yield from ()

    monkeypatch.setattr(Workforce, "each", each)
    explorer = tables.make_explorer(fusiest.load("tpu_v4i", "gpt3_6.7B"), mapper.Options(), None, lambda step: None)
    explorer.explore(tables.question_of(mapper.Options()))
    assert {*asked[0][:2]} == {"QK", "AV"}
    assert asked[0][-1] == "I"


def noted(folder: Path, task: Asked) -> None:
    (folder / task.einsum).touch()
    time.sleep(0.05)


def test_what_is_queued_is_not_explored_after_an_interruption(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(workforce, "_WORTH_A_PROCESS_SECONDS", -1.0)
    work: Any = functools.partial(noted, tmp_path)
    with contextlib.suppress(KeyboardInterrupt), Workforce[Any, None](work, 2) as force:
        next(force.each([Asked(f"A{i}") for i in range(300)]))
        raise KeyboardInterrupt
    begun = len(list(tmp_path.iterdir()))
    time.sleep(1)
    assert len(list(tmp_path.iterdir())) < begun + 10


def test_a_mapping_goes_back_into_evaluate(tmp_path: Path) -> None:
    spec = diamond(tmp_path, "300")
    for mapping in fusiest.map(spec).mappings:
        cost = fusiest.evaluate(spec, mapping.looptree)
        assert (cost.energy, cost.latency) == (mapping.energy, mapping.latency)
        leaves = tuple(path[-1].einsum for path in mapping.looptree.paths())
        assert leaves == mapping.einsum_order


def test_all_orders_are_never_worse(tmp_path: Path) -> None:
    for size in ("64", "160", "600", "1200", "inf"):
        spec = diamond(tmp_path, size)
        given, everything = fusiest.map(spec, "energy", orders="given"), fusiest.map(spec, "energy")
        assert everything.best("energy").energy <= given.best("energy").energy * (1 + 1e-12)
    assert count_down_sets(spec, 100) == 6


def test_jobs_and_executors_change_nothing() -> None:
    spec = fusiest.load("tpu_v4i", "matmuls", N_EINSUMS=3, M=256, KN=256)
    alone = front(fusiest.map(spec, jobs=1))
    assert front(fusiest.map(spec, jobs=2)) == alone
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert front(fusiest.map(spec, executor=pool)) == alone


def test_max_fused_loops_limits_the_loops() -> None:
    spec = fusiest.load("simple", "matmuls", **CHAIN, GlobalBufferSize=1500, MainMemoryEnergy=20e-12)
    unlimited, none = fusiest.map(spec, "energy"), fusiest.map(spec, "energy", max_fused_loops=0)
    assert none.best("energy").energy > unlimited.best("energy").energy


def test_json(tmp_path: Path) -> None:
    result = fusiest.map(diamond(tmp_path, "300"))
    document = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert document["format"] == "fusiest-result/1"
    assert document["objective"] == ["energy", "latency"]
    assert document["optimal"] is True
    first = document["mappings"][0]
    assert {"energy", "latency", "edp", "einsum_order", "mapping"} <= set(first)
    assert sum(first["energy_by_component"].values()) == pytest.approx(first["energy"], rel=1e-12)
    assert sorted(name for names in first["fused_sets"] for name in names) == ["A", "B", "C", "D"]
    again = load_texts({"spec": document["spec"], "mapping": first["mapping"]}, {})
    assert fusiest.evaluate(again).energy == first["energy"]
    assert set(document["stats"]["pmappings"]) == {"A", "B", "C", "D"}
    assert len(document["stats"]["joined"]) == 4
    assert document["stats"]["wall_seconds"] > 0


def test_time_limit_gives_the_best_so_far() -> None:
    spec = fusiest.load("tpu_v4i", "matmuls", N_EINSUMS=3, M=256, KN=256)
    limited = fusiest.map(spec, "edp", orders="given", time_limit=0)
    exact = fusiest.map(spec, "edp", orders="given")
    assert 0 <= limited.gap < 1
    if not limited.optimal:
        assert limited.gap > 0
    assert limited.best("edp").edp >= exact.best("edp").edp * (1 - 1e-9)


def test_nothing_fits_one_einsum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(DIAMOND.replace("SIZE", "4").replace("keep: ~DRAM, may_keep: All", "keep: All"))
    status, _, error = run(capsys, "map", str(file), str(file), "--quiet")
    assert status == 3
    assert error.count("\n") == 1
    assert "Einsum A" in error
    assert "Buf" in error
    assert "more than its size of 4" in error


def test_bad_options(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--objective", "power"], ["--orders", "some"], ["--jobs", "0"], ["--time-limit", "-1"]):
        status, _, error = run(capsys, "map", "simple", "matvecs", *options)
        assert status == 2
        assert error.count("\n") == 1


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mapping, document = tmp_path / "m.yaml", tmp_path / "r.json"
    defines = ["-D", "N_EINSUMS=2", "-D", "M=16", "-D", "KN=16"]
    arguments = ["map", "simple", "matmuls", *defines, "--objective", "energy", "--quiet"]
    status, out, error = run(capsys, *arguments, "--mapping", str(mapping), "--json", str(document))
    assert (status, error) == (0, "")
    assert "proven optimal" in out
    energy = json.loads(document.read_text())["mappings"][0]["energy"]
    status, _, _ = run(capsys, "evaluate", "simple", "matmuls", str(mapping), *defines, "--json", str(document))
    assert status == 0
    assert json.loads(document.read_text())["energy"] == energy


ARRAY = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: All},
             actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}
  - !Container {name: Array, spatial: [{name: X, fanout: 7, usage_scale: 0.07, may_reuse: All}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1, throughput: 1}]}
workload: {rank_sizes: {M: 100}, bits_per_value: 8, einsums: ["B[m] = A[m]"]}
"""


@pytest.mark.parametrize("imperfect", [False, True])
def test_a_fanout_can_be_filled_by_decimals(imperfect: bool) -> None:
    """100 instances at 0.07 each are 7: all operations at once."""
    assert fusiest.map(load_text(ARRAY), "latency", imperfect=imperfect, jobs=1).best("latency").latency == 1


SLOW_IS_CHEAP = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: ~Intermediates, may_keep: All},
             actions: [{name: read, energy: 20, throughput: 2}, {name: write, energy: 20, throughput: inf}]}
  - !Memory {name: Buf, size: 24, component_class: Dummy, tensors: {keep: ~DRAM},
             actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: inf}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1, throughput: inf}]}
workload:
  rank_sizes: {M: 1, N: 1}
  bits_per_value: {All: 8}
  einsums: [{einsum: "T0[m, n] = W0[m, n]", is_copy_operation: true}, "T1[m, n] = T0[m, n]", "T2[m, n] = T1[m, n]"]
"""


def test_cheap_pmappings_that_are_too_slow_are_no_way_to_the_fastest_mapping() -> None:
    """Of two mappings of an Einsum, the slow one costs less: lines move on past it."""
    spec = load_text(SLOW_IS_CHEAP)
    fastest, front = fusiest.map(spec, "latency", jobs=1).mappings[0], fusiest.map(spec, jobs=1).mappings
    assert (fastest.energy, fastest.latency) == (front[-1].energy, front[-1].latency)
