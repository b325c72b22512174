"""Out of memory: one line or the best so far, and a status of its own."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import fusiest
from fusiest.base import workers
from fusiest.base.errors import OutOfMemory
from fusiest.joining import Coarse, JoinPass
from fusiest.mapper import resources, search, workforce
from fusiest.mapper.workforce import Workforce
from fusiest.pmapping.explore import EinsumSearch
from tests.command_line import run

DEFINES = {"N_EINSUMS": 3, "M": 32, "KN": 16, "GlobalBufferSize": 4096, "MainMemoryEnergy": 20e-12}
TWO = ("map", "simple", "matmuls", *(f"-D{name}={value}" for name, value in DEFINES.items()))


def fails(*_: object, **__: object) -> None:
    raise MemoryError


def test_nothing_known_yet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(EinsumSearch, "table", fails)
    status, out, err = run(capsys, *TWO, "--quiet", "--jobs", "1")
    assert (status, out, err.count("\n")) == (4, "", 1)
    assert err.startswith("out of memory before a mapping was known; ")


@pytest.mark.parametrize("gap_too", [False, True])
def test_the_best_so_far(gap_too: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The first pass goes through, the exact one does not; then there may not even be memory for the gap."""
    original = search.levels

    def exact_fails(problem: object, how: JoinPass, *rest: object) -> object:
        if how.coarse is None:
            raise MemoryError
        return original(problem, how, *rest)

    monkeypatch.setattr(search, "levels", exact_fails)
    monkeypatch.setattr(search, "FIRST_PASS", Coarse(most=3))  # which then misses the best
    if gap_too:
        monkeypatch.setattr(search.Search, "_gap", fails)
    spec = fusiest.load("simple", "matmuls", defines=DEFINES)
    result = fusiest.map(spec, jobs=1)
    assert (result.stopped, result.interrupted, result.optimal) == ("memory", False, False)
    assert result.mappings
    assert result.gap <= 1
    assert (result.gap == 1) == gap_too
    status, out, _ = run(capsys, *TWO, "--quiet", "--jobs", "1")
    assert status == 4
    caution, headline = out.splitlines()[:2]
    assert caution.startswith(f"Gap {result.gap:.0%}: ")
    assert ", out of memory, not proven optimal: at most " in headline


@pytest.mark.parametrize(
    ("objective", "words"), [("latency", "proven optimal in latency, not in energy"), ("edp", "proven optimal")]
)
def test_a_gap_of_nothing_leaves_ties_open(objective: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least latency is proven, but of mappings that have it there may be one of less energy."""

    def fails_at_once(*_: object) -> None:
        raise MemoryError

    def looks(found: search.Search) -> None:
        found.look()
        found.known = replace(found.known, final=False)

    monkeypatch.setattr(search, "PASSES", (looks, fails_at_once))
    monkeypatch.setattr(search.Search, "_gap", lambda self: 1e-12)
    result = fusiest.map(fusiest.load("simple", "matmuls", defines=DEFINES), objective, jobs=1)
    assert (result.optimal, result.gap, result.proof) == (True, 0.0, words)
    assert result.stopped == ("memory" if objective == "latency" else None)


class AskedHere(NamedTuple):
    einsum: str


def test_what_a_worker_has_no_memory_for_is_explored_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workforce, "_WORTH_A_PROCESS_SECONDS", -1.0)
    monkeypatch.setattr(workforce.workers, "make_pool", lambda count, work: _SameProcess())
    with Workforce[Any, str](lambda task: task.einsum.lower(), 2) as force:
        found = {task.einsum: answer for task, answer in force.each([AskedHere(name) for name in "ABC"])}
    assert found["B"] == "b"
    assert found.keys() == {"A", "B", "C"}


class _SameProcess:
    """A pool whose worker has no memory for B."""

    _processes: dict[int, object] = {}  # noqa: RUF012
    _executor_manager_thread = _result_queue = None

    def submit(self, work: object, task: AskedHere) -> object:
        from concurrent.futures import Future

        future: Future[str] = Future()
        if task.einsum == "B":
            future.set_exception(MemoryError())
        else:
            future.set_result("in a process")
        return future

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        pass


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="no figures of memory here: Linux has them")
def test_workers_count(tmp_path: Path) -> None:
    """Two workers with 60 MiB each are 120 MiB more for the process that hands out their work; what is common counts once."""
    common = np.ones(100 << 17)
    before = resources._share_of(os.getpid())
    pool = workers.make_pool(2, functools.partial(_take, folder=tmp_path, megabytes=60))
    futures = [pool.submit(workers.work_on, number) for number in range(2)]
    _wait(lambda: len(list(tmp_path.glob("taken*"))) == 2)
    resources._Common.until = 0.0
    together = resources.rss_bytes()
    (tmp_path / "enough").touch()
    own = [future.result() for future in futures]
    pool.shutdown()
    assert len(common)
    assert 115 < (together - before) / 2**20 < 220
    assert all(55 < size / 2**20 < 110 for size in own)


def _take(number: int, folder: Path, megabytes: int) -> float:
    """Take memory until it is enough; gives what the worker has of its own."""
    taken = np.ones(megabytes << 17)
    (folder / f"taken{number}").touch()
    _wait((folder / "enough").exists)
    return resources.rss_bytes() if len(taken) else 0.0


def _wait(until: Callable[[], bool]) -> None:
    while not until():
        time.sleep(0.01)


LIMITED = """
import resource, sys, fusiest
from fusiest.cli import main
from fusiest.terminal.progress_line import ProgressLine

fusiest.map(fusiest.load("tpu_v4i", "gpt3_6.7B", N_TOKENS=16), orders="given", jobs=1)
moment = sys.argv.pop()

def limit(self, step):
    if str(step).startswith(moment) and resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        pages = int(open("/proc/self/statm").read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (20 << 20),) * 2)

ProgressLine.__call__ = limit
main()
"""
"""The program, which from some moment on gets 20 MiB more, and then nothing. LLVM and OpenBLAS end a process
that has no memory to load them, so they are loaded before."""


@pytest.mark.skipif(sys.platform != "linux", reason="no limits of memory here: Linux has them")
@pytest.mark.parametrize(
    ("search", "moment"),
    [
        (("tpu_v4i", "gpt3_6.7B", "-D", "BATCH_SIZE=64"), "exploring 1"),
        (("snowcat", "mobilenet", "--usage", "GlobalBuffer"), "joining 1"),
    ],
)
def test_a_real_limit(search: tuple[str, ...], moment: str) -> None:
    """There is a mapping, or while exploring, if there is no room for a quick look either, one line."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "map", *search, "--jobs", "1", moment], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(fusiest.__file__).parents[1])},
    )  # fmt: skip
    assert done.returncode == OutOfMemory.exit_status, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    nothing = "before a mapping was known" in done.stderr
    assert ("out of memory, not proven optimal" in done.stdout) != nothing
    assert not nothing or moment.startswith("exploring")
