"""Long workloads of equal layers: good mappings of the first layers suggest the pmappings of all layers.

The first pass of joining maps the first layers from whole tables, then all layers with the pmappings that were left at
the end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fusiest.joining.problem import Group, JoinProblem
from fusiest.joining.trace import PassedLevels
from fusiest.pmapping import Ints, Rows

_SHARE = 3
"""All Einsums divided by this are the most that the first layers may have: with more, the detour is not worth it."""
_OTHERS = 8
"""All Einsums divided by this are the most that the first layers may lack: with more, they say little about the rest."""


def first_layers(problem: JoinProblem) -> frozenset[str] | None:
    """The Einsums, in listed order, until each repeated one has come twice; None if too many, or unlike the rest."""
    kinds = [problem.kinds[einsum] for einsum in problem.order]
    missing = {kind: 2 for kind, count in Counter(kinds).items() if count > 1}
    for number, kind in enumerate(kinds[: len(kinds) // _SHARE], 1):
        missing[kind] = missing.get(kind, 0) - 1
        if all(count <= 0 for count in missing.values()):
            others = sum(1 for other in kinds if other not in kinds[:number])
            return frozenset(problem.order[:number]) if others * _OTHERS <= len(kinds) else None
    return None


def as_used(problem: JoinProblem, passed: PassedLevels) -> JoinProblem:
    """Keep only the pmappings that the last partial mappings use; Einsums unlike those already joined keep all."""
    used: dict[int, dict[int, Ints]] = defaultdict(dict)
    for (einsum, group), row_numbers in _used(passed).items():
        by_group = used[problem.kinds[einsum]]
        by_group[group] = np.union1d(by_group[group], row_numbers) if group in by_group else row_numbers
    rows_used: dict[tuple[int, int], Rows] = {}
    for kind, einsum in {problem.kinds[e]: e for e in problem.order}.items():
        for n, (_, rows) in enumerate(problem.groups[einsum]):
            rows_used[kind, n] = rows.take(used[kind].get(n, np.empty(0, np.int64))) if kind in used else rows
    groups = {
        e: [Group(c, rows_used[problem.kinds[e], n]) for n, (c, _) in enumerate(einsum_groups)]
        for e, einsum_groups in problem.groups.items()
    }
    return replace(problem, groups=groups)


def _used(passed: PassedLevels) -> Mapping[tuple[str, int], Ints]:
    """The rows from which the last partial mappings are made, by Einsum and group."""
    history, end = passed
    used: dict[tuple[str, int], list[Ints]] = defaultdict(list)
    to_trace: dict[frozenset[str], dict[int, list[Ints]]] = {
        state.finished: {n: [np.arange(len(rows))] for n, (_, rows) in enumerate(state.groups)} for state in end.states
    }
    while finished := max(to_trace, key=len, default=frozenset()):
        trails = history[finished]
        for n, row_numbers in to_trace.pop(finished).items():
            trail = trails.rows[n].take(np.unique(np.concatenate(row_numbers)))
            for number in np.unique(trail.pairing).tolist():
                pairing, paired = trails.pairings[number], trail.pairing == number
                source = trails.sources[pairing.source]
                used[source.einsum, pairing.einsum_group].append(trail.einsum_row[paired])
                to_trace.setdefault(source.finished, {}).setdefault(pairing.before_group, []).append(
                    trail.before_row[paired]
                )
    return {key: np.unique(np.concatenate(row_numbers)).astype(np.int64) for key, row_numbers in used.items()}
