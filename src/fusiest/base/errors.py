"""Every error that a user can cause, each one line: where, what is wrong, what was meant.

Nothing here knows about specs or mappings: all packages may import it.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass

MAX_MESSAGE = 1_000
MAX_MISSPELLED = 100


@dataclass(frozen=True, slots=True)
class Source:
    """A place in a file, counted from line 1; line 0 for what is in no file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Located(str):
    """Text that remembers where it was written. It compares and hashes as plain text."""

    __slots__ = ("source",)
    source: Source | None

    def __new__(cls, text: str, source: Source | None = None) -> Located:
        located = super().__new__(cls, text)
        located.source = source
        return located

    def __reduce__(self) -> tuple[type[Located], tuple[str, Source | None]]:
        return Located, (str(self), self.source)


class FusiestError(Exception):
    """Base of all errors that end in one line and an exit status, never in a traceback."""

    exit_status = 2


class InternalError(FusiestError):
    """A mistake of ours: what one part says another denies."""

    def __str__(self) -> str:
        return f"internal error: {self.args[0]}"


class Interrupted(FusiestError):
    """Ctrl-C, and what there is not because of it."""

    exit_status = 130


class OutOfMemory(FusiestError):
    """There is not enough memory for the search."""

    exit_status = 4


class SpecError(FusiestError):
    """A spec or mapping that cannot be read or makes no sense."""

    def __init__(self, message: str, at: Source | str | None = None) -> None:
        source = at.source if isinstance(at, Located) else at if isinstance(at, Source) else None
        line = " ".join(message.splitlines())
        self.message = line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 1] + "…"
        self.source = source
        super().__init__(f"{source}: {self.message}" if source else self.message)

    def __reduce__(self) -> tuple[type[SpecError], tuple[str, Source | None]]:
        return type(self), (self.message, self.source)


class SpecWarning(UserWarning):
    """Something in a spec that has no effect, or another than one might think."""

    def __init__(self, message: str, at: Source | str | None = None) -> None:
        error = SpecError(message, at)
        self.message = Located(error.message, error.source)
        super().__init__(error.message, error.source)  # what makes it again, in another process

    def __str__(self) -> str:
        return str(SpecError(*self.args))


def warn(message: str, at: Source | str | None = None) -> None:
    """Warn of something in a spec, as Python warns; the command line prints it as a line."""
    warnings.warn(SpecWarning(message, at), stacklevel=2)


class InvalidMapping(SpecError):
    """A well-formed mapping that the architecture cannot run: which memory or fanout, and by how much."""

    exit_status = 3


def shown(value: object) -> str:
    """A value as a message shows it: on one line, and only the beginning if it is long.

    >>> len(shown("x" * 1000))
    80
    """
    text = " ".join(str(value).split())
    return text if len(text) <= 80 else text[:79] + "…"


def closest(wrong: object, known: Iterable[str]) -> str | None:
    """The name that a misspelling stands for; None if it is like none of them, or no text: a file may say anything.

    >>> closest("kep", ["keep", "may_keep"])
    'keep'
    """
    if not isinstance(wrong, str):
        return None
    names = sorted({str(name) for name in known})
    alike = [n for n in names if len(n) <= MAX_MISSPELLED] if len(wrong) <= MAX_MISSPELLED else []
    other_case = [n for n in names if n.lower() == wrong.lower()]
    return next(iter(difflib.get_close_matches(wrong, alike, n=1) or other_case), None)


def did_you_mean(wrong: object, known: Iterable[str]) -> str:
    """The cure for a misspelling, ready to be appended to a message.

    >>> did_you_mean("kep", ["keep", "may_keep"])
    "; did you mean 'keep'?"
    >>> did_you_mean("xyz", ["keep", "back"])
    '; known: back, keep'
    """
    names = sorted({str(name) for name in known})
    meant = closest(wrong, names)
    if meant is not None:
        return f"; did you mean '{meant}'?"
    first = ", ".join(shown(name) for name in names[:12]) + (", …" if len(names) > 12 else "")
    return f"; known: {first}" if names else ""


def check_known(name: str, known: Collection[str], message: str, at: Source | str | None = None) -> None:
    """Refuse a name that is none of these, with the cure for a misspelling.

    >>> check_known("kep", ["keep", "back"], "no field 'kep'")
    Traceback (most recent call last):
    fusiest.base.errors.SpecError: no field 'kep'; did you mean 'keep'?
    """
    if name not in known:
        raise SpecError(f"{message}{did_you_mean(name, known)}", at)
