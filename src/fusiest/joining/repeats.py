"""Long workloads of equal layers: pmappings that good mappings of the first layers have are likely those that all have.

So a first pass takes the first layers from whole tables, and all layers from what is left of them then.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fusiest.joining.passes import Level
from fusiest.joining.problem import Group, JoinProblem
from fusiest.joining.trace import History
from fusiest.pmapping import Ints, Rows

_SHARE = 3
"""The first layers are at most one in so many of all Einsums, else it is not worth it."""
_OTHERS = 8
"""At most one in so many Einsums is none of those in the first layers, else these say little."""


def first_layers(problem: JoinProblem) -> frozenset[str] | None:
    """The Einsums, in listed order, by which each that comes again has come twice; None if these are most of them, or not like most."""
    kinds = [problem.kind(einsum) for einsum in problem.order]
    left = {kind: 2 for kind, count in Counter(kinds).items() if count > 1}
    for number, kind in enumerate(kinds[: len(kinds) // _SHARE], 1):
        left[kind] = left.get(kind, 0) - 1
        if all(count <= 0 for count in left.values()):
            others = sum(1 for other in kinds if other not in kinds[:number])
            return frozenset(problem.order[:number]) if others * _OTHERS <= len(kinds) else None
    return None


def as_used(problem: JoinProblem, history: History, end: Level) -> JoinProblem:
    """The same problem with such pmappings alone as partial mappings of `end` have; of Einsums that are none of these, with all."""
    used: dict[int, dict[int, Ints]] = defaultdict(dict)
    for (einsum, group), which in _used(history, end).items():
        own = used[problem.kind(einsum)]
        own[group] = np.union1d(own[group], which) if group in own else which
    parts: dict[tuple[int, int], Rows] = {}
    for kind, einsum in {problem.kind(e): e for e in problem.order}.items():
        for n, (_, rows) in enumerate(problem.groups[einsum]):
            parts[kind, n] = rows.take(used[kind].get(n, np.empty(0, np.int64))) if kind in used else rows
    groups = {
        e: [Group(c, parts[problem.kind(e), n]) for n, (c, _) in enumerate(own)] for e, own in problem.groups.items()
    }
    return replace(problem, groups=groups)


def _used(history: History, end: Level) -> Mapping[tuple[str, int], Ints]:
    """By Einsum and group, the rows from which the partial mappings of `end` are made."""
    found: dict[tuple[str, int], list[Ints]] = defaultdict(list)
    wanted: dict[frozenset[str], dict[int, list[Ints]]] = {
        state.finished: {n: [np.arange(len(rows))] for n, (_, rows) in enumerate(state.groups)} for state in end.states
    }
    while finished := max(wanted, key=len, default=frozenset()):
        trails = history[finished]
        for n, parts in wanted.pop(finished).items():
            trail = trails.rows[n].take(np.unique(np.concatenate(parts)))
            for number in np.unique(trail.pairing).tolist():
                pairing, mine = trails.pairings[number], trail.pairing == number
                source = trails.sources[pairing.source]
                found[source.einsum, pairing.einsum_group].append(trail.einsum_row[mine])
                wanted.setdefault(source.finished, {}).setdefault(pairing.before_group, []).append(
                    trail.before_row[mine]
                )
    return {key: np.unique(np.concatenate(parts)).astype(np.int64) for key, parts in found.items()}
