"""Mappings as loop nests for people: what moves where, when, without an architecture."""

from __future__ import annotations

from textwrap import dedent

import pytest

import fusiest
from fusiest.base.errors import Located, Source, SpecError
from fusiest.base.frozen import FrozenDict
from fusiest.code import pseudocode
from fusiest.looptree import Compute, LoopTree, Nested, Node, Sequential, Spatial, Storage, Temporal, Toll
from tests.load_text import load_text


def loop(variable: str | FrozenDict[str, str], tile: int) -> Temporal:
    return Temporal(rank_variable=variable, tile_shape=tile)


def hold(component: str, *tensors: str) -> Storage:
    return Storage(tensors=tensors, component=component)


def compute(einsum: str) -> Compute:
    return Compute(einsum=einsum, component="MAC")


def split(*branches: tuple[Node, ...]) -> Sequential:
    return Sequential(nodes=tuple(Nested(nodes=branch) for branch in branches))


def workload(bounds: dict[str, int], *einsums: str) -> fusiest.Spec:
    shape = ", ".join(f"0 <= {v} < {n}" for v, n in bounds.items())
    head = f"workload:\n  bits_per_value: 8\n  iteration_space_shape: [{shape}]\n  einsums:\n"
    return load_text(head + "".join(f'  - "{einsum}"\n' for einsum in einsums))


def check(nodes: tuple[Node, ...], bounds: dict[str, int], expected: str, *einsums: str) -> None:
    assert pseudocode(workload(bounds, *einsums), LoopTree(nodes=nodes)) == dedent(expected).strip()


def test_fused_matmuls() -> None:
    """What stands above loops that index it is fetched, and drained, inside of them: there its space is taken."""
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
        {"m": 8, "n0": 4, "n1": 6, "n2": 2},
        """
        # DRAM holds T0, W0, W1, T2
        fetch W0 from DRAM into Buf
        fetch W1 from DRAM into Buf
        for m1 in 0..4:  # tiles of 2
          # Buf holds 2 x 6 of T1
          # Einsum T1
          for m0 in 0..2:
            for n0 in 0..4:
              fetch T0[2*m1 + m0, n0] from DRAM into Buf
              for n1 in 0..6:
                m = 2*m1 + m0
                T1[m, n1] += T0[m, n0] * W0[n0, n1]  # on MAC
          # Einsum T2
          for m0 in 0..2:
            for n1 in 0..6:
              for n2 in 0..2:
                m = 2*m1 + m0
                T2[m, n2] += T1[m, n1] * W1[n1, n2]  # on MAC
            drain T2[2*m1 + m0, :] from Buf into DRAM
        """,
        "T1[m, n1] = T0[m, n0] * W0[n0, n1]",
        "T2[m, n2] = T1[m, n1] * W1[n1, n2]",
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
        {"m": 4, "n": 3, "k": 4},
        """
        # DRAM holds A, B, Z
        for k1 in 0..2:  # tiles of 2
          for n in 0..3:
            fetch A[:, 2*k1..2*k1 + 2] from DRAM into Buf
            if k1 > 0: fetch Z[:, n] from DRAM into Buf  # partial sums
            parallel-for k0 in 0..2 on PE.X:
              for m in 0..4:
                if k1 > 0: fetch Z[m, n] from Buf into Reg  # partial sums, the first of k0
                k = 2*k1 + k0
                Z[m, n] += A[m, k] * B[k, n]  # on MAC
                drain Z[m, n] from Reg into Buf  # added up over k0
            drain Z[:, n] from Buf into DRAM
        """,
        "Z[m, n] = A[m, k] * B[k, n]",
    )


