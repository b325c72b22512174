"""What a newcomer gets wrong: renames that are missing, tensors that are misspelt, sizes that are meant in bytes."""

from __future__ import annotations

import pytest

import fusiest
from fusiest.spec import bind_everything, size_notes
from tests.load_text import load_text

NEAR = """
arch:
  nodes:
  - !Memory {{name: Far, component_class: Dummy, size: inf, tensors: {{keep: All}}}}
  - !Memory {{name: Near, component_class: Dummy, size: {size}, tensors: {{keep: {kept}}}}}
  - !Compute {{name: MAC, component_class: Dummy}}
"""
CHAIN = """
workload:
  bits_per_value: 8
  rank_sizes: {M: 4, N0: 4, N1: 4, N2: 4}
  einsums:
  - T1[m, n1] = T0[m, n0] * W0[n0, n1]
  - T2[m, n2] = T1[m, n1] * W1[n1, n2]
"""
RENAMES = """
renames:
  einsums:
  - name: default
    tensor_accesses:
    - {name: input, source: Inputs & (T0 | Intermediates), expected_count: 1}
    - {name: weight, source: Inputs - input, expected_count: 1}
"""


@pytest.mark.parametrize(
    ("name", "source"),
    [("output", "Outputs"), ("input", "Inputs & …"), ("weight", "Inputs - input")],
)
def test_a_role_without_renames_is_met_with_the_rename_to_write(name: str, source: str) -> None:
    wanted = rf"unknown name '{name}'; say which tensors it is: renames: .*{{name: {name}, source: {source}}}"
    with pytest.raises(fusiest.SpecError, match=wanted):
        bind_everything(load_text(NEAR.format(size=64, kept=name) + CHAIN))


def test_a_weight_is_what_no_input_is() -> None:
    """The renames to write are whole: they name no role that is not there either."""
    with pytest.raises(fusiest.SpecError, match=r"\[{name: input, source: Inputs & …}, {name: weight, source: Inp"):
        bind_everything(load_text(NEAR.format(size=64, kept="weight") + CHAIN))
    given = RENAMES.rsplit("    - {name: weight", 1)[0]
    with pytest.raises(fusiest.SpecError, match=r"tensor_accesses: \[{name: weight, source: Inputs - input}\]"):
        bind_everything(load_text(NEAR.format(size=64, kept="weight") + CHAIN + given))


def test_another_unknown_name_is_corrected_as_before() -> None:
    with pytest.raises(fusiest.SpecError, match="unknown name 'Outptus'; did you mean 'Outputs'"):
        bind_everything(load_text(NEAR.format(size=64, kept="Outptus") + CHAIN))


def test_a_rename_that_stands_for_nothing_names_the_misspelt_tensor() -> None:
    assert load_text(CHAIN + RENAMES).info.einsums["T2"].names["input"] is not None
    with pytest.raises(fusiest.SpecError, match=r"0 tensors in Einsum T2.*no other Einsum has TT1; did you mean 'T1'"):
        _ = load_text(CHAIN.replace("= T1", "= TT1") + RENAMES).info
    with pytest.raises(fusiest.SpecError, match=r"0 tensors in Einsum T2.*set it there with renames: {input: …}"):
        _ = load_text(CHAIN.replace("= T1", "= Other_1") + RENAMES).info


@pytest.mark.parametrize(("size", "said"), [("64", True), ("64 B", False), ("8", False), ("8192", False)])
def test_a_small_size_without_a_unit_is_remarked(size: str, said: bool) -> None:
    arch = NEAR.format(size=size, kept="Nothing")
    notes = ["sizes without a unit are bits: Near 64; for bytes write 64 B or 64 KiB"] if said else []
    assert size_notes(load_text(arch + CHAIN)) == notes
    assert size_notes(load_text(arch)) == notes
