"""Options of a search, checked before anything slow begins."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from fusiest.base.errors import SpecError, did_you_mean, shown
from fusiest.base.objective import Objective, objective_of
from fusiest.mapper.resources import machine_cores, machine_memory

_SHARE_OF_MEMORY = 0.75
EXCHANGES = ("finished", "any")
WINDOWS = ("none", "retained", "all")
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Options:
    """Options of a search.

    The switches at the end change only its time, never its result, so that their effect can be measured.
    """

    objective: tuple[str, ...] = ("energy", "latency")
    usage: str | None = None
    """A memory of which as little as possible is to be used: all mappings that are best for some size of it."""
    orders: str = "all"
    max_fused_loops: int | None = None
    max_fused_loops_per_variable: int = 1
    imperfect: bool = False
    exchange: str = "finished"
    """Whether Einsums use only what is `finished`, or `any` tensor: then the costs are right, but not the values."""
    windows: str = "none"
    """Whether Einsums are also fused through their halos: `none`; `retained`, what overlaps is kept; `all`, or made again."""
    jobs: int | None = None
    time_limit: float | None = None
    memory_limit: float | None = None
    """Bytes, of all processes together; by default three quarters of what the machine has."""
    coarse: bool = True
    bounds: bool = True
    grouping: bool = True
    """Partial mappings are joined group by group; else each is compared with each."""
    consolidation: bool = True
    """Space that finished Einsums take is summed up; else each Einsum's stays a criterion of its own."""

    @property
    def finished(self) -> bool:
        """Whether Einsums use only tensors that are finished."""
        return self.exchange == "finished"

    @property
    def processes(self) -> int:
        """Number of processes that may be at work."""
        return self.jobs if self.jobs is not None else machine_cores()

    @property
    def most_memory(self) -> float:
        """Bytes that all processes together may have in use."""
        return self.memory_limit if self.memory_limit is not None else _SHARE_OF_MEMORY * machine_memory()

    @property
    def minimized(self) -> Objective:
        """The objective, as the search knows it."""
        return objective_of(self.objective)

    def __post_init__(self) -> None:
        object.__setattr__(self, "objective", objective_of(self.objective).names)
        if self.orders not in ("all", "given"):
            raise SpecError(f"orders '{self.orders}' is neither all nor given")
        if self.exchange not in EXCHANGES:
            raise SpecError(f"exchange '{self.exchange}' is not known{did_you_mean(self.exchange, EXCHANGES)}")
        if self.windows not in WINDOWS:
            raise SpecError(f"windows '{self.windows}' is not known{did_you_mean(self.windows, WINDOWS)}")
        if self.windows != "none" and self.usage is not None:
            raise SpecError("windows are not searched for all sizes of a memory; leave out usage or windows")
        for name in ("jobs", "time_limit", "memory_limit", "max_fused_loops", "max_fused_loops_per_variable"):
            value = getattr(self, name)
            least = 1 if name in ("jobs", "max_fused_loops_per_variable") else 0
            if value is not None and not value >= least:
                raise SpecError(f"{name} must be at least {least}, but is {value}")


def hinting(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function of a spec: a file's name in its place, or an unknown option, is an error with a hint."""
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def hinted(*arguments: P.args, **options: P.kwargs) -> R:
        if arguments and isinstance(arguments[0], (str, os.PathLike)):
            raise TypeError(f"{function.__name__}() takes a spec: fusiest.load('{shown(arguments[0])}', …)")
        for name in options:
            if name not in parameters:
                raise TypeError(f"{function.__name__}() has no option '{name}'{did_you_mean(name, parameters)}")
        return function(*arguments, **options)

    return hinted
