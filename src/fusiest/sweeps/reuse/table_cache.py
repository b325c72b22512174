"""Tables of pmappings that one design's search has explored, for others that differ from it only by smaller shared memories, or
by throughputs of memories.

Sizes of memories outside all fanouts only cut rows off: a row that is dominated is so by one that takes no more space, at every
boundary; and joining looks at sizes itself. So the tables of the largest design serve all. Where there are many throughputs,
tables are explored that leave these open. docs/sweep.md has the proofs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from fusiest.joining import make_charges, memory_sizes
from fusiest.looptree import LoopTree
from fusiest.mapper import KnownTurns, Options, Result, SizeFront, from_front, open_tables, question_of
from fusiest.pmapping import (
    Floats,
    Table,
    large_enough,
    meet_below_fanouts,
    meeting_memories,
    open_memories,
    with_rates,
)
from fusiest.spec import Spec
from fusiest.sweeps.reuse.canonical import RunForm, run_form

Entry = TypeVar("Entry")
MOST_SETS = 6
"""Most sets of tables, one per workload and design but for sizes, or but for sizes and throughputs."""
MOST_BYTES = 2**29
MOST_MAPPINGS = 8
"""Most mappings that are kept of one family."""


@dataclass(frozen=True)
class KeptTables:
    """The tables of a search, and what their rows need of shared memories, whatever they are joined with."""

    spec: Spec
    tables: dict[str, Table]
    needs: dict[str, list[Floats]]
    """Bits that the rows of each Einsum's groups need: rows × memories."""

    def fitting(self, name: str, sizes: Floats) -> Table:
        """The rows of an Einsum whose own space is there."""
        groups, table = {}, self.tables[name]
        for (compatibility, rows), need in zip(table.groups.items(), self.needs[name], strict=True):
            fits = (need <= sizes * (1 + 1e-12)).all(axis=1)
            if fits.any():
                groups[compatibility] = rows if fits.all() else rows.take(np.flatnonzero(fits))
        return dataclasses.replace(table, groups=groups, candidates={})


def kept_tables(spec: Spec, tables: Mapping[str, Table]) -> KeptTables:
    """The tables of a search of this spec."""
    needs = {}
    for name, table in tables.items():
        charges = make_charges(spec, table.memories)
        needs[name] = [charges.alone(name, compatibility, rows) for compatibility, rows in table.groups.items()]
    return KeptTables(spec, dict(tables), needs)


