"""What a store keeps: compressed results, read within bounds, whoever wrote them, and text that SQLite takes."""

from __future__ import annotations

import zlib
from typing import Any

from fusiest.base.jsontext import read_json

MOST_BYTES = 64 * 2**20
"""Most bytes of a result, packed or not."""


def unpacked(data: bytes) -> bytes:
    """The bytes that were compressed; none if they are damaged or too many."""
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, MOST_BYTES)
    except zlib.error:
        return b""
    return text if unpacker.eof else b""


def table_of(text: object) -> dict[str, Any]:
    """A JSON object; an empty one if the text is no object."""
    try:
        table = read_json(text) if isinstance(text, (str, bytes)) else None
    except ValueError:
        return {}
    return table if isinstance(table, dict) else {}


def storable(value: object) -> object:
    """A value for SQLite, whose text is UTF-8: bytes of a file's name that are not become `\\udcff`."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
