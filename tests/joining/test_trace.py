"""From a complete row back to its tree, by hand: E makes T[m], F makes of it S[p], G uses that; T and S are tiled alike, or not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fusiest.base.frozen import FrozenDict
from fusiest.joining import JoinProblem, Pick, join_problem, picks, trace
from fusiest.joining.meeting.compatibility import EMPTY, OpenCompatibility
from fusiest.joining.passes import JoinSource, Trails
from fusiest.joining.rows.consolidation import Pairing, Trail
from fusiest.looptree import Compute, Nested, Sequential, Storage, Temporal
from fusiest.pmapping.table import Backing, Branch, Compatibility, FusedLoop, Rows, Table
from tests.load_text import load_text

TEXT = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy}
  - !Memory {name: GLB, size: 64, component_class: Dummy}
  - !Compute {name: MAC, component_class: Dummy}
workload:
  rank_sizes: {M: 8}
  bits_per_value: {All: 1}
  einsums:
  - {name: E, tensor_accesses: [{name: A, projection: [m]}, {name: T, projection: [m], output: true}]}
  - {name: F, tensor_accesses: [{name: T, projection: {M: p}}, {name: S, projection: {M: p}, output: true}]}
  - {name: G, tensor_accesses: [{name: S, projection: {M: q}}, {name: Z, projection: {M: q}, output: true}]}
"""
E, F, G = "EFG"
NOTHING, ONE, TWO, ALL = frozenset(""), frozenset("E"), frozenset("EF"), frozenset("EFG")


class WrittenOrigin(NamedTuple):
    """An origin whose row says below its fused loops how far a last loop goes: row 3 ends at a tile of 3."""

    einsum: str
    exchanged: tuple[str, ...]
    whole: tuple[str, ...] = ()
    """Above all loops."""

    def branch(self, row: int, tiles: dict[FusedLoop, int]) -> Branch:
        above = [(held(t), frozenset[FusedLoop]()) for t in self.whole]
        return Branch((), (*above, *((held(t), frozenset(tiles)) for t in self.exchanged)), self.inside(row))

    def inside(self, row: int) -> tuple[Temporal, Compute]:
        return Temporal(rank_variable="w", tile_shape=row), Compute(einsum=self.einsum, component="MAC")


def held(*tensors: str) -> Storage:
    return Storage(tensors=tensors, component="GLB")


ORIGINS = {E: WrittenOrigin(E, ("T",)), F: WrittenOrigin(F, ("T", "S")), G: WrittenOrigin(G, ("S",))}


def rows(tiles: list[list[int]], numbers: list[int], origin: int = 0) -> Rows:
    n = len(tiles)
    return Rows(
        np.array(tiles, np.int64).reshape(n, -1), np.ones(n), np.ones(n), np.zeros((n, 1, 3)), np.full(n, origin),
        np.array(numbers), np.zeros((n, 1)),
    )  # fmt: skip


def group(variable: str, **zones: int) -> Compatibility:
    """With a loop over a variable, if there is one; each exchanged tensor below so many zones."""
    return Compatibility(
        ((FusedLoop(variable),),) if variable else (), tuple(Backing(t, "GLB", n) for t, n in zones.items())
    )


def problem() -> JoinProblem:
    """Each Einsum has a group without fused loops, and one with a loop of tiles 2 and 4; of the latter rows 5 and 6 of its
    origin. F has a third, in which S is whole: row 7 of another origin."""
    tables = {}
    for (name, origin), variable in zip(ORIGINS.items(), "mpq", strict=True):
        exchanged = sorted(origin.exchanged)
        plain, loop = group("", **dict.fromkeys(exchanged, 0)), group(variable, **dict.fromkeys(exchanged, 1))
        tables[name] = Table(name, ("GLB",), {plain: rows([[]], [3]), loop: rows([[2], [4]], [5, 6])}, [origin])
    tables[F].groups[group("p", S=0, T=1)] = rows([[2]], [7], origin=1)
    tables[F].origins.append(WrittenOrigin(F, ("T",), whole=("S",)))
    return join_problem(load_text(TEXT), tables)


