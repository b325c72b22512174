"""Printing for commands: results to stdout, errors in one line to stderr, quiet when a pipe closes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

from fusiest.errors import FusiestError, Located
from fusiest.terminal.console import fitting, printable, render

if TYPE_CHECKING:
    from fusiest.terminal.grid import Part


def echo(text: str) -> None:
    """Print plain text as a result."""
    _print(printable(text))


def present(parts: list[Part]) -> None:
    """Print a result laid out for the terminal, if there is one."""
    _print(render(parts, sys.stdout))


def _print(text: str) -> None:
    try:
        print(fitting(text, sys.stdout), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        silence_stdout()
        raise FusiestError(f"the result cannot be written: {error.strerror}") from None


def complain(message: str, status: int) -> NoReturn:
    """End with one line on stderr."""
    _to_stderr(message)
    sys.exit(status)


def warn(warnings: Iterable[str]) -> None:
    """A line on stderr for each, with its place if it has one."""
    for warning in warnings:
        place = f"{warning.source}: " if isinstance(warning, Located) and warning.source else ""
        _to_stderr(f"{place}warning: {warning}")


def _to_stderr(message: str) -> None:
    print(fitting(printable(" ".join(message.split())), sys.stderr), file=sys.stderr)


def silence_stdout() -> None:
    """What is left in the buffer must not fail once more when the interpreter flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
