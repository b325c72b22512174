"""How many steps a spec may take to check: no product of Einsums, nodes and expressions can keep the loader busy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fusiest.errors import SpecError

_LEFT: ContextVar[list[int] | None] = ContextVar("left", default=None)


@contextmanager
def allowance(steps: int) -> Iterator[None]:
    """Limit what is charged inside.

    >>> with allowance(2):
    ...     charge(3)
    Traceback (most recent call last):
    fusiest.errors.SpecError: the spec takes too long to check: too many Einsums, nodes or long expressions
    """
    token = _LEFT.set([steps])
    try:
        yield
    finally:
        _LEFT.reset(token)


def charge(steps: int, at: str | None = None) -> None:
    """Take steps from the allowance, if there is one."""
    left = _LEFT.get()
    if left is not None:
        left[0] -= steps
        if left[0] < 0:
            raise SpecError("the spec takes too long to check: too many Einsums, nodes or long expressions", at)
