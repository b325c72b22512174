"""How inner loops are compiled: by Numba, on first use, and kept on disk until any of that code changes.

Numba itself takes what it kept for good while the function's own file has the same age and size. But compiled code contains
that of other files, and pip gives files the age that they had in the package: code of an older version would go on running.
Here everything compiled goes by the text of all modules with inner loops.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import multiprocessing.connection
import os
from collections.abc import Callable, Iterable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numba
import numba.core.config
from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys

from fusiest.base import workers

# Numba would take settings from a file in the working folder, also the folder of compiled code that it runs.
numba.core.config._config_fname = os.devnull
numba.core.config.reload_config()  # type: ignore[no-untyped-call]
MODULES = ("base/objective.py", "experiments/baselines/*.py", "joining/rows/kernels.py", "pmapping/**/*kernels.py")
"""Inner loops, and what is compiled into them as a constant (`CLOSE`): if their text changes, all is compiled anew."""


def compiled(**options: Any) -> Callable[[Any], Any]:
    """A decorator for an inner loop, which has to be in one of `MODULES`; `options` are Numba's."""

    def decorate(function: Any) -> Any:
        flags: dict[str, Any] = {"no_cfunc_wrapper": True, **options}  # C never calls it
        loop: Any = numba.njit(**flags)(function)
        if loop is not function:  # compiling is not switched off
            with contextlib.suppress(RuntimeError):  # no folder can be written to: every process compiles anew
                loop._cache = _Kept(function)
        return loop

    return decorate


class _Kept(FunctionCache):
    """Compiled code on disk, which goes by the text of the modules. If it cannot be written, that is no error."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._cache_file._source_stamp = _stamp()
        # Numba reads what it has kept before it looks at that stamp, and that may name a class that is no more.
        self._cache_file._version = f"{numba.__version__} {_stamp()}"

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept of the function as it is now."""
        return not self._cache_file._load_index()  # type: ignore[no-untyped-call]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was kept needs the runtime, but nothing of all that compiling needs, which takes 0.2 s to load."""
        _Elsewhere.wait_for(self)
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            overload = self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
            if overload is not None:
                return overload
        return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


class _Elsewhere:
    """What another process compiles."""

    sentinel: int | None = None
    """Ready when that process has ended. Processes that are forked meanwhile know it, too."""
    caches: tuple[_Kept, ...] = ()
    process: BaseProcess | None = None
    """Kept: what is forgotten of it would close the sentinel."""

    @classmethod
    def wait_for(cls, cache: _Kept) -> None:
        if cls.sentinel is not None and cache in cls.caches:
            multiprocessing.connection.wait([cls.sentinel])
            cls.sentinel = None


def compile_elsewhere(loops: Iterable[Any], use: Callable[[], None]) -> None:
    """If nothing is kept of some inner loops, another process compiles and keeps them: it calls `use`, which calls them.

    Here they are waited for when they are needed. If that process fails, they are compiled here.
    """
    caches = tuple(cache for loop in loops if isinstance(cache := getattr(loop, "_cache", None), _Kept))
    if _Elsewhere.caches or not caches or not all(cache.is_empty for cache in caches):
        return
    process = workers.begin(use)
    if process is not None:
        _Elsewhere.sentinel, _Elsewhere.caches, _Elsewhere.process = process.sentinel, caches, process


@functools.cache
def _stamp() -> str:
    folder = Path(__file__).parents[1]
    files = sorted(file for pattern in MODULES for file in folder.glob(pattern))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()
