"""Printing for commands: results to stdout, errors in one line to stderr, quiet when a pipe closes."""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings as warnings_module
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec

import typer

from fusiest.base.errors import FusiestError, Interrupted, Located, SpecWarning
from fusiest.base.files import write_atomically
from fusiest.cli.arguments import STDOUT
from fusiest.terminal import fitting, printable, render, silence

if TYPE_CHECKING:
    from fusiest.terminal import Part

P = ParamSpec("P")


def echo(text: str) -> None:
    """Print plain text as a result."""
    with writing_to_stdout():
        print(fitting(printable(text), sys.stdout), flush=True)


def present(parts: list[Part]) -> None:
    """Print a result laid out for the terminal, if there is one."""
    with writing_to_stdout():
        print(fitting(render(parts, sys.stdout), sys.stdout), flush=True)


def write_output(file: str, text: str) -> None:
    """Write to a file, or with `-` to stdout."""
    if file == STDOUT:
        with writing_to_stdout():
            sys.stdout.write(text)
            sys.stdout.flush()
    else:
        write_atomically(file, text)


@contextlib.contextmanager
def writing_to_stdout() -> Iterator[None]:
    """A full disk is an error like others. A closed pipe is none: who reads has seen enough."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        silence(sys.stdout)
        raise FusiestError(f"the result cannot be written: {error.strerror}") from None


class Deliveries:
    """Printing and writing one result, each in a `with` of its own: it is tried whatever became of those before it.

    What failed is said at the end, in a line each; after Ctrl-C, also what was not begun or not finished.
    """

    def __init__(self, *files: str | None) -> None:
        self.missing = [file for file in files if file is not None]
        self.errors: list[FusiestError] = []
        self.closed: BrokenPipeError | None = None

    def __enter__(self) -> Deliveries:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for failure in self.errors:
            _to_stderr(str(failure))
        if kind is not None and issubclass(kind, KeyboardInterrupt) and self.missing:
            names = " and ".join(self.missing)
            raise Interrupted(f"interrupted: {names} {'is' if len(self.missing) == 1 else 'are'} not written")
        if kind is None and self.errors:
            raise typer.Exit(self.errors[0].exit_status)
        if kind is None and self.closed is not None:
            raise self.closed

    @contextlib.contextmanager
    def delivery(self, file: str | None = None) -> Iterator[None]:
        """Deliver to a file, or to stdout."""
        try:
            yield
        except BrokenPipeError as error:
            silence(sys.stdout)
            self.closed = error
        except FusiestError as error:
            self.errors.append(error)
        if file in self.missing:
            self.missing.remove(file)

    def write(self, file: str | None, text: Callable[[], str]) -> None:
        """Write a text to a file or, with `-`, to stdout, if that is asked for."""
        if file is not None:
            with self.delivery(file):
                write_output(file, text())


def interruptible(command: Callable[P, None]) -> Callable[P, None]:
    """A command that Ctrl-C ends in one line."""

    @functools.wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None

    return run


def command_line() -> tuple[str, ...]:
    """The command as the user typed it, for the result's file."""
    return ("fusiest", *sys.argv[1:])


def complain(message: str, status: int) -> NoReturn:
    """End with one line on stderr."""
    _to_stderr(message)
    sys.exit(status)


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """What Python would show as a warning about a spec is one line on stderr."""
    with warnings_module.catch_warnings():
        warnings_module.simplefilter("always", SpecWarning)
        original = warnings_module.showwarning

        def show(message: Warning | str, *args: Any, **kwargs: Any) -> None:
            if isinstance(message, SpecWarning):
                warn([message.message])
            else:
                original(message, *args, **kwargs)

        warnings_module.showwarning = show
        yield


def warn(warnings: Iterable[str]) -> None:
    """A line on stderr for each, with its place if it has one."""
    for warning in warnings:
        place = f"{warning.source}: " if isinstance(warning, Located) and warning.source else ""
        _to_stderr(f"{place}warning: {warning}")


def note(notes: Iterable[str]) -> None:
    """A line on stderr for each."""
    for text in notes:
        _to_stderr(f"note: {text}")


def _to_stderr(message: str) -> None:
    if sys.stderr is None:  # closed before the program began; print would take stdout instead
        return
    try:
        print(fitting(printable(" ".join(message.split())), sys.stderr), file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)