@dataclass
class Shelf:
    """The tables of a process's latest searches."""

    kept: OrderedDict[str, KeptTables] = field(default_factory=OrderedDict)
    mappings: OrderedDict[str, tuple[LoopTree, ...]] = field(default_factory=OrderedDict)
    """The best mappings of the latest searches of a family, by family: good ones to begin with on other designs of it."""
    turns: OrderedDict[str, KnownTurns] = field(default_factory=OrderedDict)
    """Tables below loops that make windows, by all but throughputs of memories that these leave open."""
    fronts: OrderedDict[str, tuple[Spec, SizeFront]] = field(default_factory=OrderedDict)
    """What is best for smaller sizes of one memory, and the design that has the largest."""
    too_wide: set[str | None] = field(default_factory=set)
    """Keys of `fronts` for which the best of smaller sizes took too long to find."""
    not_open: set[str] = field(default_factory=set)
    """Specs whose tables cannot leave throughputs open, or are too large then."""
    passed: bool = False
    """Whether what is best for the latest size costs much more than for the larger one: no known mapping is near, then."""
    latest: tuple[Spec, Options, RunForm, str | None] | None = None
    """The spec that was asked for last, its form, and its key, which takes a tenth of a short search."""

    def tables(self, spec: Spec, options: Options) -> dict[str, Table]:
        """The tables of a spec's Einsums, as far as they are known."""
        return self._fitting(self._key(spec, options), spec, options)

    def open_tables(self, spec: Spec, options: Options, rates: frozenset[str]) -> dict[str, Table]:
        """The tables of a spec's Einsums, settled from some for all throughputs of these components, which are explored unless they
        are known."""
        names = rates & open_memories(spec) if rates else rates
        key = table_key(spec, options, self._form(spec, options), names)
        if not names or key is None or key in self.not_open:
            return {}
        tables = self._fitting(key, spec, options)
        if not tables:
            self.kept.pop(key, None)
            self._keep(key, spec, open_tables(spec, options, names))
            tables = self._fitting(key, spec, options)
            self.not_open.update(() if tables else {key})
        return {name: with_rates(spec, table, names) for name, table in tables.items()}

    def turn_tables(self, spec: Spec, options: Options, rates: frozenset[str]) -> KnownTurns:
        """What is known of windows, to be added to. It depends on no throughputs that are left open; of these components, others will
        be asked for."""
        outside = open_memories(spec)
        key = self._form(spec, options).without((), outside)
        tables = self.turns.get(key) or KnownTurns(rates=rates & outside)
        _put(self.turns, key, tables)
        return tables

    def _fitting(self, key: str | None, spec: Spec, options: Options) -> dict[str, Table]:
        if key is None or key not in self.kept:
            return {}
        kept = self.kept[key]
        memories = _memories(spec, options)
        sizes, kept_sizes = memory_sizes(spec, memories), memory_sizes(kept.spec, memories)
        if not all((kept_sizes[name] >= sizes[name]).all() for name in sizes):
            return {}
        self.kept.move_to_end(key)
        fitting = {n: kept.fitting(n, sizes[n]) for n, table in kept.tables.items() if table.memories == memories}
        return {name: table for name, table in fitting.items() if len(table)}  # a search says why there is nothing

    def keep(self, spec: Spec, options: Options, tables: Mapping[str, Table]) -> None:
        """The tables of a search, unless those of a larger design are there, or they are too large."""
        self._keep(self._key(spec, options), spec, tables)

    def _keep(self, key: str | None, spec: Spec, tables: Mapping[str, Table]) -> None:
        if key is None or key in self.kept or sum(map(_bytes, tables.values())) > MOST_BYTES / MOST_SETS:
            return
        _put(self.kept, key, kept_tables(spec, tables))

    def result(self, spec: Spec, options: Options) -> Result | None:
        """What an earlier search has found for this design, of which only the size of one memory is smaller."""
        key, self.passed = self._key(spec, options), False
        if key is None or key not in self.fronts:
            return None
        larger, front = self.fronts[key]
        memories = _memories(spec, options)
        sizes, larger_sizes = (np.array(list(memory_sizes(design, memories).values())) for design in (spec, larger))
        watched = np.array([name == front.memory for name in memories])
        smaller, size = (sizes[:, watched] <= larger_sizes[:, watched]).all(), sizes[:, watched].min()
        if not smaller or (sizes[:, watched] != size).any() or (sizes[:, ~watched] != larger_sizes[:, ~watched]).any():
            return None
        result = from_front(spec, options, front, float(size))
        self.passed = result is None
        return result

    def worth_watching(self, spec: Spec, options: Options, memory: str) -> str:
        """The memory, if it is of use to know the best mappings for smaller sizes of it; else none."""
        return memory if memory and self._key(spec, options) not in {None, *self.too_wide} else ""

    def keep_front(self, spec: Spec, options: Options, front: SizeFront | None) -> None:
        """What a search has found for smaller sizes."""
        key = self._key(spec, options)
        if key is None or front is None:
            return
        if not front.points:
            self.too_wide.add(key)
            return
        _put(self.fronts, key, (spec, front))

    @property
    def has_any(self) -> bool:
        """Whether there is anything that takes much memory."""
        return bool(self.kept or self.fronts or self.turns)

    def clear(self) -> None:
        """Forget all that takes much memory."""
        self.kept.clear()
        self.turns.clear()
        self.fronts.clear()

    def start(self, family: str) -> tuple[LoopTree, ...]:
        """Mappings of other designs of a family: all of them are in the space that is searched, as far as they fit."""
        return self.mappings.get(family, ())

    def keep_mappings(self, family: str, trees: Sequence[LoopTree]) -> None:
        """What a search has found, the latest first."""
        _put(self.mappings, family, tuple(dict.fromkeys((*trees, *self.start(family))))[:MOST_MAPPINGS])

    def expect(self, spec: Spec, options: Options, form: RunForm) -> None:
        """Take over the form of a spec that will be asked for."""
        self.latest = spec, options, form, table_key(spec, options, form)

    def _form(self, spec: Spec, options: Options) -> RunForm:
        if self.latest is None or self.latest[0] is not spec or self.latest[1] is not options:
            self.expect(spec, options, run_form(spec, options))
        assert self.latest is not None
        return self.latest[2]

    def _key(self, spec: Spec, options: Options) -> str | None:
        self._form(spec, options)
        assert self.latest is not None
        return self.latest[3]


def _put(latest: OrderedDict[str, Entry], key: str, entry: Entry) -> None:
    """Put an entry in as the latest; the oldest go where there are too many."""
    latest[key] = entry
    latest.move_to_end(key)
    while len(latest) > MOST_SETS:
        latest.popitem(last=False)


@functools.cache
def own_shelf() -> Shelf:
    """This process's."""
    return Shelf()


def table_key(spec: Spec, options: Options, form: RunForm, rates: frozenset[str] = frozenset()) -> str | None:
    """What specs have in common whose tables differ only by rows that are cut off; None if there may be more between them.

    `rates`: components whose throughputs the tables leave open.
    """
    memories = _memories(spec, options)
    roomy = question_of(options).is_roomy(spec)  # then fused loops, which smaller memories need, have been left out
    if not memories or roomy or large_enough(spec) or meet_below_fanouts(spec):
        return None
    return ",".join([form.without(memories, rates), *memories, *sorted(rates)])


def _memories(spec: Spec, options: Options) -> tuple[str, ...]:
    question = question_of(options)
    return meeting_memories(spec, question.usage, question.ample(spec))


def _bytes(table: Table) -> int:
    return sum(int(getattr(rows, f.name).nbytes) for rows in table.groups.values() for f in dataclasses.fields(rows))
