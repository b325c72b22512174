"""How inner loops are compiled: by Numba, on first use, and kept on disk until any of that code changes.

Numba itself takes what it kept for good while the function's own file has the same age and size. But compiled code contains
that of other files, and pip gives files the age that they had in the package: code of an older version would go on running.
Here everything compiled goes by the text of all modules with inner loops.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

MODULES = ("baselines/*.py", "joining/coarse.py", "pmapping/kernels.py")


def compiled(**options: Any) -> Callable[[Any], Any]:
    """A decorator for an inner loop, which has to be in one of `MODULES`; `options` are Numba's."""

    def decorate(function: Any) -> Any:
        found = numba.njit(cache=True, **options)(function)
        if hasattr(found, "_cache"):  # not if compiling is switched off
            found._cache._cache_file._source_stamp = _stamp()
        return found

    return decorate


@functools.cache
def _stamp() -> str:
    folder = Path(__file__).parent
    files = sorted(file for pattern in MODULES for file in folder.glob(pattern))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()
