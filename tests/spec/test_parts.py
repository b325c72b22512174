"""Tensors that several Einsums make: what is accepted, and what follows from it."""

from __future__ import annotations

import re

import pytest

import fusiest
from fusiest.spec.reading.loading import load_texts
from fusiest.spec.spec import Spec
from fusiest.spec.workload.part import part_of

HEAD = """
workload:
  bits_per_value: 8
  rank_sizes: {M: 4, D: 2%s}
  iteration_space_shape: [%s]
  einsums:
"""
SIZES = {"c1": 4, "c2": 2, "c": 6, "n": 3}


def spec_of(*lines: str, sizes: str = "") -> Spec:
    text = "\n".join(f"  - {line}" for line in lines)
    bounds = ", ".join(f'"0 <= {v} < {size}"' for v, size in SIZES.items() if re.search(rf"\b{v}\b", text))
    return load_texts({"parts.yaml": HEAD % (sizes, bounds) + text}, {})


FIRST = '{name: A, einsum: "T[m, C: c1] = X[m, d] * W1[d, c1]"}'
SECOND = '{name: B, einsum: "T[m, C: c2 + 4] = X[m, d] * W2[d, c2]"}'
READER = '"Y[m, n] = T[m, c] * W3[c, n]"'


def test_all_producers_come_before_a_reader() -> None:
    info = spec_of(FIRST, SECOND, READER).info
    assert info.producers["T"] == ("A", "B")
    assert info.needs["Y"] == {"A", "B"}
    assert info.einsums["A"].shared_out["T"] == info.einsums["Y"].shared_out["T"] == ("C", 6)
    assert info.einsums["Y"].shared_out.keys() == {"T"}
    assert info.einsums["A"].names["Intermediates"].members == {"T"}


def test_what_nobody_reads_is_no_intermediate() -> None:
    info = spec_of(FIRST, SECOND).info
    assert info.einsums["A"].names["Intermediates"].members == set()
    assert info.shared == {"T", "X"}


def test_a_part_may_be_one_index() -> None:
    info = spec_of('{name: A, einsum: "T[m, S: 0] = X[m, d]"}', '{name: B, einsum: "T[m, S: 1] = X[m, d]"}').info
    assert info.einsums["B"].shared_out["T"] == ("S", 2)


def test_a_part_may_be_written_backwards() -> None:
    info = spec_of(FIRST, '{name: B, einsum: "T[m, C: 5 - c2] = X[m, d] * W2[d, c2]"}', READER).info
    assert info.einsums["B"].shared_out["T"] == ("C", 6)
    with pytest.raises(fusiest.SpecError, match="indices 3 to 3 of rank C are written twice"):
        spec_of(FIRST, '{name: B, einsum: "T[m, C: 4 - c2] = X[m, d] * W2[d, c2]"}').info  # noqa: B018


def test_the_step_of_a_single_index_does_not_matter() -> None:
    once = '{name: B, einsum: "T[m, C: 2*c2 + 4] = X[m, d] * W2[d, c2]", iteration_space_shape: {c2: 0 <= c2 < 1}}'
    assert spec_of(FIRST, once).info.einsums["A"].shared_out["T"] == ("C", 5)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([FIRST, SECOND.replace("+ 4", "+ 3")], "indices 3 to 3 of rank C are written twice, between Einsums A and B"),
        ([FIRST, SECOND.replace("+ 4", "+ 5")], "indices 4 to 4 of rank C are written by nobody, between Einsums A and B"),
        ([FIRST.replace("c1]", "c1 + 1]", 1), SECOND.replace("+ 4", "+ 5")], "indices 0 to 0 of rank C are written by nobody"),
        ([FIRST, FIRST.replace("A", "B")], "is written by both A and B, whose ranges are the same"),
        ([FIRST, SECOND.replace("T[m,", "T[M: d,")], "whose ranges differ in ranks M, C"),
        ([FIRST.replace("C: c1", "C: 2*c1"), SECOND], "A writes C: 2*c1; it must write a range without gaps"),
        ([FIRST, READER, SECOND], "Y reads T before Einsum B writes it; list B first"),
        ([FIRST, '{name: B, einsum: "T[m, C: c2 + 4] = T2[m, c2]", is_copy_operation: True}'], "B is a copy"),
        ([FIRST, '{name: B, einsum: "T[m, C: c2 + 4] = Y[m, c2]"}', '"Y[m, c2] = T[m, C: c2]"'], "in a cycle"),
    ],
)  # fmt: skip
def test_what_makes_no_sense(lines: list[str], message: str) -> None:
    with pytest.raises(fusiest.SpecError) as error:
        spec_of(*lines).info  # noqa: B018
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_size_of_the_rank_is_the_sum_of_the_parts() -> None:
    with pytest.raises(fusiest.SpecError, match="its producers write 6 of the 8 indices of rank C"):
        spec_of(FIRST, SECOND, sizes=", C: 8").info  # noqa: B018


def test_a_part_of_a_workload_knows_names_of_the_rest() -> None:
    """What an architecture says of a tensor or variable that only A has is said of nothing in B."""
    lines = ('{name: A, einsum: "T[m, C: c1] = X[m, d]"}', '{name: B, einsum: "Y[M: n, C: c1] = T[M: n, C: c1]"}')
    part = part_of(part_of(spec_of(*lines, '"Z[M: n, C: c1] = Y[M: n, C: c1]"'), ["B", "Z"]), ["B"])
    names = part.info.einsums["B"].names
    empty = {name: names[name].members for name in ("X", "Z", "m", "d", "D")}  # type: ignore[attr-defined]
    assert empty == dict.fromkeys(("X", "Z", "m", "d", "D"), frozenset())
    assert names["m"].kind == "variable"  # type: ignore[attr-defined]
