from __future__ import annotations

from textwrap import dedent

import pytest

from fusiest.base.errors import Located, Source, SpecError
from fusiest.base.frozen import FrozenDict
from fusiest.looptree.nodes import Compute, LoopTree, Nested, Node, Sequential, Spatial, Storage, Temporal, Toll
from fusiest.looptree.pseudocode import EinsumText, pseudocode


def loop(variable: str | FrozenDict[str, str], tile: int) -> Temporal:
    return Temporal(rank_variable=variable, tile_shape=tile)


def hold(component: str, *tensors: str) -> Storage:
    return Storage(tensors=tensors, component=component)


def compute(einsum: str) -> Compute:
    return Compute(einsum=einsum, component="MAC")


def split(*branches: tuple[Node, ...]) -> Sequential:
    return Sequential(nodes=tuple(Nested(nodes=branch) for branch in branches))


MATMUL = {"Z": EinsumText("Z[m, n]", ("A[m, k]", "B[k, n]"))}


def check(nodes: tuple[Node, ...], bounds: dict[str, dict[str, int]], expected: str, **accesses: EinsumText) -> None:
    assert pseudocode(LoopTree(nodes=nodes), bounds, accesses) == dedent(expected).strip()


def test_fused_matmuls() -> None:
    check(
        (
            hold("DRAM", "T0", "W0", "W1", "T2"),
            hold("Buf", "W0", "W1"),
            loop("m", 2),
            hold("Buf", "T1"),
            split(
                (hold("Buf", "T0"), loop("m", 1), loop("n0", 1), loop("n1", 1), compute("T1")),
                (hold("Buf", "T2"), loop("m", 1), loop("n1", 1), loop("n2", 1), compute("T2")),
            ),
        ),
        {"T1": {"m": 8, "n0": 4, "n1": 6}, "T2": {"m": 8, "n1": 6, "n2": 2}},
        """
        # DRAM holds T0, W0, W1, T2
        fetch W0 from DRAM into Buf
        fetch W1 from DRAM into Buf
        for m1 in 0..4:  # tiles of 2
          # Buf holds T1[m1, :]
          # Einsum T1
          fetch T0[m1, :] from DRAM into Buf
          for m0 in 0..2:
            for n0 in 0..4:
              for n1 in 0..6:
                m = 2*m1 + m0
                T1[m, n1] += T0[m, n0] * W0[n0, n1]  # on MAC
          # Einsum T2
          for m0 in 0..2:
            for n1 in 0..6:
              for n2 in 0..2:
                m = 2*m1 + m0
                T2[m, n2] += T1[m, n1] * W1[n1, n2]  # on MAC
          drain T2[m1, :] from Buf into DRAM
        """,
        T1=EinsumText("T1[m, n1]", ("T0[m, n0]", "W0[n0, n1]")),
        T2=EinsumText("T2[m, n2]", ("T1[m, n1]", "W1[n1, n2]")),
    )


def test_partial_sums_are_fetched_when_a_reduction_goes_round() -> None:
    check(
        (
            hold("DRAM", "A", "B", "Z"),
            loop("k", 2),
            loop("n", 1),
            hold("Buf", "A", "Z"),
            Spatial(rank_variable="k", tile_shape=1, component="PE", name="X"),
            hold("Reg", "Z"),
            loop("m", 1),
            compute("Z"),
        ),
        {"Z": {"m": 4, "n": 3, "k": 4}},
        """
        # DRAM holds A, B, Z
        for k1 in 0..2:  # tiles of 2
          for n in 0..3:
            fetch A[:, k1] from DRAM into Buf
            if k1 > 0: fetch Z[:, n] from DRAM into Buf  # partial sums
            parallel-for k0 in 0..2 on PE.X:
              if k1 > 0: fetch Z[:, n] from Buf into Reg  # partial sums
              for m in 0..4:
                k = 2*k1 + k0
                Z[m, n] += A[m, k] * B[k, n]  # on MAC
              drain Z[:, n] from Reg into Buf
            drain Z[:, n] from Buf into DRAM
        """,
        **MATMUL,
    )


def test_without_accesses_no_direction_is_claimed() -> None:
    nodes = (hold("DRAM", "A"), Toll(tensors=("A",), component="NoC"), hold("Buf", "A"), loop("m", 1), compute("Z"))
    check(
        nodes,
        {"Z": {"m": 4}},
        """
        # DRAM holds A
        # A through NoC
        # Buf holds A, exchanged with DRAM
        for m in 0..4:
          compute Z on MAC
        """,
    )


def test_intermediate_written_and_then_read_under_one_holder_is_only_drained() -> None:
    check(
        (hold("DRAM", "X", "Y", "Z"), hold("Buf", "Y"), split((compute("Y"),), (compute("Z"),))),
        {"Y": {}, "Z": {}},
        """
        # DRAM holds X, Y, Z
        # Einsum Y
        Y = X  # on MAC
        # Einsum Z
        Z = Y  # on MAC
        drain Y from Buf into DRAM
        """,
        Y=EinsumText("Y", ("X",)),
        Z=EinsumText("Z", ("Y",)),
    )


