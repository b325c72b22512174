"""Options of a search, checked before anything slow begins."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple, ParamSpec, TypeVar, get_origin, get_type_hints

from fusiest.base.errors import SpecError, did_you_mean, shown
from fusiest.base.objective import OBJECTIVES, Objective, objective_of
from fusiest.mapper.resources import machine_cores, machine_memory

_AT_A_LOOK = 0.9
"""Share of the memory limit with which a search ends."""
_SHARE_OF_MEMORY = 0.75
P = ParamSpec("P")
R = TypeVar("R")


class Said(NamedTuple):
    """What users are told of an option: the command line, its page and the text of `map` are made from it."""

    text: str
    value: str = ""
    """What its value is called on the command line; empty for a switch."""
    words: str = ""
    """The values that it may have, if there are few."""
    unit: str = ""
    """In what it is counted, in Python."""


@dataclass(frozen=True)
class Options:
    """Options of a search.

    The switches at the end change only its time, never its result, so that their effect can be measured.
    """

    objective: Annotated[
        tuple[str, ...],
        Said(
            f"{', '.join(OBJECTIVES)}, or energy,latency for the whole front",
            "WHAT",
            f"{' '.join(OBJECTIVES)} energy,latency",
        ),
    ] = ("energy", "latency")
    usage: Annotated[
        str | None,
        Said("as little as possible of this memory: all mappings that are best for some size of it", "MEMORY"),
    ] = None
    orders: Annotated[
        str, Said("all orders of Einsums that respect dependencies, or the given one", words="all given")
    ] = "all"
    max_fused_loops: Annotated[int | None, Said("at most this many fused loops per Einsum", "N")] = None
    max_fused_loops_per_variable: Annotated[int, Said("at most this many per rank variable", "N")] = 1
    exchange: Annotated[
        str,
        Said(
            "any: also mappings that use tensors before they are finished, whose values are wrong", words="finished any"
        ),
    ] = "finished"
    windows: Annotated[
        str,
        Said(
            "fuse through halos: what overlaps is kept (retained), or also made again (all); default: all, and none with "
            "--usage or --exchange any",
            words="none retained all",
        ),
    ] = "none"
    imperfect: Annotated[bool, Said("also tiles that do not divide")] = False
    jobs: Annotated[int | None, Said("processes; default: one per core", "N")] = None
    time_limit: Annotated[
        float | None,
        Said(
            "then, or as soon after as one is known, the best mapping so far, with its gap", "SECONDS", unit="seconds"
        ),
    ] = None
    memory_limit: Annotated[
        float | None,
        Said(
            "of all processes together, such as 8G or 500M: then the best mapping so far; default: 75% of the machine's",
            "SIZE",
            unit="bytes",
        ),
    ] = None
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
        """Bytes that all processes together may have in use when one looks: by the next look it can be more."""
        return _AT_A_LOOK * self.memory_limit if self.memory_limit is not None else _SHARE_OF_MEMORY * machine_memory()

    @property
    def minimized(self) -> Objective:
        """The objective, as the search knows it."""
        return objective_of(self.objective)

    def __post_init__(self) -> None:
        object.__setattr__(self, "objective", objective_of(self.objective).names)
        for name, said in told().items():
            value, words = getattr(self, name), said.words.split()
            if words and name != "objective" and value not in words:
                raise SpecError(f"{name} '{value}' is not known{did_you_mean(value, words)}")
        if self.windows != "none" and self.usage is not None:
            raise SpecError("windows are not searched for all sizes of a memory; leave out usage or windows")
        for name in ("jobs", "time_limit", "memory_limit", "max_fused_loops", "max_fused_loops_per_variable"):
            value = getattr(self, name)
            least = 1 if name in ("jobs", "max_fused_loops_per_variable") else 0
            if value is not None and not value >= least:
                raise SpecError(f"{name} must be at least {least}, but is {value}")


@functools.cache
def told() -> dict[str, Said]:
    """The options that users are told of."""
    hints = get_type_hints(Options, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if get_origin(hint) is Annotated}


def documented(function: Callable[P, R]) -> Callable[P, R]:
    """Put what is said of each option into a function's text, in place of OPTIONS."""
    lines = []
    for name, said in told().items():
        words = f" ({', '.join(said.words.split())})" if said.words and name != "objective" else ""
        lines.append(f"`{name}`{said.unit and ', ' + said.unit}: {said.text.replace('--', '')}{words}.")
    function.__doc__ = (function.__doc__ or "").replace("OPTIONS", "\n    ".join(lines))
    return function


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
