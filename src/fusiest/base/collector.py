"""Python's collector of cyclic garbage, paused where many objects are made and no cycles: in a search, while loading."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def collected_after(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: what it has made is collected after it, though the collector is paused for many searches."""

    @functools.wraps(function)
    def called(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return function(*arguments, **options)
        finally:
            gc.collect(0)

    return called


@contextmanager
def collector_paused() -> Iterator[None]:
    """No collection inside, unless it was off anyway."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
