"""What follows from a workload: bounds, named sets, renames, bits, instances."""

from __future__ import annotations

import pytest

from fusiest.base.errors import SpecError
from fusiest.show import einsum_line
from fusiest.spec.language.scope import tensor_set
from fusiest.spec.spec import Spec
from fusiest.spec.workload.analysis import EinsumInfo
from tests.load_text import load_text

CHAIN = """\
workload:
  rank_sizes: {M: 8, K: 4, N: 2, P: 16}
  bits_per_value: {All: 8}
  einsums:
  - B[m, n] = A[m, k] * V[k, n]
  - C[m, p] = B[m, n] * W[n, p]
  - "D[m, p] = C[m, p] * A[m, K: q]"
"""


def members(spec: Spec, einsum: str, expression: str) -> set[str]:
    return set(tensor_set(expression, spec.info.einsums[einsum].names, "a set").members)


@pytest.mark.parametrize(
    ("einsum", "expression", "expected"),
    [
        ("B", "All", "ABV"),
        ("B", "Inputs", "AV"),
        ("B", "Outputs", "B"),
        ("B", "Intermediates", "B"),
        ("B", "Shared", "AB"),
        ("B", "Persistent", ""),
        ("B", "Nothing", ""),
        ("B", "~Intermediates", "AV"),
        ("C", "Intermediates", "BC"),
        ("C", "Shared", "BC"),
        ("D", "Intermediates", "C"),
        ("D", "Shared", "AC"),
        ("D", "All - Shared", "D"),
        ("B", "C", ""),
        ("B", "C | A", "A"),
        ("B", "All.tensors & Inputs", "AV"),
        ("B", "A if len(All) == 3 else B", "A"),
    ],
)
def test_named_sets(einsum: str, expression: str, expected: str) -> None:
    assert members(load_text(CHAIN), einsum, expression) == set(expected)


def test_users_and_producers() -> None:
    info = load_text(CHAIN).info
    assert info.users["A"] == ("B", "D")
    assert info.producers == {"B": ("B",), "C": ("C",), "D": ("D",)}
    assert info.shared == {"A", "B", "C"}


def test_bounds_come_from_rank_sizes_also_under_another_name() -> None:
    info = load_text(CHAIN).info
    assert info.einsums["B"].bounds == {"m": 8, "k": 4, "n": 2}
    assert info.einsums["D"].bounds == {"m": 8, "p": 16, "q": 4}


def test_relevance() -> None:
    spec = load_text(
        """
        workload:
          rank_sizes: {P: 5}
          iteration_space_shape: {r: 0 <= r < 3}
          bits_per_value: {All: 8}
          einsums: ["O[p] = I[H: 2*p + r] * W[r]"]
        """
    )
    access = spec.info.einsums["O"].accesses["I"]
    assert (access.variables, access.fully_relevant, access.partially_relevant) == ({"p", "r"}, set(), {"p", "r"})
    assert spec.info.einsums["O"].accesses["W"].fully_relevant == {"r"}


def test_shapes_of_one_einsum_and_of_all() -> None:
    spec = load_text(
        """
        workload:
          iteration_space_shape: {m: 0 <= m < 8, n: 2 <= n < 7}
          bits_per_value: {All: 8}
          einsums:
          - {einsum: "B[m, n] = A[m, n]", iteration_space_shape: [0 <= m < 3]}
          - C[m, n] = B[m, n]
        """
    )
    assert [dict(spec.info.einsums[e].bounds) for e in "BC"] == [{"m": 3, "n": 5}, {"m": 8, "n": 5}]


def test_a_shape_over_several_variables_counts_where_all_are_known() -> None:
    spec = load_text(
        """
        workload:
          rank_sizes: {M: 8, N: 8}
          iteration_space_shape: ["m + n < 4"]
          bits_per_value: {All: 8}
          einsums: ["B[m, n] = A[H: m + n]", "C[m] = D[m]"]
        """
    )
    assert [dict(spec.info.einsums[e].bounds) for e in "BC"] == [{"m": 4, "n": 4}, {"m": 8}]


def shaped(constraint: str, index: str, of_workload: bool) -> Spec:
    shape = f"iteration_space_shape: ['{constraint}']"
    workload, einsum = (shape, "") if of_workload else ("", shape)
    return load_text(
        f"""
        workload:
          rank_sizes: {{M: 8, N: 8}}
          bits_per_value: 8
          {workload}
          einsums: [{{einsum: "B[m, n] = A[{index}]", {einsum}}}]
        """
    )