def test_tolls_reductions_and_what_comes_after() -> None:
    tolls = Toll(tensors=("A", "Z"), component="NoC")
    check(
        (hold("DRAM", "A", "B", "Z"), tolls, hold("Buf", "A", "Z"), loop("m", 1), loop("k", 1), compute("Z")),
        {"m": 4, "k": 2},
        """
        # DRAM holds A, B, Z
        fetch A from DRAM into Buf through NoC
        for m in 0..4:
          for k in 0..2:
            Z[m] = max(Z[m], A[m, k])  # on MAC
          Z[m] = relu(Z[m] + B[m])
          drain Z[m] from Buf into DRAM through NoC
        """.replace("fetch A from", "fetch A from"),
        "Z[m] = relu(max(A[m, k]) + B[m])",
    )


def test_an_intermediate_is_drained_by_its_maker_and_fetched_by_its_user() -> None:
    check(
        (
            hold("DRAM", "X", "Y", "Z"),
            hold("Buf", "Y"),
            split((loop("m", 1), compute("Y")), (loop("m", 1), compute("Z"))),
        ),
        {"m": 2},
        """
        # DRAM holds X, Z
        # DRAM holds Y
        # Einsum Y
        for m in 0..2:
          Y[m] = relu(X[m])  # on MAC
          drain Y[m] from Buf into DRAM
        # Einsum Z
        for m in 0..2:
          fetch Y[m] from DRAM into Buf
          Z[m] = Y[m] / 2  # on MAC
        """,
        "Y[m] = relu(X[m])",
        "Z[m] = Y[m] / 2",
    )


