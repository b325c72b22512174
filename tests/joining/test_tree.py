"""Joined pmappings as one LoopTree, by hand: T[m] is made by one Einsum and used by another, which calls its loop p."""

from __future__ import annotations

from fusiest.base.frozen import FrozenDict
from fusiest.joining.tree import JoinedBranch, build_tree
from fusiest.looptree import Compute, Nested, Node, Sequential, Storage, Temporal
from fusiest.pmapping.table import Backing, Branch, Compatibility, FusedLoop, Holding

M, P, N = FusedLoop("m"), FusedLoop("p"), FusedLoop("n")


def held(tensor: str, memory: str = "GLB") -> Storage:
    return Storage(tensors=(tensor,), component=memory)


def leaf(einsum: str) -> tuple[Node, ...]:
    return (Temporal(rank_variable="k", tile_shape=1), Compute(einsum=einsum, component="MAC"))


def one(
    einsum: str,
    between: tuple[tuple[Storage, frozenset[FusedLoop]], ...],
    compatibility: Compatibility,
    numbers: dict[FusedLoop, int],
    shared: frozenset[FusedLoop] = frozenset(),
) -> JoinedBranch:
    """An Einsum that holds its own tensor, of the same name in lower case, in DRAM; all tiles are 2."""
    branch = Branch((held(einsum.lower(), "DRAM"),), between, leaf(einsum))
    return JoinedBranch(einsum, branch, compatibility, dict.fromkeys(numbers, 2), numbers, shared)


def exchanging(zones: tuple[tuple[FusedLoop, ...], ...], depth: int) -> Compatibility:
    return Compatibility(zones, (Backing("T", "GLB", depth),))


def test_a_tensor_below_a_common_loop_is_held_once_above_both() -> None:
    first = one("E", ((held("T"), frozenset({M})),), exchanging(((M,),), 1), {M: 0})
    second = one("F", ((held("T"), frozenset({P})),), exchanging(((P,),), 1), {P: 0}, frozenset({P}))
    assert build_tree([first, second]).nodes == (
        Storage(tensors=("e", "f"), component="DRAM"),
        Temporal(rank_variable=FrozenDict({"E": "m", "F": "p"}), tile_shape=2),
        held("T"),
        Sequential(nodes=(Nested(nodes=leaf("E")), Nested(nodes=leaf("F")))),
    )


def test_a_tensor_above_all_loops_leaves_each_its_own() -> None:
    first = one("E", ((held("T"), frozenset()),), exchanging((), 0), {})
    second = one("F", ((held("T"), frozenset()),), exchanging((), 0), {})
    assert build_tree([first, second]).nodes[1:] == (
        held("T"),
        Sequential(nodes=(Nested(nodes=leaf("E")), Nested(nodes=leaf("F")))),
    )


def test_an_einsums_own_fused_loop_comes_below_the_common_one() -> None:
    """E has a second fused loop, n, below T: it is not shared, so it stands inside E's branch."""
    first = one(
        "E", ((held("T"), frozenset({M})), (held("A"), frozenset({M, N}))), exchanging(((M,), (N,)), 1), {M: 0, N: 1}
    )
    second = one("F", ((held("T"), frozenset({P})),), exchanging(((P,),), 1), {P: 0}, frozenset({P}))
    sequence = build_tree([first, second]).nodes[-1]
    assert isinstance(sequence, Sequential)
    assert sequence.nodes[0] == Nested(nodes=(Temporal(rank_variable="n", tile_shape=2), held("A"), *leaf("E")))
    assert sequence.nodes[1] == Nested(nodes=leaf("F"))


def test_a_holder_that_sinks_stands_last_in_its_place() -> None:
    """B's space sinks into the loop right below it, so A stands above it, for E and for F alike."""
    below = ((held("T"), frozenset()), (held("A"), frozenset()), (held("B"), frozenset()))
    sunk = Compatibility(((M,),), (Backing("T", "GLB", 0),), (Holding("B", "GLB", 0, 1),))
    (nodes,) = [build_tree([one("E", below, sunk, {M: 0})]).nodes]
    assert nodes[1:4] == (held("T"), held("A"), held("B"))
