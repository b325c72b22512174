"""Printing that fits the terminal: characters it can show, one line for errors, quiet when a pipe closes."""

from __future__ import annotations

import os
import sys
from typing import NoReturn, TextIO

from fusiest.errors import FusiestError

_ASCII = str.maketrans({"µ": "u", "…": "...", "×": "x", "├": "|", "└": "`", "│": "|", "─": "-", "≤": "<=", "→": "->"})


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


def fitting(text: str, stream: TextIO | None) -> str:
    """The text in characters that the stream can write: µ becomes u on an ASCII terminal."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text
