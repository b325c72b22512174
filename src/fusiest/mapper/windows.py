"""Better bounds for long workloads: the exact least cost of stretches of Einsums, from cut to cut.

A cut is where one tensor alone is live, and where every order comes by. A window's least cost is searched exactly for every
way in which the tensors at its two cuts can be exchanged, up to a little above the best: what is not found costs at least
that. The other side of a cut takes space as well: the more of it is taken, the dearer the window. From the last cut
backwards these costs add up to bounds that hardly fall behind the truth, however many layers there are. Equal layers have
equal windows, searched once.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fusiest.joining.bounds import (
    BUCKETS,
    Cut,
    Entry,
    Incumbents,
    Least,
    LowerBounds,
    Signature,
    Signatures,
    WindowedBounds,
    signature_of,
)
from fusiest.joining.forms import OpenCompatibility, OpenLoop
from fusiest.joining.rows import PartialRows, start_rows
from fusiest.mapper.joiner import Joiner, State, entry_of
from fusiest.mapper.result import FunnelStep
from fusiest.pmapping.pareto import Ints
from fusiest.pmapping.table import Backing, Rows, merge_rows
from fusiest.spec.affine import Affine

WORTHWHILE_EINSUMS = 12
_LEAST_EINSUMS = 2
_LEAST_FUSED_EINSUMS = 12
_MOST_ROWS = 3_000_000
_SLACK = 0.01
"""How far above the best a window's costs are told apart."""
_STEPS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""How far above the relaxed bound the search goes, step by step until it has found enough."""
_SEARCHED = {
    ("energy",): ["energy"],
    ("latency",): ["latency"],
    ("edp",): ["energy", "both"],
    ("energy", "latency"): ["energy", "latency"],
}
"""Which bounds are worth a search, by objective."""


class _TooLarge(Exception):
    """A window is not worth its own search."""


_Found = dict[tuple[Entry, int, Entry | None, int], float]
"""Least costs by the first tensor's entry and space taken, and the last tensor's entry and space taken."""


@dataclass
class _Transitions:
    """Least costs of a window by how its first tensor comes in and its last one goes out; what is not found needs more."""

    found: _Found
    entries: list[Entry]
    most: float
    """With what comes after, reckoned by `potentials`, all others cost at least this."""
    potentials: dict[Signature, float]

    def least(self, entry: Entry, taken: int, after: Cut | None, name: str) -> float:
        """The least cost of the window and all that comes after it."""
        if after is None:
            others = [self.most]
        else:
            rest = {signature: getattr(least, name) for signature, least in after.relaxed.items()}
            others = [max(0.0, self.most - self.potentials.get(s, self.most)) + cost for s, cost in rest.items()]
        for (first, space, last, bucket), cost in self.found.items():
            if first == entry and space >= taken:
                more = getattr(after.after(last, bucket), name) if after is not None and last is not None else 0.0
                others.append(cost + more)
        return min(others, default=np.inf)


def windowed_bounds(
    joiner: Joiner, objective: tuple[str, ...], unfused: Container[frozenset[str]], check: Callable[[], None]
) -> None:
    """Replace the joiner's bounds by better ones. `unfused`: where a good mapping has no open loops.

    Cuts are best put there: little is decided by what both sides have in common.
    """
    assert isinstance(joiner.bounds, LowerBounds)
    names = _SEARCHED[objective]
    known: dict[object, _Transitions | None] = {}
    stretches = _stretches(joiner, unfused)
    windows: list[tuple[Cut | None, frozenset[str], LowerBounds]] = []
    after: Cut | None = None
    for done, einsums in reversed(stretches):
        own = _own_bounds(joiner, einsums, after.signatures() if after is not None else None)
        cut = None
        if done:
            (tensor,) = joiner.live(done)
            cut = Cut(done, tensor, {signatures[0][1]: least for signatures, least in own.table(done).items()})
            for name in names:
                key = name, _key(joiner, done, einsums)
                if key not in known:
                    known[key] = _search(joiner, name, done, einsums, after, check)
                _improve(cut, known[key], after, name)
        windows.append((cut, frozenset(einsums), own))
        after = cut
    joiner.bounds = WindowedBounds(joiner.bounds, windows[::-1])


def _stretches(joiner: Joiner, unfused: Container[frozenset[str]]) -> list[tuple[frozenset[str], list[str]]]:
    """What is done before each window, and its Einsums. Where orders may differ, all Einsums after a cut need all before it."""
    found: list[tuple[frozenset[str], list[str]]] = []
    needs = _all_needs(joiner) if joiner.all_orders else None
    done: frozenset[str] = frozenset()
    begin, einsums = done, list[str]()
    for einsum in joiner.order:
        einsums.append(einsum)
        done = done | {einsum}
        few = len(einsums) < (_LEAST_EINSUMS if done in unfused else _LEAST_FUSED_EINSUMS)
        alone = len(joiner.live(done)) == 1 and not joiner.views[einsum].info.is_copy_operation
        if not few and alone and (needs is None or all(done <= needs[e] for e in joiner.order if e not in done)):
            found.append((begin, einsums))
            begin, einsums = done, []
    return [*found, (begin, einsums)] if einsums else found


def _all_needs(joiner: Joiner) -> dict[str, frozenset[str]]:
    """What each Einsum needs, one through the other."""
    found: dict[str, frozenset[str]] = {}
    for einsum in joiner.order:
        direct = joiner.spec.info.needs(einsum)
        found[einsum] = direct.union(*(found[e] for e in direct))
    return found


def _own_bounds(joiner: Joiner, einsums: list[str], end: dict[Signatures, Least] | None) -> LowerBounds:
    return LowerBounds({e: joiner.options[e] for e in einsums}, joiner.spec.info.users, einsums, end)


def _improve(cut: Cut, transitions: _Transitions | None, after: Cut | None, name: str) -> None:
    if transitions is None:
        return
    by_signature: dict[Signature, float] = {}
    for entry in transitions.entries:
        signature = signature_of(entry)
        if signature not in cut.relaxed:
            continue
        relaxed = cut.relaxed[signature]
        costs = [transitions.least(entry, bucket, after, name) for bucket in range(BUCKETS)]
        old = cut.least.get(entry, [relaxed] * BUCKETS)
        cut.least[entry] = [
            least._replace(**{name: max(getattr(relaxed, name), cost)}) for least, cost in zip(old, costs, strict=True)
        ]
        by_signature[signature] = min(by_signature.get(signature, np.inf), costs[0])
    for signature, cost in by_signature.items():
        relaxed = cut.relaxed[signature]
        cut.relaxed[signature] = relaxed._replace(**{name: max(getattr(relaxed, name), cost)})


def _key(joiner: Joiner, done: frozenset[str], einsums: list[str]) -> object:
    """Equal for windows that differ only by names."""
    number: dict[str, int] = {}
    parts = []
    for einsum in einsums:
        info = joiner.spec.info.einsums[einsum]
        variables = {v: i for i, v in enumerate(info.bounds)}
        tensors = tuple(
            (number.setdefault(t, len(number)), tuple((rank, _index(a, variables)) for rank, a in access.ranks.items()))
            for t, access in info.accesses.items()
        )
        parts.append((tensors, id(next(iter(joiner.tables[einsum].groups.values())))))
    live = joiner.live(done), joiner.live(done | frozenset(einsums))
    return tuple(parts), tuple(frozenset(number[t] for t in side if t in number) for side in live)


def _index(affine: Affine, number: Mapping[str, int]) -> object:
    return frozenset((number[v], a) for v, a in affine.coefficients.items()), affine.constant


# ------------------------------------------------------------------------------------------------ the search of a window


def _search(
    joiner: Joiner, name: str, done: frozenset[str], einsums: list[str], after: Cut | None, check: Callable[[], None]
) -> _Transitions | None:
    """All transitions up to a little above the best; None if that is too large a search."""
    weights = {"energy": (1.0, 0.0), "latency": (0.0, 1.0), "both": joiner.weights}[name]
    potentials = {s: getattr(least, name) for s, least in after.relaxed.items()} if after is not None else {}
    base = min(potentials.values(), default=0.0)
    own = _with_one_cost(joiner, weights, einsums)
    usual = _SLACK * sum(min(least.energy for least in own.options[e].values()) for e in einsums)
    potentials = {s: min(cost - base, usual) for s, cost in potentials.items()}
    end: dict[Signatures, Least] | None = None
    if after is not None:
        end = {((after.tensor, s),): Least(cost, 0.0, 0.0) for s, cost in potentials.items()}
    own.bounds = LowerBounds(own.options, joiner.spec.info.users, einsums, end)
    start = _start(own, done, einsums)
    if start is None:
        return None
    least = own.bounds.least_of_all(done).energy
    entries = [entry_of(form, joiner.live(done)) for form in start.forms]
    found: _Found = {}
    most = least
    try:
        for more in _STEPS:
            totals = (
                cost + (potentials[signature_of(last)] if last else 0.0) for (_, _, last, _), cost in found.items()
            )
            best = min(totals, default=np.inf)
            if best * (1 + _SLACK) <= most:
                break
            most = min(least * (1 + more), best * (1 + _SLACK))
            found = _transitions(own, _run(own, start, Incumbents(("energy",), [(most, 0.0, 0.0)]), check), entries)
    except _TooLarge:
        return None
    return _Transitions(found, entries, most * (1 - 2e-9), potentials)


def _with_one_cost(joiner: Joiner, weights: tuple[float, float], einsums: list[str]) -> Joiner:
    """The window by itself, its costs summed up in place of energy."""
    own = copy.copy(joiner)
    own.window = frozenset(einsums)
    own.right = {e: [(form, _one_cost(rows, weights)) for form, rows in joiner.right[e]] for e in einsums}
    own.bound((0.0, 0.0))
    return own


def _one_cost(rows: Rows, weights: tuple[float, float]) -> Rows:
    cost = weights[0] * rows.energy + weights[1] * rows.latency
    return merge_rows([replace(rows, energy=cost, latency=np.zeros(len(rows)))])


def _run(joiner: Joiner, start: State, incumbents: Incumbents, check: Callable[[], None]) -> State | None:
    assert joiner.window is not None

    def report(step: FunnelStep) -> None:
        if step.kept > _MOST_ROWS:
            raise _TooLarge

    return joiner.run(incumbents, None, report, check, start).get(start.done | joiner.window)


def _transitions(joiner: Joiner, end: State | None, entries: list[Entry]) -> _Found:
    found: _Found = {}
    if end is None:
        return found
    for form, rows in zip(end.forms, end.rows, strict=True):
        last = entry_of(form, joiner.live(end.done)) if form.backings else None
        left = joiner.buckets(form, rows) if form.backings else np.zeros(len(rows), np.int64)
        kinds, which = np.unique(np.column_stack([rows.entry, rows.taken, left]), axis=0, return_inverse=True)
        least = np.full(len(kinds), np.inf)
        np.minimum.at(least, which.reshape(-1), rows.energy)
        for (entry, taken, bucket), cost in zip(kinds.tolist(), least.tolist(), strict=True):
            key = entries[entry], taken, last, bucket
            found[key] = min(found.get(key, np.inf), cost)
    return found


def _start(joiner: Joiner, done: frozenset[str], einsums: list[str]) -> State | None:
    """The one live tensor in every way that its first user knows, for free, with more or less space taken."""
    (tensor,) = joiner.live(done)
    user = next(e for e in einsums if tensor in joiner.spec.info.einsums[e].accesses)
    view = joiner.views[user]
    tiles: dict[tuple[str, tuple[OpenLoop, ...]], list[Ints]] = {}
    for form, rows in joiner.right[user]:
        backing = next(b for b in form.backings if b.tensor == tensor)
        loops: list[tuple[OpenLoop, int]] = []
        for v in (v for zone in form.zones[: backing.zones] for v in zone):
            stepping = view.stepping(tensor, v.variable)
            if stepping is None or v.place or any(loop.ranks == {(tensor, stepping)} for loop, _ in loops):
                return None
            loops.append((OpenLoop(frozenset({(tensor, stepping)}), view.info.bounds[v.variable]), form.loops.index(v)))
        loops.sort(key=lambda item: sorted(item[0].ranks))
        columns = [column for _, column in loops]
        tiles.setdefault((backing.memory, tuple(loop for loop, _ in loops)), []).append(rows.tiles[:, columns])
    start = State(done)
    for (memory, open_loops), own in tiles.items():
        combinations = np.unique(np.concatenate(own), axis=0)
        for zones in _in_zones(open_loops):
            columns = [open_loops.index(loop) for zone in zones for loop in zone]
            entry = OpenCompatibility(zones, (Backing(tensor, memory, len(zones)),))
            start.rows.append(_free_rows(combinations[:, columns], entry, joiner, len(start.forms)))
            start.forms.append(entry)
    return start


def _in_zones(loops: tuple[OpenLoop, ...]) -> Iterator[tuple[tuple[OpenLoop, ...], ...]]:
    """All in one zone, and in every way in two."""
    yield (loops,) if loops else ()
    for count in range(1, len(loops)):
        for outer in itertools.combinations(loops, count):
            yield outer, tuple(loop for loop in loops if loop not in outer)


def _free_rows(tiles: Ints, form: OpenCompatibility, joiner: Joiner, entry: int) -> PartialRows:
    """Rows that cost nothing, each with every amount of space taken above the innermost zone."""
    memory = form.backings[0].memory
    buckets = BUCKETS if form.zones and memory in joiner.memories else 1
    rows = start_rows(len(joiner.memories)).take(np.zeros(len(tiles) * buckets, np.int64))
    rows.tiles = np.repeat(tiles, buckets, axis=0)
    rows.entry[:] = entry
    rows.taken = np.tile(np.arange(buckets), len(tiles))
    rows.own = np.zeros((len(rows), len(joiner.memories), len(form.zones)))
    rows.done = np.zeros((len(rows), len(joiner.memories), len(form.zones) + 1))
    if buckets > 1:
        m = joiner.memories.index(memory)
        rows.own[:, m, -1] = rows.taken * (joiner.sizes[m] / BUCKETS)
    return rows