def test_imperfect_tiles_visit_every_point_once() -> None:
    nodes = (loop("m", 5), loop("m", 2), loop("m", 1), compute("Z"))
    check(
        nodes,
        {"Z": {"m": 8}},
        """
        for m2 in 0..2:  # tiles of 5
          for m1 in 0..ceil(min(5, 8 - 5*m2) / 2):  # tiles of 2
            for m0 in 0..min(2, min(5, 8 - 5*m2) - 2*m1):
              m = 5*m2 + 2*m1 + m0
              Z[m] = A[m]  # on MAC
        """,
        Z=EinsumText("Z[m]", ("A[m]",)),
    )
    seen = [
        5 * m2 + 2 * m1 + m0
        for m2 in range(2)
        for m1 in range(-(-min(5, 8 - 5 * m2) // 2))
        for m0 in range(min(2, min(5, 8 - 5 * m2) - 2 * m1))
    ]
    assert seen == list(range(8))


def test_renamed_rank_variable_and_numbering_by_the_longest_branch() -> None:
    shared = loop(FrozenDict({"K": "m", "QK": "p"}), 4)
    check(
        (shared, split((loop("m", 2), loop("m", 1), compute("K")), (loop("p", 1), compute("QK")))),
        {"K": {"m": 8}, "QK": {"p": 8}},
        """
        for m2 (K) = p2 (QK) in 0..2:  # tiles of 4
          # Einsum K
          for m1 in 0..2:  # tiles of 2
            for m0 in 0..2:
              m = 4*m2 + 2*m1 + m0
              K[m] = I[m]  # on MAC
          # Einsum QK
          for p0 in 0..4:
            p = 4*p2 + p0
            QK[p] = K[p]  # on MAC
        """,
        K=EinsumText("K[m]", ("I[m]",)),
        QK=EinsumText("QK[p]", ("K[p]",)),
    )


def test_convolution_tiles_and_a_variable_without_a_loop() -> None:
    check(
        (
            hold("DRAM", "I", "W", "O"),
            loop("p", 2),
            hold("Buf", "I"),
            loop("p", 1),
            hold("Reg", "I"),
            loop("r", 1),
            compute("O"),
        ),
        {"O": {"p": 4, "r": 3, "c": 1}},
        """
        # DRAM holds I, W, O
        for p1 in 0..2:  # tiles of 2
          fetch I[p1 + :, :] from DRAM into Buf
          for p0 in 0..2:
            fetch I[p1.p0 + :, :] from Buf into Reg
            for r in 0..3:
              p = 2*p1 + p0
              c = 0
              O[p] += I[p + r, c] * W[r, c]  # on MAC
        """,
        O=EinsumText("O[p]", ("I[p + r, c]", "W[r, c]")),
    )


@pytest.mark.parametrize(
    ("variables", "indices"),
    [(("m", "n"), ["m1", "n"]), (("m", "m1"), ["m_1", "m1"]), (("m1", "k"), ["m1_1", "k"])],
)
def test_indices_never_read_like_variables(variables: tuple[str, str], indices: list[str]) -> None:
    first, second = variables
    nodes = (loop(first, 2), loop(second, 1), loop(first, 1), compute("Z"))
    lines = pseudocode(LoopTree(nodes=nodes), {"Z": {first: 4, second: 4}}).splitlines()
    assert [line.split()[1] for line in lines[:2]] == indices


def test_indices_never_read_like_a_variable_without_a_loop() -> None:
    tree = LoopTree(nodes=(loop("m", 2), loop("m", 1), compute("Z")))
    assert pseudocode(tree, {"Z": {"m": 4, "m1": 1}}).startswith("for m_1 in 0..2:")


def test_a_branch_of_several_einsums_names_them_all() -> None:
    tree = LoopTree(nodes=(split((split((compute("A"),), (compute("B"),)),), (compute("C"),)),))
    comments = [line for line in pseudocode(tree, {}).splitlines() if line.startswith("#")]
    assert comments == ["# Einsums A, B", "# Einsum A", "# Einsum B", "# Einsum C"]


def test_persistent_is_said() -> None:
    tree = LoopTree(nodes=(Storage(tensors=("W",), component="Buf", persistent=True), compute("Z")))
    assert pseudocode(tree, {}).splitlines()[0] == "# Buf holds W (persistent)"


def test_a_loop_without_a_bound_is_an_error_with_its_place() -> None:
    tree = LoopTree(nodes=(loop(Located("q", Source("map.yaml", 3)), 1), compute("Z")))
    with pytest.raises(SpecError, match=r"map\.yaml:3: no Einsum under the loop over q has a bound for it"):
        pseudocode(tree, {"Z": {"m": 4}})


def test_a_thousand_loops() -> None:
    tree = LoopTree(nodes=(*[loop("m", 1)] * 1000, hold("Buf", "A"), compute("Z")))
    lines = pseudocode(tree, {"Z": {"m": 2}}).splitlines()
    assert (lines[0], lines[999].strip()) == ("for m999 in 0..2:", "for m0 in 0..1:")
    assert lines[1001].strip() == "compute Z on MAC"
