"""Sweeps: every run equals `fusiest map` on its design; failures are rows; nothing finished is lost or done again."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

import fusiest
from fusiest.base.errors import FusiestError, SpecError
from fusiest.mapper import Options, Prior, search_with
from fusiest.mapper import run as search
from fusiest.sweeps import Reuse, Store, Sweep
from fusiest.sweeps.file.component_fields import with_field
from fusiest.sweeps.file.design_specs import Chips
from fusiest.sweeps.file.designs import Designs
from fusiest.sweeps.file.sweepfile import make_sweep
from fusiest.sweeps.reuse.canonical import run_form
from fusiest.sweeps.reuse.table_cache import Shelf
from fusiest.sweeps.runs import children as children_module
from fusiest.sweeps.store.upkeep import check_store
from tests.command_line import run

FIELDS = {
    "arch": "simple",
    "workloads": [{"file": "matmuls", "defines": {"N_EINSUMS": 2, "M": 16, "KN": 16}}],
    "parameters": {"GlobalBufferSize": [2048, 4096, 8192, 65536], "MainMemory.read.throughput": [1e9, 1e12]},
    "objective": "edp",
}


def made(**more: object) -> Sweep:
    return fusiest.sweep(jobs=1, **{**FIELDS, **more})


def test_runs_equal_map(tmp_path: Path) -> None:
    with made(store=tmp_path / "runs") as sweep:
        sweep.run()
        assert sweep.counts.covered > 0
        for answer in sweep:
            spec = fusiest.load(
                "simple", "matmuls", N_EINSUMS=2, M=16, KN=16, GlobalBufferSize=answer.design.values["GlobalBufferSize"]
            )
            read = next(n for n in spec.arch.nodes if n.name == "MainMemory").actions
            faster = tuple(
                fusiest.spec.hardware.architecture.Action(
                    name=a.name, energy=a.energy,
                    throughput=answer.design.values["MainMemory.read.throughput"] if a.name == "read" else a.throughput,
                )
                for a in read
            )  # fmt: skip
            best = fusiest.map(spec.with_component("MainMemory", actions=faster), "edp", jobs=1).best()
            assert answer.row.energy * answer.row.latency == pytest.approx(best.edp, rel=1e-9)
            own = sweep.result(answer.design)
            assert own.best().edp == pytest.approx(best.edp, rel=1e-9)
            assert own.spec == spec.with_component("MainMemory", actions=faster)
        assert check_store(sweep.store) == []
        for number in (-1, len(sweep)):
            with pytest.raises(FusiestError, match=f"no design {number}: they are numbered from 0 to {len(sweep) - 1}"):
                sweep.result(number)
    with pytest.raises(SpecError, match="jobs must be at least 1, but is 0"):
        fusiest.sweep(store=tmp_path / "others", jobs=0, **FIELDS)
    assert not (tmp_path / "others").exists()


def test_the_second_time_all_is_known(tmp_path: Path) -> None:
    with made(store=tmp_path / "runs") as sweep:
        first = sweep.run().table().rows
    with (
        made(store=tmp_path / "runs") as sweep,
        mock.patch.object(children_module, "Child", side_effect=AssertionError),
    ):
        again = sweep.run().table()
        assert sweep.counts.known == sweep.counts.total == 8
        assert sweep.resume().counts.known == 8
    keep = [i for i, name in enumerate(again.columns) if name not in ("how",)]
    assert [[row[i] for i in keep] for row in again.rows] == [[row[i] for i in keep] for row in first]


def test_answers_to_another_question_are_not_known(tmp_path: Path) -> None:
    few = {"parameters": {"GlobalBufferSize": [4096]}, "store": tmp_path / "runs"}
    for more in ({}, {"objective": "energy"}, {"orders": "given"}, {"windows": "all"}):
        with made(**few, **more) as sweep:
            # A workload without halos has the same answer, whatever is said of windows.
            assert [a.how for a in sweep] == ["known" if "windows" in more else "searched"], more


@pytest.mark.parametrize(
    "text", ["{{KIB}} * 8192", "{{ KIB }}", "{% set N = KIB * 8 %}{{N}} * 1024", "{{KIB}} + {{KIB}}"]
)
def test_specs_are_those_that_files_would_give(tmp_path: Path, text: str) -> None:
    """Whether a define stands for a field or is computed with; each design, and its run's form."""
    file = tmp_path / "chip.yaml"
    file.write_text(
        fusiest.load("simple").to_yaml().replace('"8 * 1024 * 1024"', text).replace("name: MAC", "name: MAC{{K}}")
    )
    fields = {"KIB": [16, 1, 11, 2.5, 4e20], "K": [1, 2], "MainMemory.read.throughput": [1e9, 3e9]}
    for parameters in ({**fields, "K": [1]}, fields):
        sweep = make_sweep({**FIELDS, "arch": str(file), "parameters": parameters})
        chips = Chips(sweep)
        for design in Designs(sweep):
            made = chips.spec(design, sweep.workloads[0])
            plain = fusiest.load(
                file, "matmuls", **sweep.workloads[0].defines, KIB=design.values["KIB"], K=design.values["K"]
            )
            spec = with_field(plain, "MainMemory.read.throughput", design.values["MainMemory.read.throughput"])
            assert made == spec
            assert run_form(made, Options()) == run_form(fusiest.load(spec), Options())
            assert made.bound == spec.bound
            assert dict(made.origin.defines) == {**dict(plain.origin.defines)}


