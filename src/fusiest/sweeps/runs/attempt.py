"""One run, tried: whatever becomes of it is a row of plain data, never an exception.

This is what runs in a child process, here or on another machine.
"""

from __future__ import annotations

import functools
import math
import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from fusiest.base.errors import FusiestError, InternalError, OutOfMemory, SpecError
from fusiest.base.objective import aim_of, cost_of
from fusiest.mapper import Options, Result
from fusiest.spec import Spec, bind_everything, combined, with_nodes_of
from fusiest.sweeps.reuse.canonical import RunForm

SAME = 1e-12
"""Costs on two designs that are so close, relatively, are the same: the same sums were rounded."""


@dataclass(frozen=True)
class PackedSpec:
    """A spec that was checked, in two parts: runs have many machines, and few workloads."""

    machine: bytes
    work: bytes

    def unpacked(self) -> Spec:
        """The spec. It shares what it can with the one before of the same workload."""
        before = _LATEST.get(self.work)
        machine = pickle.loads(self.machine)
        if before is not None:
            machine = with_nodes_of(machine, before)
        spec = combined(machine, _unpacked(self.work), checked=True, like=before)
        bind_everything(spec)
        if len(_LATEST) >= _MOST_WORKLOADS:
            _LATEST.clear()
        _LATEST[self.work] = spec
        return spec


_MOST_WORKLOADS = 4
_LATEST: dict[bytes, Spec] = {}
"""The latest spec of each workload."""


@functools.lru_cache(_MOST_WORKLOADS)
def _unpacked(work: bytes) -> Spec:
    spec: Spec = pickle.loads(work)
    return spec


class _OfSpec:
    """What tasks have in common."""

    given: Spec | PackedSpec

    @functools.cached_property
    def spec(self) -> Spec:
        """What the task is about."""
        return self.given.unpacked() if isinstance(self.given, PackedSpec) else self.given

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "spec"}


@dataclass(frozen=True)
class SearchTask(_OfSpec):
    """A spec to map."""

    given: Spec | PackedSpec
    options: Options
    family: str = ""
    """Runs of a family may share tables: a process that has done one is the best for the next. Empty: none are shared."""
    watch: str = ""
    """A memory of which many smaller sizes will be asked for."""
    form: RunForm | None = None
    """The spec's, if it is known."""
    rates: frozenset[str] = frozenset()
    """Components of which many throughputs will be asked for."""


@dataclass(frozen=True)
class CoverTask(_OfSpec):
    """Mappings that are optimal on a design which is nowhere worse: are they, at the same cost, on this one?"""

    given: Spec | PackedSpec
    options: Options
    document: dict[str, Any]


SweepTask: TypeAlias = SearchTask | CoverTask


@dataclass(frozen=True)
class Outcome:
    """What became of a task."""

    status: str
    reason: str = ""
    energy: float | None = None
    latency: float | None = None
    gap: float | None = None
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    peak_bytes: int = 0
    document: bytes = field(default=b"", repr=False)
    """The result, packed."""
    object: str = ""
    """Its name, if it is in the store already."""
    needed: dict[str, float] = field(default_factory=dict, repr=False)
    """Bits of each memory that the result's mappings need."""


class Hands(Protocol):
    """What does tasks: child processes here, or a cluster."""

    @property
    def idle(self) -> int: ...

    @property
    def running(self) -> int: ...

    def submit(self, key: str, task: SweepTask) -> None: ...

    def finished(self, seconds: float) -> Iterator[tuple[str, Outcome]]: ...


def attempt(task: SweepTask) -> Outcome:
    """Do a task."""
    from fusiest.mapper import cpu_seconds

    begin, cpu = time.perf_counter(), cpu_seconds()
    try:
        outcome = _search(task) if isinstance(task, SearchTask) else _cover(task)
    except (MemoryError, OutOfMemory):
        outcome = Outcome("out of memory", "the search needs more memory than a run may take")
    except FusiestError as error:
        outcome = _refused(error)
    except Exception as error:
        outcome = Outcome("internal error", f"{type(error).__name__}: {error}")
    measured = {"cpu_seconds": cpu_seconds() - cpu, "wall_seconds": time.perf_counter() - begin}
    return Outcome(**{**outcome.__dict__, **measured})


def _refused(error: FusiestError) -> Outcome:
    from fusiest.pmapping import NoMapping

    if isinstance(error, NoMapping):
        return Outcome("no valid mapping", str(error))
    if isinstance(error, InternalError):
        return Outcome("internal error", error.args[0])
    return Outcome("bad design", str(error))


def _search(task: SearchTask) -> Outcome:
    from fusiest.mapper import Prior, can_have_windows, result_json, search_with
    from fusiest.sweeps.reuse.table_cache import Shelf, own_shelf
    from fusiest.sweeps.store.store import packed

    shelf = own_shelf() if task.family else Shelf()
    if task.form is not None:
        shelf.expect(task.spec, task.options, task.form)
    shared = shelf.has_any
    windows = can_have_windows(task.spec, task.options)  # of what others have found, tables alone change no answer then
    result = shelf.result(task.spec, task.options) if not windows else None
    if result is None:
        watch = shelf.worth_watching(task.spec, task.options, task.watch) if not windows else ""
        try:
            known = shelf.tables(task.spec, task.options) or shelf.open_tables(task.spec, task.options, task.rates)
            start = () if shelf.passed or windows else shelf.start(task.family)
            turns = shelf.turn_tables(task.spec, task.options, task.rates) if windows else None
            result, tables, _, front = search_with(
                task.spec, task.options, prior=Prior(known, start, True, watch, turns)
            )
        except (MemoryError, OutOfMemory):
            if not shared:
                raise
            shelf.clear()  # what is kept for others must not be what is too much
            return _search(task)
        shelf.keep(task.spec, task.options, tables)
        shelf.keep_front(task.spec, task.options, front)
    shelf.keep_mappings(task.family, [mapping.looptree for mapping in result.mappings])
    best = result.best(result.aim)
    status, reason = _judged(result)
    return Outcome(
        status, reason, best.energy, best.latency, result.gap, peak_bytes=result.stats.peak_rss_bytes,
        document=packed(result_json(result)), needed=_needed(result),
    )  # fmt: skip


def _needed(result: Result) -> dict[str, float]:
    needs: dict[str, float] = {}
    for mapping in result.mappings:
        for name, bits in mapping.evaluation.peak_occupancy_bits.items():
            needs[name] = max(needs.get(name, 0.0), float(bits))
    return needs


def _judged(result: Result) -> tuple[str, str]:
    if result.stopped == "memory":
        return "out of memory", f"the best so far; {result.proof}"
    if result.stopped is not None:
        return "time limit", f"the best so far; {result.proof}"
    return "done", "" if result.optimal else result.proof


def _cover(task: CoverTask) -> Outcome:
    """`covered` if every mapping is valid here and costs the same; else `open`: it takes a search."""
    from fusiest.mapper import mappings_on
    from fusiest.pmapping import NoMapping

    mappings = []
    try:
        for mapping, costs in mappings_on(task.spec, task.document):
            for name, value in costs.items():
                if not math.isclose(getattr(mapping, name), value, rel_tol=SAME, abs_tol=0.0):
                    return Outcome("open")
            mappings.append(mapping)
    except (SpecError, NoMapping):
        return Outcome("open")
    aim = aim_of(task.options.objective)
    best = min(mappings, key=lambda m: (cost_of(m, aim), m.energy, m.latency))
    return Outcome("covered", "", best.energy, best.latency, 0.0)
