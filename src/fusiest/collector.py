"""Python's collector of cyclic garbage, paused where many objects are made and no cycles: in a search, while loading."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def collect_new() -> None:
    """Collect what was made since the collector was paused: between the searches of which a long one is made."""
    gc.collect(0)


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