def test_without_reuse_all_is_searched(tmp_path: Path) -> None:
    small = {"GlobalBufferSize": [8192, 65536]}
    with made(store=tmp_path / "runs", parameters=small, reuse=Reuse(known=False, covered=False)) as sweep:
        assert sweep.run().counts.searched == 2
    with made(store=tmp_path / "runs", parameters=small, reuse=Reuse(known=False, covered=False)) as sweep:
        assert sweep.run().counts.searched == 2
        assert len(sweep.store) == 2


def test_best_and_front() -> None:
    two = [{"file": "matmuls", "name": "one", "defines": {"N_EINSUMS": 1, "M": 8, "KN": 8}, "weight": 0.25, "n_instances": 4},
           {"file": "matmuls", "name": "two", "defines": {"N_EINSUMS": 2, "M": 8, "KN": 8}}]  # fmt: skip
    with made(workloads=two, parameters={"GlobalBufferSize": [1024, 2048, 65536]}) as sweep:
        best = sweep.best()[0]
        figures = sweep.designs()
        assert best["edp"] == min(d["edp"] for d in figures)
        for one in figures:
            rows = {a.workload.label: a.row for a in sweep if a.design == one.design}
            assert one["energy"] == pytest.approx(0.25 * 4 * rows["one"].energy + rows["two"].energy)
            assert one["edp"].parts["one"] == pytest.approx(16 * rows["one"].energy * rows["one"].latency)
        assert sweep.best("energy", ["GlobalBufferSize < 2048"])[0].design.values["GlobalBufferSize"] == 1024
        assert sweep.best("energy", ["latency.one < 0"]) == []
        assert len(sweep.front("energy", "latency")) >= 1
        with pytest.raises(fusiest.SpecError, match="did you mean 'energy'"):
            sweep.best("enery")
        with pytest.raises(fusiest.SpecError, match="no figure"):
            sweep.front("size")


