"""ProgressLine never scrolls the screen full."""

from __future__ import annotations

import pytest

from fusiest.mapper.progress import Step
from fusiest.terminal.progress_line import ProgressLine
from tests.terminal.streams import Terminal

STEPS = [Step("exploring", f"E{i} has 12 pmappings", i, 50) for i in range(1, 51)] + [
    Step("joining", "3 partial mappings", i, 50) for i in range(1, 51)
]


class FakeClock:
    """A second passes at every look."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def play(stream: Terminal, quiet: bool = False) -> str:
    with ProgressLine(stream, quiet, FakeClock()) as progress:
        for step in STEPS:
            progress(step)
    return stream.getvalue()


@pytest.mark.parametrize("columns", [20, 80])
def test_a_terminal_shows_one_line_that_never_wraps(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    written = play(Terminal())
    assert "\n" not in written
    lines = written.split("\r\x1b[K")
    assert len(lines) == len(STEPS) + 2
    assert max(map(len, lines)) < columns
    assert lines[-1] == ""


def test_the_bar_fills(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    lines = play(Terminal()).split("\r\x1b[K")
    assert [line.count("━") for line in lines[1:51]] == [20 * i // 50 for i in range(1, 51)]
    assert "exploring 25 of 50 Einsums: E25 has 12 pmappings" in lines[25]


def test_a_narrow_terminal_has_room_for_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    assert "exploring 9 of 50" in play(Terminal())


def test_elsewhere_a_line_per_phase_and_one_every_ten_seconds() -> None:
    lines = play(Terminal(tty=False)).splitlines()
    assert [line.split(" s  ")[1].split(":")[0] for line in lines] == [
        *(f"exploring {i} of 50 Einsums" for i in (1, 11, 21, 31, 41)),
        *(f"joining {i} of 50 Einsums" for i in (1, 11, 21, 31, 41)),
    ]
    assert not any("\x1b" in line or "━" in line for line in lines)


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert play(Terminal()) == play(Terminal(tty=False))


def test_ascii_terminals_get_a_bar_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    written = play(Terminal("ascii"))
    assert written.isascii()
    assert "####" in written


def test_quiet_says_nothing() -> None:
    assert play(Terminal(), quiet=True) == ""
    assert play(Terminal(tty=False), quiet=True) == ""


def test_a_long_step_is_seen_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the time goes on; elsewhere there is a line every 30 seconds."""
    monkeypatch.setenv("TERM", "xterm")
    live, plain = Terminal(), Terminal(tty=False)
    for stream in (live, plain):
        with ProgressLine(stream, False, FakeClock()) as progress:
            progress(STEPS[0])
            for _ in range(65):
                progress.beat()
    assert live.getvalue().count("exploring 1 of 50") == 66
    assert [line.split()[0] for line in plain.getvalue().splitlines()] == ["1.0", "31.0", "61.0"]


def test_nothing_beats_in_the_middle_of_a_line() -> None:
    class InterruptedTerminal(Terminal):
        def write(self, text: str) -> int:
            progress.beat()
            return super().write(text)

    stream = InterruptedTerminal(tty=False)
    progress = ProgressLine(stream, False, lambda: 100.0)
    progress(STEPS[0])
    progress(STEPS[-1])
    assert len(stream.getvalue().splitlines()) == 2


def test_the_timer_is_put_back() -> None:
    import signal

    before = signal.getsignal(signal.SIGALRM)
    with ProgressLine(Terminal(), False):
        assert signal.getitimer(signal.ITIMER_REAL)[1] == 1
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
