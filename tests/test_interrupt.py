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
from fusiest.base import interrupt
from tests.proving import PROVE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no signals here: Windows")

SEARCH = ("map", "snowcat", "mobilenet", "-D", "SIZE=14", "--usage", "GlobalBuffer")
"""A first pass that finds mappings soon, and a long exact one."""
FILES = {"--json": "r.json", "--mapping": "m.yaml", "--report": "r.html"}
PATIENCE = 600
"""Seconds that a process may take to end: far more than it does."""


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


def test_twice_at_once_is_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "_AT_ONCE_SECONDS", float("inf"))
    with interrupt.deferred():
        press()
        press()
        assert interrupt.taken()
        assert not interrupt.taken()


def test_pressed_once_more_it_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "_AT_ONCE_SECONDS", -1.0)
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


PRESSED = """
import os, signal, sys
from fusiest.__main__ import main

moment, whole_group, program = sys.argv.pop(1), sys.argv.pop(1) == "group", os.getpid()

def press():
    (os.killpg if whole_group else os.kill)(program, signal.SIGINT)

if moment.isdigit():
    calls = iter(range(int(moment)))

    def count(frame, event, argument):
        if event == "call" and next(calls, None) is None:
            sys.setprofile(None)
            press()

    sys.setprofile(count)
else:
    from fusiest.terminal.progress_line import ProgressLine

    say, moments = ProgressLine.__call__, [moment]

    def said(self, step):
        say(self, step)
        if moments and str(step).startswith(moments[0]):
            moments.clear()
            press()

    ProgressLine.__call__ = said
main()
"""
"""The program, which presses Ctrl-C itself: after so many calls of functions, or when it has said some step. A clock would not
meet a moment on a machine that is busy with others."""


def start(*arguments: str, pressed: str | None = None, whole_group: bool = False) -> subprocess.Popen[str]:
    """A real process, in a group of its own as a shell makes one."""
    program = ["-m", "fusiest"] if pressed is None else ["-c", PRESSED, pressed, "group" if whole_group else "one"]
    return subprocess.Popen(
        [sys.executable, *program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(fusiest.__file__).parents[1])}, start_new_session=True,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it printed by its end; all its processes are gone."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    nobody_is_left(process.pid)
    return out, err


def nobody_is_left(group: int) -> None:
    """No process of a group goes on. One that has ended may still be listed, until its parent asks for its status."""
    deadline = time.monotonic() + PATIENCE
    while goes_on(group):
        if time.monotonic() > deadline:
            os.killpg(group, signal.SIGKILL)
            pytest.fail("a process is left")
        time.sleep(0.1)


def goes_on(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    if not Path("/proc/self/stat").exists():
        return True
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            state, _, its_group, *_ = file.read_text().rpartition(")")[2].split()
            if int(its_group) == group and state not in "ZX":
                return True
    return False


def outputs(folder: Path) -> list[str]:
    return [text for option, name in FILES.items() for text in (option, str(folder / name))]


def check_end(process: subprocess.Popen[str], out: str, err: str, folder: Path) -> None:
    """One line or the best so far, and no file or a whole one. Pressed when all was done but the goodbye, it may be late."""
    assert process.returncode in (0, 130), err
    assert "Traceback" not in err
    assert "Exception" not in err
    told = "interrupted" in err or ("interrupted, " in out and "better is possible" in out) or "proven optimal" in out
    assert told, (out, err)
    names = {path.name for path in folder.iterdir()}
    assert names <= set(FILES.values())
    if process.returncode == 0:
        assert names == set(FILES.values())
    for name in names:
        assert (folder / name).read_text().rstrip()[-1] in "}>]", name


@pytest.mark.parametrize("moment", ["10", "300", "9000", "90000", "500000", "exploring 2", "first pass 2", "report"])
def test_at_many_moments(moment: str, tmp_path: Path) -> None:
    """From the first moment, through imports, exploring and joining, to reports."""
    jobs = "1" if moment.isdigit() else "2"
    process = start(*SEARCH, *outputs(tmp_path), "--jobs", jobs, pressed=moment, whole_group=moment.endswith(" 2"))
    out, err = ended(process)
    check_end(process, out, err, tmp_path)
    assert process.returncode == 130


@pytest.mark.skipif(not PROVE, reason="random moments are for FUSIEST_PROVE=1")
@pytest.mark.parametrize("seed", range(100 if PROVE else 1))
def test_at_any_time(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    process = start(*SEARCH, *outputs(tmp_path), "--jobs", str(dice.choice([1, 2])))
    time.sleep(dice.choice([0.02, 0.3, 1, 3, 6]) * dice.uniform(0.5, 2))
    if process.poll() is None:
        (os.killpg if dice.random() < 0.5 else os.kill)(process.pid, signal.SIGINT)
    out, err = ended(process)
    if process.returncode in (1, -signal.SIGINT) and not re.search("fusiest.*, in main", err) and not out:
        return  # Python had not come to the program's first line
    check_end(process, out, err, tmp_path)


def test_the_best_so_far_and_its_gap(tmp_path: Path) -> None:
    process = start(*SEARCH, "--json", str(tmp_path / "r.json"), pressed="joining", whole_group=True)
    out, err = ended(process)
    assert process.returncode == 130, err
    caution, headline = out.splitlines()[:2]
    assert re.match(r"Gap \d+%: another mapping may be that much better", caution)
    assert "interrupted, not proven optimal: at most" in headline
    assert (tmp_path / "r.json").exists()


def test_nothing_known_yet() -> None:
    process = start(*SEARCH, pressed="loading")
    out, err = ended(process)
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
    nobody_is_left(process.pid)