def test_failures_are_rows(tmp_path: Path) -> None:
    """A design that needs 40 GiB, one that never ends, one that crashes, one without a mapping: the others are done."""
    sizes = [1, 40_001, 40_002, 40_003, *range(50_000, 50_012)]
    both = {"GlobalBufferSize": sizes, "MainMemory.size": {"expression": "1 if GlobalBufferSize == 1 else 1e9"}}
    asleep, jumps = tmp_path / "asleep", itertools.count()

    def clock() -> float:
        """Jumps as long as the process of the design that never ends is there: no other runs into the time limit."""
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(asleep.read_text()), 0)
            return time.monotonic() + 1e6 * next(jumps)
        return time.monotonic()

    with made(store=tmp_path / "runs", parameters=both, time_limit=100_000.0, memory_limit=4.0) as sweep:
        function = mock.patch.object(
            children_module.Children.__init__, "__defaults__", (None, None, "tests.sweeps.tasks:misbehave")
        )
        root = str(Path(__file__).parents[2])
        later = mock.patch.object(children_module, "time", mock.Mock(monotonic=clock))
        with function, later, mock.patch.dict(os.environ, {"PYTHONPATH": root, "FUSIEST_TEST_LOG": str(asleep)}):
            found = {a.design.values["GlobalBufferSize"]: a for a in sweep.run()}
        status = {size: answer.row.status for size, answer in found.items()}
        assert [status[size] for size in sizes[:4]] == ["no valid mapping", "out of memory", "time limit", "killed"]
        assert "SIGSEGV" in found[40_003].row.reason
        assert {status[size] for size in sizes[4:]} <= {"done", "covered"}
        assert sweep.counts.failed == 4
        assert check_store(sweep.store) == []
        assert len(sweep.store) == len(sizes)
    with made(store=tmp_path / "runs", parameters=both, retry=True) as sweep:
        assert sweep.run().counts.known == 12, "failures are tried again, and only they"
        assert sweep.counts.failed == 1


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = (
        "sweep",
        "simple",
        "matmuls",
        "-D",
        "GlobalBufferSize=2048,65536",
        "-D",
        "M=8",
        "-D",
        "KN=8",
        "--jobs",
        "1",
        "--quiet",
    )
    status, out, err = run(capsys, *command, "--table", "all.csv")
    assert (status, err) == (0, "")
    assert "2 of 2 runs" in out
    assert "least edp, of 2 designs" in out
    lines = Path("all.csv").read_text().splitlines()
    assert lines[0].startswith("design,GlobalBufferSize,M,KN,area,workload,n_instances,how,status,energy")
    assert len(lines) == 3
    status, out, _ = run(capsys, *command, "--table", "all.json")
    assert len(json.loads(Path("all.json").read_text())) == 2
    assert "2 known" in out
    assert "2 known" in run(capsys, *command, "--dry-run")[1]
    assert "finished" in run(capsys, *command, "--status")[1]
    assert run(capsys, *command, "--no-reuse", "knwn")[0] == 2
    assert run(capsys, *command, "--table", "all.txt")[0] == 2
    status, _, err = run(capsys, *command, "-D", "M=16")
    assert (status, err) == (2, "-D M is given twice; its values go into one, with commas\n")


SIGNALLED = """
import os, signal, sys
from fusiest.cli import main
from fusiest.sweeps.store.store import Store

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores Ctrl-C
put, kept, how = Store.put, [], int(sys.argv.pop(1))

def counted(self, *given):
    kept.append(put(self, *given))
    if len(kept) == 2:
        os.kill(os.getpid(), how)
    return kept[-1]

Store.put = counted
main()
"""
"""The program, which gets a signal once it has kept two runs."""


