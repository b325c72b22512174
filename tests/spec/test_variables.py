"""Variables: lists, words, any order, and values for one Einsum."""

from __future__ import annotations

import pytest

from fusiest.base.errors import SpecError
from fusiest.spec.dumping import dump
from fusiest.spec.hardware.binding import bind
from fusiest.spec.language.variables import Variables, split, value_of
from fusiest.spec.reading.loading import load_texts
from fusiest.spec.spec import Spec

TEXT = """
variables: {{{top}}}
arch:
  variables: {{{own}}}
  nodes:
  - !Memory {{name: DRAM, size: inf, component_class: Dummy, tensors: {{keep: All}}}}
  - !Memory {{name: Buffer, size: '{size}', component_class: Dummy, tensors: {{keep: All}}}}
  - !Compute {{name: MAC, component_class: Dummy}}
workload:
  rank_sizes: {{M: 4, K: 4, N: 4, P: 4}}
  bits_per_value: {{A: 8, V: 4, B: 16, W: 2, C: 32}}
  einsums: ["B[m, n] = A[m, k] * V[k, n]", "C[m, p] = B[m, n] * W[n, p]"]
renames:
  einsums: [{{name: default, tensor_accesses: [{{name: weight, source: V | W}}]}}]
"""


def spec(top: str = "", own: str = "", size: str = "64") -> Spec:
    return load_texts({"spec.yaml": TEXT.format(top=top, own=own, size=size)}, {})


def sizes(found: Spec) -> list[float]:
    paths = [bind(found, einsum, "MAC") for einsum in ("B", "C")]
    return [path.components[1].size for path in paths]


def test_any_order() -> None:
    assert sizes(spec(own="half: whole / 2, whole: 3 * part, part: 8", size="half")) == [12, 12]
    assert sizes(spec(top="half: whole / 2", own="whole: 48", size="half")) == [24, 24]


def test_lists() -> None:
    assert sizes(spec(own="sizes: [16, 2 * 16, part], part: 64", size="sum(sizes) + sizes[-1]")) == [176, 176]
    assert sizes(spec(own="h: '([1] * 15)'", size="8 * len(h)")) == [120, 120]


def test_words_stand_for_themselves() -> None:
    assert sizes(spec(own="kind: aggressive", size='8 if kind == "aggressive" else 16')) == [8, 8]
    assert value_of("cells/rram-2.yaml", {}) == "cells/rram-2.yaml"
    assert value_of("part", {"part": 7}) == 7


def test_a_value_for_each_einsum() -> None:
    """Also through other variables, and in any order."""
    own = "twice: 2 * weight_bits, weight_bits: weight.bits_per_value"
    assert sizes(spec(own=own, size="16 * twice")) == [128, 64]


def test_only_what_is_used_is_evaluated() -> None:
    """V is the empty set in the second Einsum, which has no bits per value."""
    assert sizes(spec(own="bits: V.bits_per_value", size="bits if V else 5")) == [4, 5]
    with pytest.raises(SpecError, match="bits_per_value wants one tensor"):
        spec(own="bits: V.bits_per_value", size="bits")


@pytest.mark.parametrize(
    ("own", "size", "message"),
    [
        ("a: b, b: c, c: a", "a", "variable a uses b uses c uses a"),
        ("a: a + 1", "a", "variable a uses a"),
        ("a: weight.bits_per_value + b, b: 2 * a", "a", "variable a uses b uses a"),
        ("a: nonsense", "2 * a", "'\\*' cannot be applied to a number and text"),
        ("a: nonsense", "a", "unknown name 'nonsense'"),
        ("a: [1, 2]", "a", "a list"),
        ("a: Buffer", "len(a)", "what Buffer holds is a choice"),
        ("a: [[1, 2], 3]", "4", "must be a number or an expression, but is a list"),
    ],
)
def test_mistakes(own: str, size: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        spec(own=own, size=size)


def test_long_chains_end() -> None:
    chain = {f"v{i}": f"v{i + 1}" for i in range(5_000)}
    with pytest.raises(SpecError, match="deep"):
        split({**chain, "v5000": 1})


def test_dump_keeps_them() -> None:
    found = spec(top="h: [1, 2 * 3]", own="kind: some/word, bits: weight.bits_per_value", size="8 * h[1]")
    assert load_texts({"spec.yaml": dump(found)}, {}) == found


def test_variables_are_a_mapping() -> None:
    found = Variables({"a": 1, "b": "a + c"}, {"c": 4})
    assert dict(found) == {"a": 1, "b": 5}
    assert len(found) == 2


def test_many_variables_that_follow_from_each_other() -> None:
    """Each uses the next; only the last names something else. Rounds over all of them would take minutes."""
    count = 50_000
    texts = {f"v{i}": f"v{i + 1}" for i in range(count)}
    assert len(split({**texts, f"v{count}": "weight.bits_per_value"}).texts) == count + 1
    assert split({**dict(list(texts.items())[:50]), "v50": 8}).values["v0"] == 8
