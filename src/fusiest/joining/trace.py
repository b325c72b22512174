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
"""The origins of all partial mappings of a pass, by finished Einsums."""


class PassedLevels(NamedTuple):
    """The levels of a pass, as far as tracing back needs them."""

    history: History
    """The origins of all partial mappings."""
    end: Level
    """The last level."""


class Pick(NamedTuple):
    """One join on the way to a mapping."""

    finished: frozenset[str]
    """Einsums finished before the join."""
    before: OpenCompatibility
    """The partial mapping's compatibility."""
    einsum: str
    """The joined Einsum."""
    group: int
    """Its group."""
    row: int
    """Its row in the group."""
    joint: int
    """Number of the way in which the two were joined."""


def picks(problem: JoinProblem, history: History, row: int) -> list[Pick]:
    """Trace back the joins that led to one complete row."""
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
    """Build the LoopTree of these joins."""
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
