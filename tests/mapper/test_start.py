"""A search that begins with mappings of other designs, and with tables of a larger one: nothing changes but the time."""

from __future__ import annotations

import pytest

import fusiest
from fusiest.mapper import Options, Prior, run, search_with
from fusiest.spec import Spec
from fusiest.sweeps.reuse.table_cache import Shelf
from tests.load_text import load_text
from tests.mapper.test_windows import ARCH

TWO_EQUAL = """
workload:
  bits_per_value: {All: 8}
  einsums:
  - {name: First, tensor_accesses: [{name: X, projection: {P: p, R: r}}, {name: I, projection: {P: p}, output: true}],
     iteration_space_shape: [0 <= p < 8, 0 <= r < 2]}
  - {name: A, tensor_accesses: [{name: I, projection: {P: p}}, {name: T, projection: {H: p}, output: true}],
     iteration_space_shape: [0 <= p < 8]}
  - {name: Filter, tensor_accesses: [{name: T, projection: {H: p + s}}, {name: W, projection: {S: s}},
     {name: U, projection: {P: p}, output: true}], iteration_space_shape: [0 <= p < 8, 0 <= s < 3]}
  - {name: B, tensor_accesses: [{name: U, projection: {P: p}}, {name: V, projection: {H: p}, output: true}],
     iteration_space_shape: [0 <= p < 8]}
  - {name: Last, tensor_accesses: [{name: V, projection: {H: 2 * p + s}}, {name: O, projection: {P: p}, output: true}],
     iteration_space_shape: [0 <= p < 4, 0 <= s < 2]}
"""
"""A and B are equal but for names; Filter touches 10 values of what A makes, Last 8 of what B makes."""


def chip(size: float = 24_000, speed: float = 1e12) -> Spec:
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=3, M=48, KN=32).with_component("GlobalBuffer", size=size)
    return spec.with_component("MainMemory", throughput_scale=speed / 1e12)


@pytest.mark.parametrize("objective", ["edp", "latency", "energy,latency"])
def test_known_mappings_change_no_answer(objective: str) -> None:
    options = Options(objective=tuple(objective.split(",")), jobs=1)
    others = [run(spec, options) for spec in (chip(speed=3e11), chip(size=9_000), chip(size=400_000))]
    start = [mapping.looptree for result in others for mapping in result.mappings]
    alone, begun = run(chip(), options), run(chip(), options, prior=Prior(start=start))
    assert begun.optimal
    assert [(m.energy, m.latency) for m in begun.mappings] == [
        pytest.approx((m.energy, m.latency), rel=1e-9) for m in alone.mappings
    ]


def test_an_optimum_that_is_known_is_the_answer() -> None:
    options = Options(objective=("edp",), jobs=1)
    alone = run(chip(), options)
    begun = run(chip(), options, prior=Prior(start=[alone.mappings[0].looptree]))
    assert begun.optimal
    assert begun.mappings[0].looptree == alone.mappings[0].looptree


def test_rows_that_cannot_fit_are_left_out() -> None:
    """All that a fresh search of the smaller design has is there, and little more; the answer is the same."""
    options, shelf = Options(objective=("edp",), jobs=1), Shelf()
    large, small = chip(size=20_000), chip(size=6_000)
    tables = search_with(large, options, prior=Prior(shared=True)).tables
    shelf.keep(large, options, tables)
    found = shelf.tables(small, options)
    alone, fresh, *_ = search_with(small, options, prior=Prior(shared=True))
    assert found.keys() == fresh.keys()
    for name, table in fresh.items():
        assert len(table) <= len(found[name]) < len(tables[name])
    assert run(small, options, prior=Prior(found, shared=True)).best("edp").edp == pytest.approx(
        alone.best("edp").edp, rel=1e-9
    )


def test_equal_einsums_share_tables_whatever_others_touch() -> None:
    """With 9 bytes, what B makes has room and what A makes has not: the rows that they have in common are needed."""
    options, shelf = Options(objective=("edp",), jobs=1), Shelf()
    large, small = (load_text(ARCH.replace("SIZE", str(8 * count)), TWO_EQUAL) for count in (12, 9))
    tables = search_with(large, options, prior=Prior(shared=True)).tables
    assert "B" not in tables, "A's table is B's, too"
    shelf.keep(large, options, tables)
    found = shelf.tables(small, options)
    assert found.keys() == tables.keys()
    alone, fresh, *_ = search_with(small, options, prior=Prior(shared=True))
    for name, table in fresh.items():
        assert len(table) <= len(found[name])
    assert run(small, options, prior=Prior(found, shared=True)).best("edp").edp == pytest.approx(
        alone.best("edp").edp, rel=1e-9
    )
