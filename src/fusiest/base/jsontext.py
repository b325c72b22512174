"""JSON of unknown origin: Python's objects take a hundred times the space of the text, so their number is bounded first."""

from __future__ import annotations

import json
from typing import Any

MAX_VALUES = 5_000_000
"""Most values in a text. A value takes 60 to 200 bytes as an object."""


def read_json(text: str | bytes, most: int = MAX_VALUES) -> Any:
    """The value of a JSON text. A `ValueError` says why there is none: too many values, nested too deeply, no JSON.

    >>> read_json('{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> read_json("[[], [], []]", most=4)
    Traceback (most recent call last):
    ValueError: more than 4 values
    """
    marks: tuple[Any, ...] = (",", "[", "{") if isinstance(text, str) else (b",", b"[", b"{")
    if sum(text.count(mark) for mark in marks) > most:  # each value but the first has one of these before it
        raise ValueError(f"more than {most:,} values")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