@pytest.mark.parametrize("constraint", ["n <= m", "m + n < 4", "m == n", "0 <= n < 3 and n < m", "2*m <= 13 + n"])
@pytest.mark.parametrize("of_workload", [False, True])
def test_only_boxes_are_counted(constraint: str, of_workload: bool) -> None:
    with pytest.raises(SpecError, match=r"a\.yaml:\d+: .* cuts corners off the iteration space of Einsum B"):
        shaped(constraint, "m, n", of_workload)


@pytest.mark.parametrize(
    ("constraint", "index"),
    [
        ("m + n < 15", "m, n"),
        ("m <= n + 7", "m, n"),
        ("0 <= m - n", "H: m - n"),
        ("n - m <= 2", "H: m - n"),
    ],
)
@pytest.mark.parametrize("of_workload", [False, True])
def test_constraints_that_leave_a_box_or_bound_an_index(constraint: str, index: str, of_workload: bool) -> None:
    """`m - n` indexes A, so that a bound on it is one of the rank: what lies outside is padding."""
    assert shaped(constraint, index, of_workload).info.einsums["B"].bounds == {"m": 8, "n": 8}


def with_renames(own: str, section: str) -> Spec:
    return load_text(CHAIN.replace("  - C[m, p] = B[m, n] * W[n, p]", own), section)


DEFAULTS = """\
renames:
  einsums:
  - name: default
    tensor_accesses:
    - {name: input, source: Inputs & Intermediates}
    - {name: output, source: Outputs, expected_count: 1}
    - {name: weight, source: ~(input | output)}
"""


def test_renames_in_order() -> None:
    spec = load_text(CHAIN, DEFAULTS)
    found = {e: {name: members(spec, e, name) for name in ("input", "weight", "output")} for e in "BC"}
    assert found["B"] == {"input": set(), "weight": {"A", "V"}, "output": {"B"}}
    assert found["C"] == {"input": {"B"}, "weight": {"W"}, "output": {"C"}}


def test_an_einsums_own_rename_overrides_the_default_before_later_ones_use_it() -> None:
    own = '  - {einsum: "C[m, p] = B[m, n] * W[n, p]", renames: {input: W}}'
    spec = with_renames(own, DEFAULTS)
    assert (members(spec, "C", "input"), members(spec, "C", "weight")) == ({"W"}, {"B"})
    assert members(spec, "D", "input") == {"C"}


def test_an_entry_of_the_section_overrides_and_the_einsum_itself_comes_last() -> None:
    entry = DEFAULTS + "  - {name: C, tensor_accesses: {input: W, extra: B}}\n"
    spec = with_renames("  - C[m, p] = B[m, n] * W[n, p]", entry)
    assert (members(spec, "C", "input"), members(spec, "C", "extra")) == ({"W"}, {"B"})
    assert members(spec, "D", "extra") == set()
    own = '  - {einsum: "C[m, p] = B[m, n] * W[n, p]", renames: [{name: input, source: Outputs}]}'
    assert members(with_renames(own, entry), "C", "input") == {"C"}


def test_an_override_may_use_new_names_listed_before_it_and_all_defaults() -> None:
    entry = DEFAULTS + "  - {name: C, tensor_accesses: {extra: B | W, input: extra & output | extra & W}}\n"
    spec = load_text(CHAIN, entry)
    assert (members(spec, "C", "input"), members(spec, "C", "weight")) == ({"W"}, {"B"})
    entry = DEFAULTS + "  - {name: C, tensor_accesses: {extra: weight | output, input: W}}\n"
    assert members(load_text(CHAIN, entry), "C", "extra") == {"B", "C"}


def test_an_override_cannot_use_a_default_that_uses_it() -> None:
    entry = DEFAULTS + "  - {name: C, tensor_accesses: {input: ~weight}}\n"
    with pytest.raises(SpecError, match=r"b\.yaml:8: rename input uses weight uses input"):
        load_text(CHAIN, entry)


def test_a_long_chain_of_renames() -> None:
    chain = "".join(f"    - {{name: r{i}, source: {f'r{i - 1}' if i else 'Inputs'}}}\n" for i in range(2000))
    spec = load_text(CHAIN, DEFAULTS + chain + "  - {name: C, tensor_accesses: {r0: W}}\n")
    assert (members(spec, "C", "r1999"), members(spec, "B", "r1999")) == ({"W"}, {"A", "V"})


def test_without_an_architecture_a_name_means_one_thing_too() -> None:
    with pytest.raises(SpecError, match=r"b\.yaml:1: A is the name of a variable and of a tensor"):
        load_text(CHAIN, "variables: {A: 1}")