def trail(*row: tuple[int, int, int]) -> Trail:
    """Per row: pairing, row of the partial mapping, row of the Einsum."""
    pairing, before, einsum = (np.array(column, np.int32) for column in zip(*row, strict=True))
    return Trail(pairing, before, einsum)


def test_picks_go_back_join_by_join() -> None:
    """The second complete row was joined by pairing 1 from row 2 of the second group of {E, F} and row 1 of G's group 1. That row
    came from row 0 of {E}, by pairing 0, with row 1 of F's group 0; and that one from nothing and row 1 of E's group 1."""
    open_one, open_other = (OpenCompatibility((), (Backing(t, "GLB", 0),)) for t in "TS")
    history = {
        NOTHING: Trails((EMPTY,), (trail((0, 0, 0)),), (), ()),
        ONE: Trails((open_one,), (trail((0, 0, 1)),), (JoinSource(NOTHING, E),), (Pairing(0, 0, 1, 0),)),
        TWO: Trails(
            (open_one, open_other),
            (trail((0, 0, 0)), trail((0, 0, 0), (0, 0, 0), (0, 0, 1))),
            (JoinSource(ONE, F),),
            (Pairing(0, 0, 0, 2),),
        ),
        ALL: Trails(
            (EMPTY,), (trail((0, 0, 0), (1, 2, 1)),), (JoinSource(TWO, G),), (Pairing(0, 0, 0, 0), Pairing(0, 1, 1, 3))
        ),
    }
    assert picks(problem(), history, 1) == [
        Pick(NOTHING, EMPTY, E, 1, 1, 0),
        Pick(ONE, open_one, F, 0, 1, 2),
        Pick(TWO, open_other, G, 1, 1, 3),
    ]
    assert [(p.group, p.row) for p in picks(problem(), history, 0)] == [(1, 1), (0, 0), (0, 0)]


def joined(choices: list[tuple[str, int, int]]) -> list[Pick]:
    """Picks of these groups and rows, each joined in the only way there is."""
    own, before, finished, found = problem(), EMPTY, NOTHING, []
    for einsum, group, row in choices:
        found.append(Pick(finished, before, einsum, group, row, 0))
        (joint,) = own.joints(before, einsum, group, own.live_around(finished, einsum))
        before, finished = joint.compatibility, finished | {einsum}
    return found


def inside(number: int, *einsums: str) -> tuple[Nested, ...]:
    """Branches of Einsums that are nothing but these rows of their origins."""
    return tuple(Nested(nodes=ORIGINS[e].inside(number)) for e in einsums)


def test_common_loops_are_one_node() -> None:
    """All three have the loop, with tiles of 4: one loop under three names, and below it their origins' row 6."""
    tree = trace(problem(), joined([(E, 1, 1), (F, 1, 1), (G, 1, 1)]))
    assert tree.nodes == (
        Temporal(rank_variable=FrozenDict({E: "m", F: "p", G: "q"}), tile_shape=4),
        held("T", "S"),
        Sequential(nodes=inside(6, E, F, G)),
    )


def test_without_common_loops_each_einsum_has_its_own_branch() -> None:
    tree = trace(problem(), joined([(E, 0, 0), (F, 0, 0), (G, 0, 0)]))
    assert tree.nodes == (held("T", "S"), Sequential(nodes=inside(3, E, F, G)))


def test_a_loop_ends_with_those_that_share_it() -> None:
    """S is whole, above the loop that E and F have in common, and G comes after it. E's tiles of 2 are its row 5."""
    tree = trace(problem(), joined([(E, 1, 0), (F, 2, 0), (G, 0, 0)]))
    common = (
        Temporal(rank_variable=FrozenDict({E: "m", F: "p"}), tile_shape=2),
        held("T"),
        Sequential(nodes=(*inside(5, E), *inside(7, F))),
    )
    assert tree.nodes == (held("S"), Sequential(nodes=(Nested(nodes=common), *inside(3, G))))
