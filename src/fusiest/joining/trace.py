"""From a row of the last join back to its LoopTree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fusiest.joining.meeting.compatibility import OpenCompatibility
from fusiest.joining.passes import Level, Trails
from fusiest.joining.problem import JoinProblem
from fusiest.joining.tree import JoinedBranch, build_tree
from fusiest.looptree import LoopTree
from fusiest.pmapping import FusedLoop

History = Mapping[frozenset[str], Trails]
"""By finished Einsums: where all partial mappings of a pass came from."""


class PassedLevels(NamedTuple):
    """Levels of a pass: where all partial mappings came from, and the last ones."""

    history: History
    end: Level


class Pick(NamedTuple):
    """One join on the way to a mapping: what was joined to what, and in which of the ways that there are."""

    finished: frozenset[str]
    before: OpenCompatibility
    einsum: str
    group: int
    row: int
    joint: int


def picks(problem: JoinProblem, history: History, row: int) -> list[Pick]:
    """The joins that led to one complete row."""
    finished, group = problem.everything, 0
    joins: list[Pick] = []
    while finished:
        trails = history[finished]
        trail = trails.rows[group]
        pairing = trails.pairings[int(trail.pairing[row])]
        finished, einsum = trails.sources[pairing.source]
        pmapping = pairing.einsum_group, int(trail.einsum_row[row])
        group, row = pairing.before_group, int(trail.before_row[row])
        joins.append(Pick(finished, history[finished].compatibilities[group], einsum, *pmapping, pairing.joint))
    return joins[::-1]


def trace(problem: JoinProblem, picks: list[Pick]) -> LoopTree:
    """The tree of these joins."""
    branches: list[JoinedBranch] = []
    fresh = iter(range(1 << 60))
    open_numbers: list[int] = []
    for pick in picks:
        compatibility, rows = problem.groups[pick.einsum][pick.group]
        live = problem.live_around(pick.finished, pick.einsum)
        joint = problem.joints(pick.before, pick.einsum, pick.group, live)[pick.joint]
        tiles: dict[FusedLoop, int] = dict(zip(compatibility.loops, rows.tiles[pick.row].tolist(), strict=True))
        shared = {compatibility.loops[b]: open_numbers[a] for a, b in joint.matched}
        numbers = {v: shared[v] if v in shared else next(fresh) for v in compatibility.loops}
        origin = problem.origins[pick.einsum][int(rows.origin[pick.row])]
        branches.append(
            JoinedBranch(
                pick.einsum,
                origin.branch(int(rows.row[pick.row]), tiles),
                compatibility,
                tiles,
                numbers,
                frozenset(shared),
            )
        )
        open_numbers = [numbers[compatibility.loops[column]] for column in joint.tiles]
    return build_tree(branches)
