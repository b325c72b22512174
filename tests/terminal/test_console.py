"""Text fits the stream that it is written to."""

from __future__ import annotations

import pytest
from rich.text import Text

from fusiest.terminal.console import fitting, render
from fusiest.terminal.grid import Grid, grid
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


def table() -> Grid:
    found = grid("<name", ">energy", "?>share")
    found.add("a_name_of_nearly_forty_characters_in_all", "12 mJ", "100.0%")
    return found


@pytest.mark.parametrize(("columns", "shared"), [(80, True), (50, False), (16, False)])
def test_a_narrow_terminal_loses_only_what_can_be_spared(
    columns: int, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines that are still too long are whole, for the terminal to wrap."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    head, row = render([table()], Terminal()).splitlines()
    assert head.split() == ["name", "energy"] + ["share"] * shared
    assert row.split("  ") == ["a_name_of_nearly_forty_characters_in_all", " 12 mJ"] + ["100.0%"] * shared


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


def test_names_give_no_orders_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Escape codes in a file's names are shown, not obeyed; styles of our own stay."""
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    cells = grid("<name")
    cells.add(Text("\x1b]0;title\x07", "cyan"))
    shown = render(["X\x1b[2J", Text("Y\x9b31m", "bold"), cells], Terminal())
    assert shown.splitlines()[:2] == ["X?[2J", "\x1b[1mY?31m\x1b[0m"]
    assert "?]0;title" in shown
    assert not {"\x07", "\x9b"} & set(shown)
