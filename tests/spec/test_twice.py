"""One tensor read twice by an Einsum: once if the reads are equal, through a copy if they differ."""

from __future__ import annotations

import warnings

import pytest

import fusiest
from fusiest.base.errors import SpecError, SpecWarning
from fusiest.spec.dumping import dump
from tests.load_text import load_text


def workload(einsum: str, more: str = "") -> str:
    return f'workload:\n  bits_per_value: 8\n  rank_sizes: {{M: 4, K: 3, H: 6}}\n  {more}\n  einsums:\n  - "{einsum}"\n'


@pytest.mark.parametrize("einsum", ["B[m] = A[m, k] + A[m, k]", "B[m] = A[m, k] * A[k, m] * A[m, k]"])
def test_equal_reads_are_one(einsum: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spec = load_text(workload(einsum))
    assert sorted(spec.info.einsums["B"].accesses) == ["A", "B"]
    assert list(spec.info.einsums) == ["B"]


@pytest.mark.parametrize(
    ("einsum", "copied", "bounds"),
    [
        ("B[m, n] = A[m, k] * A[M: n, k]", "A[M: n, k]", {"n": 4, "k": 3}),
        ("B[m] = A[H: m] - A[H: m + 2]", "A[H: h]", {"h": 6}),
        ("B[m] = A[m, H: m] - A[m, H: 5 - m]", None, {}),
    ],
)
def test_different_reads_go_through_a_copy(einsum: str, copied: str | None, bounds: dict[str, int]) -> None:
    if copied is None:  # the same variable in two ranks
        with pytest.raises(SpecError, match="in two ranks"), pytest.warns(SpecWarning):
            load_text(workload(einsum))
        return
    with pytest.warns(
        SpecWarning, match="Einsum B reads A in two ways; for one of them, Einsum A_copy copies it"
    ) as caught:
        spec = load_text(workload(einsum))
    assert len(caught) == 1
    assert list(spec.info.einsums) == ["A_copy", "B"]
    copy = spec.info.einsums["A_copy"]
    assert copy.is_copy_operation
    assert copy.bounds == bounds
    assert sorted(spec.info.einsums["B"].accesses) == ["A", "A_copy", "B"]
    assert load_text(dump(spec)) == spec


@pytest.mark.parametrize(
    ("einsum", "more", "bounds"),
    [
        ('einsum: "B[m, N: n] = A[m, k] * A[M: -n, k]"', "iteration_space_shape: {n: -3 <= n <= 0}", {"m2": 4, "k": 3}),
        ('einsum: "B[m] = A[H: m] - A[H: m + 2]", rank_sizes: {M: 4, H: 6}', "", {"h": 6}),
        ('einsum: "B[m] = A[I: m] - A[I: m + 2]", rank_sizes: {M: 4, I: 6}', "", {"i": 6}),
        ('einsum: "B[m, n] = A[I: m] * A[I: n]", iteration_space_shape: [0 <= n < 2, m < 4]', "", {"n": 2}),
        (
            'einsum: "B[m] = A[H: m] - A[H: m + 2]"}\n  - {einsum: "D[h] = C[h]"',
            "iteration_space_shape: {h: 0 <= h < 2}",
            {"h2": 6},
        ),
        ('einsum: "B[m, h] = A[H: h, m] - A[H: m + 2, M: h]"', "iteration_space_shape: {h: h < 4}", {"h2": 6, "h": 4}),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_copy_is_as_large_as_what_is_read_and_made_as_often(einsum: str, more: str, bounds: dict[str, int]) -> None:
    text = workload("EINSUM", more).replace('"EINSUM"', f"{{n_instances: 5, {einsum}}}")
    spec = load_text(text)
    assert spec.info.einsums["A_copy"].bounds == bounds
    assert spec.info.einsums["A_copy"].n_instances == spec.info.einsums["B"].n_instances
    assert load_text(dump(spec)) == spec


def test_a_gram_matrix_can_be_mapped() -> None:
    chip = """
arch:
  nodes:
  - !Memory
    name: DRAM
    component_class: Dummy
    size: inf
    tensors: {keep: ~Intermediates, may_keep: All}
    actions: [{name: read, energy: 10}, {name: write, energy: 10}]
  - !Memory
    name: Buffer
    component_class: Dummy
    size: 1000
    tensors: {keep: All}
    actions: [{name: read, energy: 1}, {name: write, energy: 1}]
  - !Compute {name: MAC, component_class: Dummy}
"""
    with pytest.warns(SpecWarning):
        spec = load_text(chip, workload("B[m, n] = A[m, k] * A[M: n, k]"))
    assert fusiest.map(spec, "energy").best("energy").energy > 0


@pytest.mark.parametrize(
    ("einsum", "message"),
    [
        ("B[m] = A[m] + B[m]", "Einsum B reads and writes tensor B"),
        ("B[m] = A[W: m] - A[W: m + 2]", "give its rank W a size"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_refused(einsum: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_text(workload(einsum))
