"""Which forms of pmappings can follow which: a graph whose paths are all fused structures of a workload.

A node is the open form of a partial mapping, an edge joins one more Einsum. Nodes from which no complete mapping can be
reached are left out, so a walk along the edges never meets a form that fits nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusiest.joining.forms import EMPTY, Joint, OpenCompatibility, left_signature, right_signature
from fusiest.mapper.joiner import Joiner


@dataclass(frozen=True)
class Edge:
    """Joining a form of the next Einsum to an open form gives an open form of the next level; all by number.

    `way`: which of the ways to join the two.
    """

    before: int
    form: int
    way: int
    after: int
    joint: Joint


@dataclass(frozen=True)
class Level:
    """One Einsum in the order of joining, the open forms before it, and every way to join it to them."""

    einsum: str
    open_forms: tuple[OpenCompatibility, ...]
    edges: tuple[Edge, ...]


def listed_order(joiner: Joiner) -> list[str]:
    """The Einsums as listed, each after those that it depends on."""
    done: frozenset[str] = frozenset()
    order: list[str] = []
    while len(order) < len(joiner.order):
        order.append(joiner.next_einsums(done)[0])
        done |= {order[-1]}
    return order


def paths(joiner: Joiner) -> list[Level]:
    """The graph, level by level."""
    done: frozenset[str] = frozenset()
    reached: list[OpenCompatibility] = [EMPTY]
    levels = []
    for einsum in listed_order(joiner):
        edges, after = _edges(joiner, reached, einsum, done)
        levels.append(Level(einsum, tuple(reached), tuple(edges)))
        reached = after
        done |= {einsum}
    return _without_dead_ends(levels)


def _edges(
    joiner: Joiner, reached: list[OpenCompatibility], einsum: str, done: frozenset[str]
) -> tuple[list[Edge], list[OpenCompatibility]]:
    view = joiner.views[einsum]
    shared = joiner.live(done) & frozenset(view.info.accesses)
    live = joiner.live(done | {einsum})
    agreeing: dict[object, list[int]] = {}
    for number, (form, _) in enumerate(joiner.right[einsum]):
        agreeing.setdefault(right_signature(form, view, shared), []).append(number)
    numbers: dict[OpenCompatibility, int] = {}
    edges = []
    for before, left in enumerate(reached):
        for number in agreeing.get(left_signature(left, shared), []):
            for way, joint in enumerate(joiner.joints(left, joiner.right[einsum][number][0], einsum, shared, live)):
                after = numbers.setdefault(joint.form, len(numbers))
                edges.append(Edge(before, number, way, after, joint))
    return edges, list(numbers)


def _without_dead_ends(levels: list[Level]) -> list[Level]:
    """Keep edges that lead to a complete mapping; number the open forms anew."""
    kept: list[Level] = []
    useful = {edge.after: 0 for edge in levels[-1].edges}
    for level in reversed(levels):
        edges = [edge for edge in level.edges if edge.after in useful]
        before = {number: new for new, number in enumerate(sorted({edge.before for edge in edges}))}
        kept.append(
            Level(
                level.einsum,
                tuple(level.open_forms[number] for number in before),
                tuple(replace(e, before=before[e.before], after=useful[e.after]) for e in edges),
            )
        )
        useful = before
    return kept[::-1]
