"""Joining the tables of all Einsums, over sets of finished Einsums, exactly or as a coarse first pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fusiest.joining.bounds import (
    BUCKETS,
    IMPOSSIBLE,
    Cut,
    Entry,
    Incumbents,
    Least,
    LowerBounds,
    Signatures,
    WindowedBounds,
)
from fusiest.joining.coarse import Coarse, thinned
from fusiest.joining.forms import (
    EMPTY,
    EinsumView,
    Joint,
    OpenCompatibility,
    join_forms,
    left_signature,
    right_signature,
)
from fusiest.joining.held import ledger
from fusiest.joining.rows import Filter, PartialRows, join_rows, merge_partial, start_rows
from fusiest.mapper.result import FunnelStep
from fusiest.mapper.space import Space
from fusiest.pmapping.pareto import Floats, Ints
from fusiest.pmapping.table import Compatibility, Rows, Table
from fusiest.spec.spec import Spec

_MOST_JOINTS = 100_000
"""Ways of joining that are remembered."""
Pair = tuple[frozenset[str], str]
"""A set of finished Einsums and the Einsum joined to it."""


class OutOfTime(Exception):
    """The time limit was reached, or the user interrupted."""


@dataclass
class State:
    """All partial mappings of one set of finished Einsums."""

    done: frozenset[str]
    forms: list[OpenCompatibility] = field(default_factory=list)
    rows: list[PartialRows] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    tried: int = 0

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.rows)


class Joiner:
    """What does not change between passes: tables, bounds, sizes."""

    def __init__(
        self,
        spec: Spec,
        tables: dict[str, Table],
        all_orders: bool,
        objective: tuple[str, ...] = (),
        finished: bool = True,
    ) -> None:
        self.spec, self.tables, self.finished = spec, tables, finished
        self.order = list(spec.info.einsums)
        self.all_orders = all_orders
        self.views = {name: EinsumView(info) for name, info in spec.info.einsums.items()}
        self.memories = next(iter(tables.values())).memories
        self.space = Space(spec, self.memories)
        sizes = self.space.sizes
        self.sizes: Floats = np.max(list(sizes.values()), axis=0)
        self.smallest: Floats = np.min(list(sizes.values()), axis=0)
        self.right: dict[str, list[tuple[Compatibility, Rows]]] = {
            name: [(form, _without_room(rows, self.sizes - sizes[name])) for form, rows in table.groups.items()]
            for name, table in tables.items()
        }
        self.persistent = frozenset(t for info in spec.info.einsums.values() for t in info.persistent)
        self.settled = self._settled()
        self.bounds: LowerBounds | WindowedBounds = self.bound((0.0, 0.0))
        if objective == ("edp",):
            least = self.bounds.least_of_all(frozenset())
            if least.energy > 0 and least.latency > 0:
                self.bounds = self.bound((1 / least.energy, 1 / least.latency))
        self.window: frozenset[str] | None = None
        self._joints: dict[object, tuple[Joint, ...]] = {}
        self.exact = False
        self.grouping = self.consolidation = True
        self.compatible = 0
        """Pairs of partial mappings and pmappings in the groups that the last step brought together."""
        self.frontier: list[State] = []

    def _settled(self) -> npt.NDArray[np.bool_]:
        """Memories that hold nothing persistent."""
        settled = np.ones(len(self.memories), np.bool_)
        for forms in self.right.values():
            for form, rows in forms:
                settled &= ~(rows.persistent > 0).any(axis=0)
                backed = {b.memory for b in form.backings if b.tensor in self.persistent}
                settled &= np.array([m not in backed for m in self.memories], np.bool_)
        return settled

    def bound(self, weights: tuple[float, float]) -> LowerBounds:
        """Relaxed bounds on completions, and on their costs weighted so."""
        self.weights = weights
        self.least_right = {name: [least_of(rows, weights) for _, rows in self.right[name]] for name in self.right}
        self.options = {name: self._options(name) for name in self.right}
        return LowerBounds(self.options, self.spec.info.users, list(self.right))

    def _options(self, einsum: str) -> dict[Signatures, Least]:
        """The least that an Einsum needs per signature of its shared tensors."""
        found: dict[Signatures, Least] = {}
        shared = frozenset(self.views[einsum].info.accesses)
        for (form, _), least in zip(self.right[einsum], self.least_right[einsum], strict=True):
            key = right_signature(form, self.views[einsum], shared)
            found[key] = found.get(key, IMPOSSIBLE) | least
        return found

    def watch(self, memory: str) -> int:
        """A memory whose usage is an objective: what was needed beside all open loops is kept in mind."""
        self.settled[self.memories.index(memory)] = False
        return self.memories.index(memory)

    def live(self, done: frozenset[str]) -> frozenset[str]:
        """Tensors used by an Einsum of the set and by one outside it."""
        users = self.spec.info.users
        return frozenset(
            t for e in done for t in self.spec.info.einsums[e].accesses if any(u not in done for u in users[t])
        )

    def next_einsums(self, done: frozenset[str]) -> list[str]:
        """Einsums that can run next."""
        ready = [e for e in self.order if e not in done and self.spec.info.needs(e) <= done]
        if self.window is not None:
            ready = [e for e in ready if e in self.window]
        return ready if self.all_orders else ready[:1]

    # --- one pass -----------------------------------------------------------------------------------------------------

    def run(
        self,
        incumbents: Incumbents,
        coarse: Coarse | None,
        report: Callable[[FunnelStep], None],
        check: Callable[[], None],
        start: State | None = None,
    ) -> dict[frozenset[str], State]:
        """Join everything, exactly or with coarse pruning: still valid, not always the best.

        `exact` then says whether nothing was pruned so. Begins with `start`, by default with nothing.
        """
        first = self.restart(start)
        states = {first.done: first}
        self.exact = True
        for count in range(len(self.order if self.window is None else self.window)):
            self.compatible = 0
            level = [
                self._merge(after, parts, pairs, incumbents, check)
                for after, (parts, pairs) in self._extend(self.frontier, incumbents, check).items()
            ]
            tried = sum(state.tried for state in level)
            for state in level:
                if coarse is not None:
                    self._thin(state, incumbents, coarse)
            before, self.frontier = self.frontier, [state for state in level if len(state)]
            for rows in (rows for state in before if state is not first for rows in state.rows):
                rows.forget()
            states.update({state.done: state for state in self.frontier})
            kept = sum(len(state) for state in self.frontier)
            forms = sum(len(state.forms) for state in self.frontier)
            report(FunnelStep(count + 1, self.compatible, tried, kept, forms))
        return states

    def restart(self, start: State | None = None) -> State:
        """Nothing is joined, so everything is still to be reached."""
        first = start or State(frozenset(), [EMPTY], [start_rows(len(self.memories))])
        self.frontier = [first]
        return first

    def _extend(
        self, level: list[State], incumbents: Incumbents, check: Callable[[], None]
    ) -> dict[frozenset[str], tuple[dict[OpenCompatibility, list[PartialRows]], list[Pair]]]:
        """Join every Einsum that can run next to every state."""
        reached: dict[frozenset[str], tuple[dict[OpenCompatibility, list[PartialRows]], list[Pair]]] = {}
        for state in level:
            for einsum in self.next_einsums(state.done):
                parts, pairs = reached.setdefault(state.done | {einsum}, ({}, []))
                for form, rows in self._join(state, einsum, incumbents, check):
                    rows.source[:] = len(pairs)
                    parts.setdefault(form, []).append(rows)
                pairs.append((state.done, einsum))
        return reached

    def _merge(
        self,
        done: frozenset[str],
        parts: dict[OpenCompatibility, list[PartialRows]],
        pairs: list[Pair],
        incumbents: Incumbents,
        check: Callable[[], None],
    ) -> State:
        merged = {}
        for form, rows in parts.items():
            check()
            merged[form] = merge_partial(rows)
        tried = sum(len(rows) for form in parts.values() for rows in form)
        if isinstance(self.bounds, WindowedBounds) and done in self.bounds.cuts:
            merged = {
                form: self._at_cut(self.bounds.cuts[done], form, rows, incumbents) for form, rows in merged.items()
            }
        return State(done, list(merged), list(merged.values()), pairs, tried)

    def _at_cut(self, cut: Cut, form: OpenCompatibility, rows: PartialRows, incumbents: Incumbents) -> PartialRows:
        """Those that are still promising, given the space that each has taken."""
        entry = entry_of(form, frozenset({cut.tensor}))
        buckets = self.buckets(form, rows)
        keep = np.zeros(len(rows), np.bool_)
        for bucket in np.unique(buckets):
            which = np.flatnonzero(buckets == bucket)
            least = cut.after(entry, int(bucket))
            keep[which] = incumbents.promising(rows.energy[which], rows.latency[which], least)
        return rows.take(np.flatnonzero(keep))

    def buckets(self, form: OpenCompatibility, rows: PartialRows) -> Ints:
        """Of the memory in which the one live tensor lies: how much is reserved above and between open loops, in steps."""
        memory = form.backings[0].memory
        if not form.zones or memory not in self.memories:
            return np.zeros(len(rows), np.int64)
        m = self.memories.index(memory)
        used = rows.own[:, m, :].sum(axis=1) / self.sizes[m]
        taken: Ints = np.minimum(used * BUCKETS, BUCKETS - 1).astype(np.int64)
        return taken

    def frontier_bounds(self) -> Iterator[tuple[PartialRows, Least]]:
        """All that the last unfinished pass could still reach from: rows, and the least that each needs more."""
        for state in self.frontier:
            for form, rows in zip(state.forms, state.rows, strict=True):
                yield rows, self.bounds.least(state.done, left_signature(form, self.live(state.done)))

    def _thin(self, state: State, incumbents: Incumbents, coarse: Coarse) -> None:
        """Prune a large set coarsely."""
        if len(state) > coarse.most:
            self.exact = False
            live = self.live(state.done)
            least = [self.bounds.least(state.done, left_signature(form, live)) for form in state.forms]
            state.rows = thinned(list(zip(state.rows, least, strict=True)), incumbents, coarse, len(self.order))

    def _agreeing(
        self, by_signature: dict[object, list[tuple[int, Signatures]]], wanted: object
    ) -> list[tuple[int, Signatures]]:
        """Forms of an Einsum with this signature, looked up, or without grouping compared one by one."""
        if self.grouping:
            return by_signature.get(wanted, [])
        return [n for signature, forms in by_signature.items() for n in forms if signature == wanted]

    def _join(
        self, state: State, einsum: str, incumbents: Incumbents, check: Callable[[], None]
    ) -> Iterator[tuple[OpenCompatibility, PartialRows]]:
        """Put one more Einsum after everything that is finished."""
        view = self.views[einsum]
        before = self.live(state.done)
        shared = before & frozenset(view.info.accesses)
        live = self.live(state.done | {einsum})
        meets = frozenset(view.info.accesses) & live
        by_signature: dict[object, list[tuple[int, Signatures]]] = {}
        for n, (einsum_form, _) in enumerate(self.right[einsum]):
            key = right_signature(einsum_form, view, shared)
            by_signature.setdefault(key, []).append((n, right_signature(einsum_form, view, meets)))
        for number, (form, rows) in enumerate(zip(state.forms, state.rows, strict=True)):
            if not len(rows):
                continue
            best = float(rows.energy.min()), float(rows.latency.min())
            lasting = left_signature(form, live)
            for n, own in self._agreeing(by_signature, left_signature(form, shared)):
                after = tuple(sorted({*lasting, *own}, key=lambda item: item[0]))
                least = self.bounds.least(state.done | {einsum}, after)
                if not incumbents.possible(*best, least.plus(self.least_right[einsum][n])):
                    continue
                right_form, right_rows = self.right[einsum][n]
                wanted = Filter(least, incumbents)
                for k, joint in enumerate(self.joints(form, right_form, einsum, shared, live)):
                    check()
                    self.compatible += len(rows) * len(right_rows)
                    bounds = [form.loops[a].bound for a, _ in joint.matched]
                    accounts = ledger(joint.splits, self.memories)
                    charges = self.space.charges(joint, accounts, right_rows)
                    joined = join_rows(
                        rows, right_rows, joint, bounds, accounts, charges, self.sizes, self.settled, wanted,
                        self.grouping, self.consolidation,
                    )  # fmt: skip
                    if len(joined):
                        joined.left_form[:], joined.right_form[:], joined.joint[:] = number, n, k
                        yield joint.form, joined

    def joints(
        self, left: OpenCompatibility, right: Compatibility, einsum: str, shared: frozenset[str], live: frozenset[str]
    ) -> tuple[Joint, ...]:
        key = left, right, einsum, shared, live
        if key not in self._joints:
            if len(self._joints) >= _MOST_JOINTS:
                self._joints.clear()
            self._joints[key] = join_forms(
                left, right, self.views[einsum], shared, live, self.persistent, self.finished
            )
        return self._joints[key]


def _without_room(rows: Rows, missing: Floats) -> Rows:
    """Rows of an Einsum for which memories are smaller than for others: what is missing counts as taken while it runs."""
    if not missing.any():
        return rows
    bits = rows.bits.copy()
    bits[:, :, -1] += missing
    return dataclasses.replace(rows, bits=bits)


def entry_of(form: OpenCompatibility, live: frozenset[str]) -> Entry:
    """How the one live tensor of a form crosses a cut."""
    (backing,) = (b for b in form.backings if b.tensor in live)
    zones = tuple(frozenset(r for loop in zone for t, r in loop.ranks if t == backing.tensor) for zone in form.zones)
    return backing.memory, zones


def least_of(rows: Rows, weights: tuple[float, float]) -> Least:
    both = weights[0] * rows.energy + weights[1] * rows.latency
    return Least(float(rows.energy.min()), float(rows.latency.min()), float(both.min()))
