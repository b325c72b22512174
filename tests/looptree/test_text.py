from __future__ import annotations

from fusiest.base.frozen import FrozenDict
from fusiest.looptree.nodes import Compute, LoopTree, Nested, Node, Sequential, Spatial, Storage, Temporal, Toll
from fusiest.looptree.text import text


def loop(variable: str | FrozenDict[str, str], tile: int) -> Temporal:
    return Temporal(rank_variable=variable, tile_shape=tile)


def hold(component: str, *tensors: str) -> Storage:
    return Storage(tensors=tensors, component=component)


def compute(einsum: str) -> Compute:
    return Compute(einsum=einsum, component="MAC")


def split(*branches: tuple[Node, ...]) -> Sequential:
    return Sequential(nodes=tuple(Nested(nodes=branch) for branch in branches))


FUSED = LoopTree(
    nodes=(
        hold("DRAM", "T0", "W0", "W1", "T2"),
        loop("m", 2),
        hold("Buf", "T1"),
        split(
            (hold("Buf", "T0"), loop("m", 1), loop("n0", 1), loop("n1", 1), compute("T1")),
            (loop("m", 1), loop("n1", 1), loop("n2", 1), compute("T2")),
        ),
    )
)
BOUNDS = {"T1": {"m": 8, "n0": 4, "n1": 6}, "T2": {"m": 8, "n1": 6, "n2": 2}}


def test_fused_tree() -> None:
    assert text(FUSED, BOUNDS) == (
        "[T0, W0, W1, T2 in DRAM]\n"
        "for m in 0..4 (tile 2)\n"
        "  [T1 in Buf]\n"
        "  ├─ [T0 in Buf]\n"
        "  │  for m in 0..2 (tile 1)\n"
        "  │    for n0 in 0..4 (tile 1)\n"
        "  │      for n1 in 0..6 (tile 1)\n"
        "  │        T1 on MAC\n"
        "  └─ for m in 0..2 (tile 1)\n"
        "       for n1 in 0..6 (tile 1)\n"
        "         for n2 in 0..2 (tile 1)\n"
        "           T2 on MAC"
    )


def test_ascii_and_no_bounds() -> None:
    tree = LoopTree(nodes=(split((loop("m", 2), compute("A")), (split((compute("B"),), (compute("C"),)),)),))
    assert text(tree, unicode=False) == (
        "|- for m (tile 2)\n"
        "|    A on MAC\n"
        "`- |- B on MAC\n"
        "   `- C on MAC"
    )  # fmt: skip


def test_spatial_toll_and_persistent() -> None:
    nodes = (
        Storage(tensors=("W",), component="DRAM", persistent=True),
        Toll(tensors=("W", "A"), component="NoC"),
        Spatial(rank_variable="n", tile_shape=1, component="PE", name="X"),
        compute("Z"),
    )
    assert text(LoopTree(nodes=nodes), {"Z": {"n": 4}}) == (
        "[W in DRAM, persistent]\n[W, A through NoC]\nparallel-for n in 0..4 (tile 1) on PE.X\n  Z on MAC"
    )


def test_imperfect_tiles_round_up() -> None:
    tree = LoopTree(nodes=(loop("m", 4), loop("m", 3), loop("m", 1), compute("Z")))
    ranges = [line.split()[3] for line in text(tree, {"Z": {"m": 7}}).splitlines()[:3]]
    assert ranges == ["0..2", "0..2", "0..3"]


def test_renamed_rank_variable_follows_each_einsum() -> None:
    shared = loop(FrozenDict({"K": "m", "V": "m", "QK": "p"}), 2)
    tree = LoopTree(nodes=(shared, split((loop("m", 1), compute("K")), (loop("p", 1), compute("QK")))))
    assert text(tree, {"K": {"m": 8}, "QK": {"p": 8}}).splitlines() == [
        "for m (K, V) = p (QK) in 0..4 (tile 2)",
        "  ├─ for m in 0..2 (tile 1)",
        "  │    K on MAC",
        "  └─ for p in 0..2 (tile 1)",
        "       QK on MAC",
    ]


def test_one_name_for_all_einsums_is_shown_plainly() -> None:
    tree = LoopTree(nodes=(loop(FrozenDict({"A": "m", "B": "m"}), 2), split((compute("A"),), (compute("B"),))))
    assert text(tree).startswith("for m (tile 2)\n")


def test_shared_loop_uses_the_first_einsum_that_has_the_variable() -> None:
    tree = LoopTree(nodes=(loop("k", 1), split((compute("A"),), (compute("B"),))))
    assert text(tree, {"A": {"m": 3}, "B": {"k": 5}}).startswith("for k in 0..5 (tile 1)\n")
    assert text(tree, {"A": {"m": 3}}).startswith("for k (tile 1)\n")


def test_empty_tree() -> None:
    assert text(LoopTree(nodes=())) == ""


def test_a_thousand_loops() -> None:
    lines = text(LoopTree(nodes=(*[loop("m", 1)] * 1500, compute("A"))), {"A": {"m": 8}}).splitlines()
    assert lines[0] == "for m in 0..8 (tile 1)"
    assert lines[1500] == "  " * 1500 + "A on MAC"
