"""Text fits the stream that it is written to."""

from __future__ import annotations

import pytest
from rich.table import Table
from rich.text import Text

from fusiest.terminal.console import fitting, render
from tests.terminal.streams import Terminal

COLOURED = Text("found", "bold green")


def test_colours_only_on_a_terminal_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert render([COLOURED], Terminal()) == "\x1b[1;32mfound\x1b[0m"
    assert render([COLOURED], Terminal(tty=False)) == "found"
    monkeypatch.setenv("NO_COLOR", "1")
    assert render([COLOURED], Terminal()) == "found"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert render([COLOURED], Terminal()) == "found"


def words() -> Table:
    table = Table(box=None)
    table.add_column("name", overflow="fold")
    table.add_row("a_name_of_nearly_forty_characters_in_all")
    return table


def test_a_narrow_terminal_folds_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "16")
    monkeypatch.setenv("NO_COLOR", "1")
    lines = render([words()], Terminal()).splitlines()
    assert max(map(len, lines)) <= 16
    assert "".join(line.strip() for line in lines[1:]) == "a_name_of_nearly_forty_characters_in_all"


def test_a_pipe_breaks_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert render(["x " * 500, Text("y " * 500)], Terminal(tty=False)).count("\n") == 1


def test_brackets_are_not_markup() -> None:
    assert render(["[T0 in MainMemory] :smile: [/bold]"], Terminal(tty=False)) == "[T0 in MainMemory] :smile: [/bold]"


def test_characters_that_a_stream_lacks() -> None:
    assert fitting("3 µs, ├─ ü", Terminal("utf-8")) == "3 µs, ├─ ü"
    assert fitting("3 µs, ├─ ü", Terminal("ascii")) == "3 us, |- ?"
    assert fitting("3 µs, ├─", Terminal("latin-1")) == "3 us, |-"
    assert fitting("3 µs", Terminal("latin-1")) == "3 µs"
    assert fitting("3 µs", None) == "3 µs"