def test_expected_count_may_be_an_expression() -> None:
    text = DEFAULTS.replace("expected_count: 1}", "expected_count: 2 if len(All) == 2 else 1}")
    assert members(load_text(CHAIN, text), "B", "output") == {"B"}
    with pytest.raises(SpecError, match=r"b\.yaml:6: rename output stands for 1 tensors in Einsum B \(B\), expected 3"):
        load_text(CHAIN, text.replace("else 1", "else 3"))


def info_with(bits: str, access: str = "") -> EinsumInfo:
    spec = load_text(
        f"""
        workload:
          rank_sizes: {{M: 8}}
          bits_per_value: {bits}
          einsums:
          - name: B
            tensor_accesses:
            - {{name: A, projection: [m]{access}}}
            - {{name: V, projection: [m]}}
            - {{name: B, projection: [m], output: true}}
        """
    )
    return spec.info.einsums["B"]


@pytest.mark.parametrize(
    ("bits", "access", "expected"),
    [
        ("16", "", (16, 16, 16)),
        ("{All: 8}", "", (8, 8, 8)),
        ("{Inputs: 8, Outputs: 24}", "", (8, 8, 24)),
        ("{A: 4, Other: 6}", "", (4, 6, 6)),
        ("{A: 4, Other: 6}", ", bits_per_value: 3", (3, 6, 6)),
        ("{Other: 6, A: 2 * 2}", "", (4, 6, 6)),
        ("{V | B: 8}", ", bits_per_value: 1.5", (1.5, 8, 8)),
    ],
)
def test_bits_per_value(bits: str, access: str, expected: tuple[float, ...]) -> None:
    info = info_with(bits, access)
    assert tuple(info.bits_per_value[t] for t in "AVB") == expected


def test_instances_multiply() -> None:
    text = CHAIN.replace("  bits_per_value", "  n_instances: 3\n  bits_per_value")
    text = text.replace(
        "  - C[m, p] = B[m, n] * W[n, p]", '  - {einsum: "C[m, p] = B[m, n] * W[n, p]", n_instances: 5}'
    )
    assert [load_text(text).info.einsums[e].n_instances for e in "BCD"] == [3, 15, 3]


def test_persistent_tensors_may_use_renames() -> None:
    spec = load_text(CHAIN.replace("  einsums", "  persistent_tensors: weight - Shared\n  einsums"), DEFAULTS)
    assert [spec.info.einsums[e].persistent for e in "BC"] == [{"V"}, {"W"}]
    assert members(spec, "B", "~Persistent") == {"A", "B"}


def test_ranks_may_be_named_in_text_and_in_tables() -> None:
    text = CHAIN.replace(
        "  - C[m, p] = B[m, n] * W[n, p]",
        "  - name: C\n    tensor_accesses:\n    - {name: B, projection: {N: x, M: m}}\n"
        "    - {name: W, projection: {N: x, P: p}}\n    - {name: C, projection: [m, p], output: true}",
    )
    assert load_text(text).info.einsums["C"].bounds == {"x": 2, "m": 8, "p": 16}


def test_a_chain_of_a_thousand_einsums_with_residuals() -> None:
    lines = ["  - 'X0[m, N: n] = I[m, k] * W0[k, N: n]'"]
    for i in range(1, 1000):
        other = f"X{i - 2}[m, N: n]" if i % 2 == 0 else f"W{i}[n]"
        lines.append(f"  - 'X{i}[m, N: n] = X{i - 1}[m, N: n] * {other}'")
    head = "workload:\n  bits_per_value: {All: 8}\n  rank_sizes: {M: 64, N: 64, K: 32}\n  einsums:\n"
    spec = load_text(head + "\n".join(lines), DEFAULTS)
    assert len(spec.info.einsums) == 1000
    assert spec.info.users["X500"] == ("X500", "X501", "X502")
    assert spec.info.einsums["X502"].bounds == {"m": 64, "n": 64}
    assert members(spec, "X502", "Intermediates") == {"X500", "X501", "X502"}


def test_variables_count_from_their_least_value() -> None:
    """`1 <= q`, as T has no row -1: the first element that U touches is T[0]. It is shown as it was written."""
    spec = load_text("""
workload:
  rank_sizes: {N: 8, Q: 9}
  bits_per_value: {All: 8}
  einsums:
  - {name: U, tensor_accesses: [{name: T, projection: {N: q - 1}}, {name: U, projection: [q], output: true}]}
""")
    info = spec.info.einsums["U"]
    assert (dict(info.bounds), dict(info.least)) == ({"q": 8}, {"q": 1})
    assert info.accesses["T"].stepping("q") == ("N", 1, 0)
    assert info.accesses["U"].stepping("q") == ("Q", 1, 1)
    assert einsum_line(info) == "U:  U[q] = T[N: q - 1]  (q=1..8)"
