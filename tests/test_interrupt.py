"""Ctrl-C at any time: status 130, the best so far or one line, no traceback, nothing half-written, no process left."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import fusiest
from fusiest import interrupt
from tests.proving import PROVE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

SEARCH = ("map", "snowcat", "mobilenet", "-D", "SIZE=14", "--usage", "GlobalBuffer")
"""A first pass that finds mappings soon, and a long exact one."""


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def _default_handler() -> Iterator[None]:
    """A background shell ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_it_is_raised_where_asked_for() -> None:
    passed = False
    with interrupt.deferred():
        interrupt.check()
        press()
        passed = True
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()
        interrupt.check()  # answered once
    assert passed


def test_it_is_raised_at_the_end_if_nobody_asks() -> None:
    reached = []

    def pressed() -> None:
        with interrupt.deferred():
            with interrupt.deferred():
                press()
            reached.append("the end of the inner block")

    with pytest.raises(KeyboardInterrupt):
        pressed()
    assert reached


def test_the_caller_may_answer() -> None:
    with interrupt.deferred():
        press()
        assert interrupt.taken()
        assert not interrupt.taken()


def test_what_is_nearly_done_is_finished() -> None:
    with interrupt.deferred():
        with interrupt.finishing():
            press()
            interrupt.check()
        assert interrupt.taken()


def test_twice_at_once_is_once() -> None:
    with interrupt.deferred():
        press()
        press()
        assert interrupt.taken()
        assert not interrupt.taken()


def test_pressed_once_more_it_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "_AT_ONCE_SECONDS", 0.0)
    with interrupt.deferred():
        press()
        with pytest.raises(KeyboardInterrupt):
            press()
        assert interrupt.taken()


def test_handlers_of_others_are_left_alone() -> None:
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    with interrupt.deferred():
        press()
    assert heard == [1]
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_outside_it_is_an_exception_at_once() -> None:
    with interrupt.program(), pytest.raises(KeyboardInterrupt):
        press()


def test_a_search_in_python_returns_what_it_has() -> None:
    spec = fusiest.load("snowcat", "mobilenet", SIZE=14)

    def progress(step: object) -> None:
        if str(step).startswith("joining 2"):
            press()

    result = fusiest.map(spec, usage="GlobalBuffer", progress=progress, jobs=1)
    assert (result.interrupted, result.optimal) == (True, False)
    assert result.mappings
    assert 0 < result.gap <= 1
    with pytest.raises(KeyboardInterrupt):
        fusiest.map(spec, progress=lambda step: press(), jobs=1)


def start(*arguments: str) -> subprocess.Popen[str]:
    """A real process, in a group of its own as a shell makes one."""
    return subprocess.Popen(
        [sys.executable, "-m", "fusiest", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(fusiest.__file__).parents[1])}, start_new_session=True,
    )  # fmt: skip


def ended(process: subprocess.Popen[str], whole_group: bool) -> tuple[str, str]:
    """What it printed after Ctrl-C; all its processes are gone."""
    if whole_group:
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    for _ in range(100):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return out, err
        time.sleep(0.1)
    pytest.fail("a process is left")


@pytest.mark.parametrize("seed", range(100 if PROVE else 8))
def test_at_any_time(seed: int, tmp_path: Path) -> None:
    """From the first moment, through imports, exploring and joining, to reports."""
    dice = random.Random(seed)
    files = {name: str(tmp_path / name) for name in ("r.json", "m.yaml", "r.html")}
    options = ["--json", files["r.json"], "--mapping", files["m.yaml"], "--report", files["r.html"]]
    process = start(*SEARCH, *options, "--jobs", str(dice.choice([1, 2])))
    time.sleep(dice.choice([0.02, 0.3, 1, 3, 6]) * dice.uniform(0.5, 2))
    written = all((tmp_path / name).exists() for name in files)
    if process.poll() is None:
        out, err = ended(process, dice.random() < 0.5)
        if process.returncode in (1, -signal.SIGINT) and not re.search("fusiest.*, in main", err) and not out:
            return  # Python had not come to the program's first line
        assert process.returncode == 130 or (written and process.returncode == 0), err
        assert "Traceback" not in err
        assert "Exception" not in err
        told = (
            "interrupted" in err or ("interrupted, " in out and "better is possible" in out) or "proven optimal" in out
        )
        assert told, (out, err)
    names = {path.name for path in tmp_path.iterdir()}
    assert names <= set(files)
    if process.returncode == 0:
        assert names == set(files)
    for name in names:
        assert (tmp_path / name).read_text().rstrip()[-1] in "}>]", name


def test_the_best_so_far_and_its_gap(tmp_path: Path) -> None:
    process = start(*SEARCH, "--json", str(tmp_path / "r.json"))
    assert process.stderr is not None
    while (line := process.stderr.readline()) and "joining" not in line:
        pass
    out, err = ended(process, True)
    assert process.returncode == 130, err
    assert "interrupted, not proven optimal: at most" in out.splitlines()[0]
    assert (tmp_path / "r.json").exists()


def test_nothing_known_yet() -> None:
    process = start(*SEARCH)
    assert process.stderr is not None
    while (line := process.stderr.readline()) and "loading" not in line:
        pass
    out, err = ended(process, False)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted before a mapping was known"


def test_workers_do_not_outlive_a_killed_program() -> None:
    process = start("map", "tpu_v4i", "gpt3_6.7B", "-D", "BATCH_SIZE=64", "--jobs", "2")
    assert process.stderr is not None
    while (line := process.stderr.readline()) and "exploring" not in line:
        pass
    time.sleep(1.5)
    process.kill()
    process.communicate()
    with contextlib.suppress(ProcessLookupError):
        for _ in range(300):
            os.killpg(process.pid, 0)
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail("a worker is left")
