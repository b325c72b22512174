"""Which forms of pmappings can follow which: a graph whose paths are all fused structures of a workload.

A node is the open form of a partial mapping, an edge joins one more Einsum. Nodes from which no complete mapping can be
reached are left out, so a walk along the edges never meets a form that fits nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusiest.joining import EMPTY, JoinProblem, Joint, OpenCompatibility, relaxed_einsum, relaxed_open


@dataclass(frozen=True)
class JoinEdge:
    """Joining a form of the next Einsum to an open form gives an open form of the next level; all by number.

    `way`: which of the ways to join the two.
    """

    before: int
    form: int
    way: int
    after: int
    joint: Joint


@dataclass(frozen=True)
class PathLevel:
    """One Einsum in the order of joining, the open forms before it, and every way to join it to them."""

    einsum: str
    open_forms: tuple[OpenCompatibility, ...]
    edges: tuple[JoinEdge, ...]


def paths(problem: JoinProblem) -> list[PathLevel]:
    """The graph, level by level: the Einsums as listed, each after those that it depends on."""
    finished: frozenset[str] = frozenset()
    reached: list[OpenCompatibility] = [EMPTY]
    levels: list[PathLevel] = []
    while len(levels) < len(problem.order):
        einsum = next(problem.ready(finished))
        edges, after = _edges(problem, reached, einsum, finished)
        levels.append(PathLevel(einsum, tuple(reached), tuple(edges)))
        reached = after
        finished |= {einsum}
    return _without_dead_ends(levels)


def _edges(
    problem: JoinProblem, reached: list[OpenCompatibility], einsum: str, finished: frozenset[str]
) -> tuple[list[JoinEdge], list[OpenCompatibility]]:
    view, live = problem.views[einsum], problem.live_around(finished, einsum)
    agreeing: dict[object, list[int]] = {}
    for number, (compatibility, _) in enumerate(problem.groups[einsum]):
        agreeing.setdefault(relaxed_einsum(compatibility, view, live.shared), []).append(number)
    numbers: dict[OpenCompatibility, int] = {}
    edges = []
    for before, open_form in enumerate(reached):
        for number in agreeing.get(relaxed_open(open_form, live.shared), []):
            for way, joint in enumerate(problem.joints(open_form, einsum, number, live)):
                after = numbers.setdefault(joint.compatibility, len(numbers))
                edges.append(JoinEdge(before, number, way, after, joint))
    return edges, list(numbers)


def _without_dead_ends(levels: list[PathLevel]) -> list[PathLevel]:
    """Keep edges that lead to a complete mapping; number the open forms anew."""
    pruned: list[PathLevel] = []
    useful = {edge.after: 0 for edge in levels[-1].edges}
    for level in reversed(levels):
        edges = [edge for edge in level.edges if edge.after in useful]
        before = {number: new for new, number in enumerate(sorted({edge.before for edge in edges}))}
        pruned.append(
            PathLevel(
                level.einsum,
                tuple(level.open_forms[number] for number in before),
                tuple(replace(e, before=before[e.before], after=useful[e.after]) for e in edges),
            )
        )
        useful = before
    return pruned[::-1]