def test_interrupted_and_killed(tmp_path: Path) -> None:
    """Ctrl-C ends in a line; kill -9 at any time loses nothing that was finished, and the same command goes on."""
    sizes = ",".join(str(4096 + 512 * i) for i in range(24))
    arguments = ["sweep", "simple", "matmuls", "-D", f"GlobalBufferSize={sizes}", "-D", "M=16",
               "--jobs", "1", "--no-reuse", "covered", "--quiet", "--store", str(tmp_path / "runs")]  # fmt: skip

    def sweep(signal_number: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", SIGNALLED, str(signal_number), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = 0
    for how in (signal.SIGINT, signal.SIGKILL):
        ended = sweep(how)
        assert ended.returncode == (130 if how == signal.SIGINT else -9), ended.stderr
        assert ("the same command goes on" in ended.stderr) == (how == signal.SIGINT)
        with Store(tmp_path / "runs") as store:
            done, before = len(store), done
        assert before + 2 <= done < 24
    finished = sweep(0)
    assert finished.returncode == 0, finished.stderr
    assert f"{done} known" in finished.stdout
    with Store(tmp_path / "runs") as store:
        assert check_store(store) == []
        assert len(store) == 24


def test_bounds_rule_designs_out(tmp_path: Path) -> None:
    """Slow memories and conditions on parameters cannot be best: they are not searched, and the best is the same."""
    slow = {"MainMemory.read.throughput": [1e6, 1e7, 1e12], "GlobalBufferSize": [8192, 65536]}
    want = {"minimize": "edp", "subject to": ["GlobalBufferSize > 8192", "latency <= 1"]}
    with made(parameters=slow, best=want) as sweep:
        best = sweep.run().best()[0]
        assert sweep.counts.pruned >= 4
        reasons = {a.row.reason for a in sweep if a.how == "pruned"}
        assert "not GlobalBufferSize > 8192" in reasons
        assert any("at least, and" in reason for reason in reasons)
    assert best.design.values == {"MainMemory.read.throughput": 1e12, "GlobalBufferSize": 65536}
    with made(parameters=slow, best=want, reuse=Reuse(bounds=False)) as sweep:
        assert sweep.run().counts.pruned == 0
        assert sweep.best()[0]["edp"] == best["edp"]


def test_smaller_sizes_take_the_tables_of_larger_ones() -> None:
    """Nothing is explored for the second design, and its result is the same."""
    specs = [fusiest.load("simple", "matmuls", N_EINSUMS=2, M=16, KN=16, GlobalBufferSize=n) for n in (5000, 1500)]
    options, shelf = Options(objective=("edp",), jobs=1), Shelf()
    assert shelf.tables(specs[0], options) == {}
    first = search_with(specs[0], options, prior=Prior(shared=True)).tables
    shelf.keep(specs[0], options, first)
    second = shelf.tables(specs[1], options)
    assert len(second) == len(first) > 0
    assert 0 < sum(map(len, second.values())) < sum(map(len, first.values()))
    with mock.patch("fusiest.pmapping.explore.EinsumSearch.table", side_effect=AssertionError):
        shared = search(specs[1], options, prior=Prior(second, shared=True))
    assert shared.best().edp == pytest.approx(search(specs[1], options).best().edp, rel=1e-12)
    shelf.kept.clear()
    shelf.keep(specs[1], options, second)
    assert shelf.tables(specs[0], options) == {}, "tables of a smaller design lack rows"
    slower = fusiest.load("simple", "matmuls", N_EINSUMS=2, M=16, KN=8, GlobalBufferSize=1024)
    assert shelf.tables(slower, options) == {}


def test_proofs_bound_other_designs(tmp_path: Path) -> None:
    """The design that is nowhere worse than all others is searched, and the smaller one that may be as good; no other is."""
    grid = {"GlobalBufferSize": [1024, 2048, 65536], "MainMemory.read.throughput": [1e9, 1e12]}
    with made(parameters=grid, best={"minimize": "edp"}, store=tmp_path / "runs") as sweep:
        best = sweep.run().best()[0]
        searched = [dict(a.design.values) for a in sweep.answers if a.how == "searched"]
        names = list(grid)
        assert searched == [dict(zip(names, (size, 1e12), strict=True)) for size in (65536, 2048)]
        assert (sweep.counts.pruned, sweep.counts.covered) == (3, 1)
    with made(parameters=grid, reuse=Reuse(bounds=False)) as sweep:
        assert min(float(d["edp"]) for d in sweep.designs()) == pytest.approx(float(best["edp"]), rel=1e-12)


@contextlib.contextmanager
def made_up_answers(tmp_path: Path) -> Iterator[None]:
    """In place of searches."""
    defaults = (None, None, "tests.sweeps.tasks:quick")
    places = {"PYTHONPATH": str(Path(__file__).parents[2]), "FUSIEST_TEST_LOG": str(tmp_path / "log")}
    with (
        mock.patch.object(children_module.Children.__init__, "__defaults__", defaults),
        mock.patch.dict(os.environ, places),
    ):
        yield


def test_a_full_disk(tmp_path: Path) -> None:
    """One line says so; what was finished is kept, nothing is half written, and the same command goes on."""
    sizes = ",".join(str(50_000 + i) for i in range(40))
    code = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
from fusiest.sweeps.runs import children
children.Children.__init__.__defaults__ = (None, None, "tests.sweeps.tasks:quick")
from fusiest.cli import main
main()
"""
    command = ["sweep", "simple", "matmuls", "-D", f"GlobalBufferSize={sizes}", "--jobs", "1", "--quiet", "--no-reuse", "covered",
               "--store", str(tmp_path / "runs")]  # fmt: skip
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "FUSIEST_TEST_LOG": str(tmp_path / "log"),
    }
    # A file may become so large: enough for the table to be made, not for all its rows.
    full = subprocess.run(
        [sys.executable, "-c", code, "200000", *command], env=environment, capture_output=True, text=True, check=False
    )
    assert (full.returncode, full.stderr.count("\n")) == (2, 1), full.stderr
    with Store(tmp_path / "runs") as store:
        kept = len(store)
        assert 0 < kept < 40
        assert check_store(store, evaluate=False) == []
    again = subprocess.run(
        [sys.executable, "-c", code, "-1", *command], env=environment, capture_output=True, text=True, check=False
    )
    assert (again.returncode, again.stderr) == (0, "")
    assert f"{kept} known" in again.stdout
    with Store(tmp_path / "runs") as store:
        assert check_store(store, evaluate=False) == []
        assert len(store) == 40


def test_optuna_chooses(tmp_path: Path) -> None:
    """Of a large grid a few designs; the same again, and known, when the command goes on."""
    pytest.importorskip("optuna", reason="no Optuna: pip install 'fusiest[optuna]'")
    grid = {"GlobalBufferSize": {"range": [2048, 65536], "step": 512}, "MainMemory.read.throughput": [1e9, 1e10, 1e12]}
    fields = {
        "parameters": grid,
        "where": ["GlobalBufferSize > 4000"],
        "sample": {"optuna": 24, "seed": 3},
        "best": "energy",
    }
    reuse = Reuse(covered=False, bounds=False)
    with made_up_answers(tmp_path), made(**fields, store=tmp_path / "runs", reuse=reuse) as sweep:
        first = sorted(a.design.number for a in sweep.run())
        assert 12 < len(first) <= len(sweep) == 24
        assert len(set(first)) == len(first)
        sizes = [a.design.values["GlobalBufferSize"] for a in sweep]
        assert min(sizes) > 4000
        assert sorted(sizes[10:])[5] < sorted(sizes[:10])[5], "where less is better, it looks for less"
        assert sweep.best()[0].design.values["GlobalBufferSize"] == min(sizes)
    with made(**fields, store=tmp_path / "runs", reuse=reuse) as sweep:
        assert sorted(a.design.number for a in sweep.run()) == first
        assert sweep.counts.known == sweep.counts.total


def test_a_name_that_is_no_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file whose name is no UTF-8: the sweep runs, is known, and has its page and its table."""
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"chips\xff.yaml")
    Path(name).write_text(json.dumps({"sweep": {**FIELDS, "parameters": {"GlobalBufferSize": [4096]}}}))
    for more in (
        ["--jobs", "1"],
        ["--jobs", "1", "--table", "t.csv", "--report", "p.html", "--reports", "0"],
        ["--status"],
    ):
        status, out, err = run(capsys, "sweep", name, "--quiet", *more)
        assert (status, err) == (0, "")
    assert "1 of 1 runs" in out
