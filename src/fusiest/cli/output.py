"""Printing for commands: results to stdout, errors in one line to stderr, quiet when a pipe closes."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from fusiest.errors import FusiestError
from fusiest.terminal.console import fitting


def echo(text: str) -> None:
    """Print a result."""
    try:
        print(fitting(text, sys.stdout), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        silence_stdout()
        raise FusiestError(f"the result cannot be written: {error.strerror}") from None


def complain(message: str, status: int) -> NoReturn:
    """End with one line on stderr."""
    print(fitting(" ".join(message.split()), sys.stderr), file=sys.stderr)
    sys.exit(status)


def silence_stdout() -> None:
    """What is left in the buffer must not fail once more when the interpreter flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
