"""How much work a spec may cause: no template, expression or product of Einsums and nodes can keep the loader busy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fusiest.base.errors import SpecError


class Budget:
    """Steps that may still be taken. Each is taken from the budget around this one, too.

    >>> Budget(2, "too much").spend(3)
    Traceback (most recent call last):
    fusiest.base.errors.SpecError: too much
    """

    __slots__ = ("message", "outer", "remaining")

    def __init__(self, steps: int, message: str) -> None:
        self.remaining, self.message, self.outer = steps, message, _CURRENT.get()

    def spend(self, steps: int = 1, at: str | None = None) -> None:
        """Take steps, or raise."""
        self.remaining -= steps
        if self.remaining < 0:
            raise SpecError(self.message, at)
        if self.outer is not None:
            self.outer.spend(steps, at)


_CURRENT: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budget(steps: int, message: str) -> Iterator[Budget]:
    """What is spent inside is limited to this."""
    limit = Budget(steps, message)
    token = _CURRENT.set(limit)
    try:
        yield limit
    finally:
        _CURRENT.reset(token)


def spend(steps: int, at: str | None = None) -> None:
    """Take steps from the budget that we are in, if any."""
    current = _CURRENT.get()
    if current is not None:
        current.spend(steps, at)