def test_imperfect_tiles_visit_every_point_once() -> None:
    check(
        (hold("DRAM", "A", "Z"), loop("m", 5), loop("m", 2), loop("m", 1), compute("Z")),
        {"m": 8},
        """
        # DRAM holds A, Z
        for m2 in 0..2:  # tiles of 5
          m2_end = min(5*m2 + 5, 8)
          for m1 in 0..ceil((m2_end - 5*m2) / 2):  # tiles of 2
            m1_end = min(5*m2 + 2*m1 + 2, m2_end)
            for m0 in 0..m1_end - 5*m2 - 2*m1:
              m = 5*m2 + 2*m1 + m0
              Z[m] = A[m]  # on MAC
        """,
        "Z[m] = A[m]",
    )
    seen = [
        5 * m2 + 2 * m1 + m0
        for m2 in range(2)
        for m1 in range(-(-(min(5 * m2 + 5, 8) - 5 * m2) // 2))
        for m0 in range(min(5 * m2 + 2 * m1 + 2, 5 * m2 + 5, 8) - 5 * m2 - 2 * m1)
    ]
    assert seen == list(range(8))


def test_renamed_rank_variable_and_numbering_by_the_longest_branch() -> None:
    """K is exchanged below the loop, so both take turns in it."""
    shared = loop(FrozenDict({"K": "m", "QK": "p"}), 4)
    branches = split((loop("m", 2), loop("m", 1), compute("K")), (loop("p", 1), compute("QK")))
    check(
        (hold("DRAM", "I", "QK"), shared, hold("DRAM", "K"), branches),
        {"m": 8, "p": 8},
        """
        # DRAM holds I, QK
        for m2 in 0..2:  # m (K) = p (QK), tiles of 4
          # DRAM holds 4 of K
          # Einsum K
          for m1 in 0..2:  # tiles of 2
            for m0 in 0..2:
              m = 4*m2 + 2*m1 + m0
              K[m] = I[m]  # on MAC
          # Einsum QK
          for p0 in 0..4:
            p = 4*m2 + p0
            QK[p] = K[M: p]  # on MAC
        """,
        "K[m] = I[m]",
        "QK[p] = K[M: p]",
    )


def test_loops_are_shared_only_where_something_is_exchanged() -> None:
    """The model counts them so: with K above the loop, the first Einsum runs through it alone."""
    shared = loop(FrozenDict({"K": "m", "QK": "p"}), 1)
    check(
        (hold("DRAM", "I", "K", "QK"), shared, split((compute("K"),), (compute("QK"),))),
        {"m": 8, "p": 8},
        """
        # DRAM holds I, QK
        # DRAM holds K
        # Einsum K
        for m in 0..8:  # m (K) = p (QK)
          K[m] = I[m]  # on MAC
        # Einsum QK
        for m in 0..8:  # m (K) = p (QK)
          p = m
          QK[p] = K[M: p]  # on MAC
        """,
        "K[m] = I[m]",
        "QK[p] = K[M: p]",
    )


def test_a_window_slides_and_only_what_is_new_is_fetched() -> None:
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
        {"p": 4, "r": 3, "c": 1},
        """
        # DRAM holds I, W, O
        for p1 in 0..2:  # tiles of 2
          for p0 in 0..2:
            fetch I[(2*p1 + p0 if p0 == 0 else 2*p1 + p0 + 2)..2*p1 + p0 + 3, :] from DRAM into Buf
            for r in 0..3:
              fetch I[2*p1 + p0 + r, :] from Buf into Reg
              p = 2*p1 + p0
              c = 0
              O[p] += I[H: p + r, c] * W[r, c]  # on MAC
        """,
        "O[p] = I[H: p + r, C: c] * W[r, c]",
    )


@pytest.mark.parametrize(
    ("variables", "indices"),
    [(("m", "n"), ["m1", "n"]), (("m", "m1"), ["m_1", "m1"]), (("m1", "k"), ["m1_1", "k"])],
)
def test_indices_never_read_like_variables(variables: tuple[str, str], indices: list[str]) -> None:
    first, second = variables
    nodes = (hold("DRAM", "A", "Z"), loop(first, 2), loop(second, 1), loop(first, 1), compute("Z"))
    access = f"[{first}, {second}]"
    spec = workload({first: 4, second: 4}, f"Z{access} = A{access}")
    lines = pseudocode(spec, LoopTree(nodes=nodes)).splitlines()
    assert [line.split()[1] for line in lines[1:3]] == indices


def test_a_branch_of_several_einsums_names_them_all() -> None:
    tensors = hold("DRAM", "X", "A", "B", "C")
    tree = LoopTree(nodes=(tensors, split((split((compute("A"),), (compute("B"),)),), (compute("C"),))))
    spec = workload({"m": 1}, "A[m] = X[m]", "B[m] = A[m]", "C[m] = B[m]")
    comments = [line for line in pseudocode(spec, tree).splitlines() if line.startswith("# Einsum")]
    assert comments == ["# Einsum A", "# Einsum B", "# Einsum C"]


def test_persistent_is_said() -> None:
    nodes = (Storage(tensors=("W",), component="Buf", persistent=True), hold("Buf", "Z"), compute("Z"))
    first, second, *_ = pseudocode(workload({"m": 1}, "Z[m] = W[m]"), LoopTree(nodes=nodes)).splitlines()
    assert (first, second) == ("# Buf holds W (persistent)", "# Buf holds Z")


def test_a_loop_over_what_is_no_variable_is_an_error_with_its_place() -> None:
    wrong = loop(Located("q", Source("map.yaml", 3)), 1)
    tree = LoopTree(nodes=(hold("DRAM", "A", "Z"), wrong, compute("Z")))
    with pytest.raises(SpecError, match=r"map\.yaml:3: Einsum Z has no rank variable q"):
        pseudocode(workload({"m": 4}, "Z[m] = A[m]"), tree)


def test_unknown_functions_are_written_as_they_are() -> None:
    nodes = (hold("DRAM", "A", "Z"), loop("m", 1), compute("Z"))
    assert "Z[m] = gobble(A[m])" in pseudocode(workload({"m": 4}, "Z[m] = gobble(A[m])"), LoopTree(nodes=nodes))


def test_a_thousand_loops() -> None:
    ones = [loop("m", 1)] * 997
    tree = LoopTree(nodes=(hold("DRAM", "A", "Z"), *ones, hold("Buf", "A"), compute("Z")))
    lines = pseudocode(workload({"m": 2}, "Z[m] = A[m]"), tree).splitlines()
    assert (lines[1], lines[997].strip()) == ("for m996 in 0..2:", "for m0 in 0..1:")
    assert lines[-1].strip() == "Z[m] = A[m]  # on MAC"
