"""Better bounds for long workloads: the exact least cost of stretches of Einsums, from cut to cut.

A cut is where one tensor alone is live. A window's least cost is searched exactly for every way in which the tensors at
its two cuts can be exchanged, up to a little above the best: what is not found costs at least that. The other side of a
cut takes space as well: the more of it is taken, the dearer the window. From the last cut backwards these costs add up to
bounds that hardly fall behind the truth, however many layers there are. Equal layers have equal windows, searched once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Container
from dataclasses import dataclass, replace

import numpy as np

from fusiest.joining.bounds import (
    BUCKETS,
    NOTHING,
    Cut,
    Incumbents,
    Least,
    LowerBounds,
    Signature,
    Signatures,
    WindowedBounds,
)
from fusiest.joining.forms import OpenForm, OpenLoop, left_signature
from fusiest.joining.rows import PartialRows, start_rows
from fusiest.mapper.joiner import Joiner, State
from fusiest.mapper.result import FunnelStep
from fusiest.pmapping.pareto import Ints
from fusiest.pmapping.table import Backing, Rows, merge_rows

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
    ("edp",): ["both"],
    ("energy", "latency"): ["energy", "latency"],
}
"""Which bounds are worth a search, by objective."""


class _TooLarge(Exception):
    """A window is not worth its own search."""


@dataclass
class _Transitions:
    """Least costs of a window by how its first tensor comes in, and how its last one goes out; the rest needs more."""

    found: dict[tuple[Signature, int, Signature | None, int], float]
    """First tensor's signature and space taken, last tensor's signature and space taken."""
    others: float

    def least(self, entry: Signature, taken: int, after: Cut | None, name: str) -> float:
        """The least cost of the window and all that comes after it."""
        if after is None:
            rest: dict[tuple[Signature | None, int], float] = {(None, 0): 0.0}
        else:
            rest = {(s, b): getattr(x, name) for s, least in after.least.items() for b, x in enumerate(least)}
        own = [
            value + rest[out]
            for (signature, space, *out_), value in self.found.items()
            if signature == entry and space >= taken and (out := (out_[0], out_[1])) in rest
        ]
        return min([self.others + min(rest.values(), default=np.inf), *own])


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
        own = _own_bounds(joiner, einsums, after.any_bucket() if after is not None else None)
        cut = None
        if done:
            (tensor,) = joiner.live(done)
            cut = Cut(done, tensor, {})
            for signatures, least in own.table(done).items():
                cut.least[signatures[0][1]] = [least] * BUCKETS
            for name in names:
                key = name, _key(joiner, done, einsums)
                if key not in known:
                    known[key] = _search(joiner, name, done, einsums, check)
                _improve(cut, known[key], after, name)
        windows.append((cut, frozenset(einsums), own))
        after = cut
    joiner.bounds = WindowedBounds(joiner.bounds, windows[::-1])


def _stretches(joiner: Joiner, unfused: Container[frozenset[str]]) -> list[tuple[frozenset[str], list[str]]]:
    """What is done before each window, and its Einsums."""
    found: list[tuple[frozenset[str], list[str]]] = []
    done: frozenset[str] = frozenset()
    begin, einsums = done, list[str]()
    for einsum in joiner.order:
        einsums.append(einsum)
        done = done | {einsum}
        few = len(einsums) < (_LEAST_EINSUMS if done in unfused else _LEAST_FUSED_EINSUMS)
        if not few and len(joiner.live(done)) == 1 and not joiner.views[einsum].info.is_copy_operation:
            found.append((begin, einsums))
            begin, einsums = done, []
    return [*found, (begin, einsums)] if einsums else found


def _own_bounds(joiner: Joiner, einsums: list[str], end: dict[Signatures, Least] | None) -> LowerBounds:
    return LowerBounds({e: joiner.options[e] for e in einsums}, joiner.spec.info.users, einsums, end)


def _improve(cut: Cut, transitions: _Transitions | None, after: Cut | None, name: str) -> None:
    if transitions is None:
        return
    for signature, least in cut.least.items():
        cut.least[signature] = [
            old._replace(**{name: max(getattr(old, name), transitions.least(signature, bucket, after, name))})
            for bucket, old in enumerate(least)
        ]


def _key(joiner: Joiner, done: frozenset[str], einsums: list[str]) -> object:
    """Equal for windows that differ only by names."""
    number: dict[str, int] = {}
    parts = []
    for einsum in einsums:
        accesses = joiner.spec.info.einsums[einsum].accesses
        tensors = tuple((number.setdefault(t, len(number)), tuple(a.ranks)) for t, a in accesses.items())
        parts.append((tensors, id(next(iter(joiner.tables[einsum].forms.values())))))
    live = joiner.live(done), joiner.live(done | frozenset(einsums))
    return tuple(parts), tuple(frozenset(number[t] for t in side if t in number) for side in live)


# ------------------------------------------------------------------------------------------------ the search of a window


def _search(
    joiner: Joiner, name: str, done: frozenset[str], einsums: list[str], check: Callable[[], None]
) -> _Transitions | None:
    """All transitions up to a little above the best; None if that is too large a search."""
    weights = {"energy": (1.0, 0.0), "latency": (0.0, 1.0), "both": joiner.weights}[name]
    own = _with_one_cost(joiner, weights, done, einsums)
    entries = _entries(own, done, einsums)
    if entries is None:
        return None
    signatures, start = entries
    least = own.bounds.least_of_all(done).energy
    found: dict[tuple[Signature, int, Signature | None, int], float] = {}
    most = least
    try:
        for more in _STEPS:
            best = min(found.values(), default=np.inf)
            if best * (1 + _SLACK) <= most:
                break
            most = min(least * (1 + more), best * (1 + _SLACK))
            end = _run(own, start, Incumbents(("energy",), [(most, 0.0, 0.0)]), check)
            found = _transitions(own, end, signatures)
    except _TooLarge:
        return None
    return _Transitions(found, most * (1 - 2e-9))


def _with_one_cost(joiner: Joiner, weights: tuple[float, float], done: frozenset[str], einsums: list[str]) -> Joiner:
    """The window by itself, its costs summed up in place of energy."""
    own = copy.copy(joiner)
    own.window = frozenset(einsums)
    own.right = {e: [(form, _one_cost(rows, weights)) for form, rows in joiner.right[e]] for e in einsums}
    relaxed = own.bound((0.0, 0.0))
    after = done | own.window
    last = joiner.live(after)
    end = {
        tuple(s for s in signatures if s[0] in last): NOTHING
        for e in einsums
        for signatures in relaxed.options[e]
        if last <= {t for t, _ in signatures}
    }
    own.bounds = LowerBounds(relaxed.options, relaxed.users, einsums, end if last else None)
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


def _transitions(
    joiner: Joiner, end: State | None, signatures: list[Signature]
) -> dict[tuple[Signature, int, Signature | None, int], float]:
    found: dict[tuple[Signature, int, Signature | None, int], float] = {}
    for form, rows in zip(end.forms, end.rows, strict=True) if end is not None else ():
        last = form.backings[0].tensor if form.backings else None
        out = left_signature(form, frozenset({last}))[0][1] if last is not None else None
        left = joiner.buckets(form, rows) if last is not None else np.zeros(len(rows), np.int64)
        kinds, which = np.unique(np.column_stack([rows.entry, rows.taken, left]), axis=0, return_inverse=True)
        least = np.full(len(kinds), np.inf)
        np.minimum.at(least, which.reshape(-1), rows.energy)
        for (entry, taken, bucket), cost in zip(kinds.tolist(), least.tolist(), strict=True):
            key = signatures[entry], taken, out, bucket
            found[key] = min(found.get(key, np.inf), cost)
    return found


def _entries(joiner: Joiner, done: frozenset[str], einsums: list[str]) -> tuple[list[Signature], State] | None:
    """The one live tensor in every way that its first user knows, for free, with more or less space taken."""
    (tensor,) = joiner.live(done)
    user = next(e for e in einsums if tensor in joiner.spec.info.einsums[e].accesses)
    view = joiner.views[user]
    tiles: dict[tuple[str, tuple[OpenLoop, ...]], list[Ints]] = {}
    for form, rows in joiner.right[user]:
        backing = next(b for b in form.backings if b.tensor == tensor)
        loops: list[tuple[OpenLoop, int]] = []
        for v in (v for zone in form.zones[: backing.zones] for v in zone):
            rank = view.rank_of(tensor, v.variable)
            if rank is None or v.place or any(loop.ranks == {(tensor, rank)} for loop, _ in loops):
                return None
            loops.append((OpenLoop(frozenset({(tensor, rank)}), view.info.bounds[v.variable]), form.loops.index(v)))
        loops.sort(key=lambda item: sorted(item[0].ranks))
        columns = [column for _, column in loops]
        tiles.setdefault((backing.memory, tuple(loop for loop, _ in loops)), []).append(rows.tiles[:, columns])
    start = State(done)
    signatures: list[Signature] = []
    for (memory, open_loops), own in tiles.items():
        zones = (open_loops,) if open_loops else ()
        entry = OpenForm(zones, (Backing(tensor, memory, len(zones)),))
        start.forms.append(entry)
        start.rows.append(_free_rows(np.unique(np.concatenate(own), axis=0), entry, joiner, len(signatures)))
        signatures.append(left_signature(entry, frozenset({tensor}))[0][1])
    return signatures, start


def _free_rows(tiles: Ints, form: OpenForm, joiner: Joiner, entry: int) -> PartialRows:
    """Rows that cost nothing, each with every amount of space taken above the open loops."""
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
        rows.own[:, m, 0] = rows.taken * (joiner.sizes[m] / BUCKETS)
    return rows
