"""Memories beside each other: in specs, in the model, in both searches."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given

import fusiest
from fusiest.base.errors import SpecError
from fusiest.mapper.mapper import map
from fusiest.report.data.machine import Machine
from fusiest.report.data.mapped import component_rows
from fusiest.show import show_text
from fusiest.spec.dumping import dump
from tests.drawing.targets import ODD_SIZES
from tests.load_text import load_text
from tests.mapper.test_exhaustive_workload import check_front
from tests.mapper_strategies import MapperCase, mapper_cases
from tests.pmapping import test_exhaustive, test_general
from tests.pmapping.fronts import differences, pmappings, search_fronts
from tests.proving import cases, floors
from tests.reference.skeletons import ReferenceLimits
from tests.workload_strategies import WorkloadCase, workload_cases

FILES = {
    "IRF": "{name: IRF, size: 8 * 2, tensors: {keep: A}, component_class: Dummy, actions: [{name: read, energy: 2}]}",
    "WRF": "{name: WRF, size: 8 * 8, tensors: {keep: B}, component_class: Dummy, actions: [{name: read, energy: 1}]}",
    "ORF": "{name: ORF, size: 8 * 4, tensors: {keep: Z}, component_class: Dummy, actions: [{name: write, energy: 3}]}",
}
PE = """
arch:
  nodes:
  - !Memory
    name: DRAM
    size: inf
    component_class: Dummy
    tensors: {keep: All}
    actions: [{name: read, energy: 50, throughput: 4}, {name: write, energy: 60, throughput: 4}]
  - !Container {name: PE, spatial: [{name: X, fanout: 2}]}
  %s
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1, throughput: 1}]}
"""
PRODUCT = """
workload:
  rank_sizes: {M: 8, N: 4, K: 4}
  bits_per_value: {All: 8}
  einsums:
  - name: E1
    tensor_accesses:
    - {name: A, projection: [m, k]}
    - {name: B, projection: [k, n]}
    - {name: Z, projection: [m, n], output: true}
"""


def parallel(*nodes: str) -> str:
    return "- !Parallel {nodes: [" + ", ".join(nodes) + "]}"


def beside() -> fusiest.Spec:
    return load_text(PE % parallel(*(f"!Memory {text}" for text in FILES.values())), PRODUCT)


def chain(names: tuple[str, ...]) -> fusiest.Spec:
    return load_text(PE % "\n  ".join(f"- !Memory {FILES[name]}" for name in names), PRODUCT)


def best(spec: fusiest.Spec) -> float:
    return map(spec, "energy", windows="none", jobs=1).mappings[0].energy


# --- the search -----------------------------------------------------------------------------------------------------------


def test_parallel_is_the_best_of_all_chains() -> None:
    """Each chain is a part of the mapspace; an order that no chain has, it cannot have: each file holds one tensor."""
    chains = [best(chain(names)) for names in itertools.permutations(FILES)]
    assert len({round(energy, 6) for energy in chains}) > 1
    assert best(beside()) == pytest.approx(min(chains), rel=1e-12)


def test_both_searches_agree() -> None:
    spec = beside()
    general = pmappings(spec, "E1", general=True)
    assert differences(search_fronts(spec, pmappings(spec, "E1")), search_fronts(spec, general)) == []


def test_memories_in_any_order_are_searched_fast_and_find_the_same() -> None:
    """Files that hold one tensor each: beside each other, or a chain whose order is lifted."""
    loose = {name: text.replace("keep:", "force_memory_hierarchy_order: false, keep:") for name, text in FILES.items()}
    spec = load_text(PE % "\n  ".join(f"- !Memory {text}" for text in loose.values()), PRODUCT)
    assert differences(search_fronts(spec, pmappings(spec, "E1")), search_fronts(spec, pmappings(beside(), "E1"))) == []


@floors(15, fits=0.5)
@cases(15, proving=1000)
@given(case=mapper_cases(beside=True, within=ReferenceLimits(trees=test_exhaustive.TREES)))
def test_search_finds_the_fronts(case: MapperCase) -> None:
    test_exhaustive.check_fronts(case)


@cases(8, proving=500)
@given(case=mapper_cases(sizes=ODD_SIZES, beside=True))
def test_imperfect_tiles(case: MapperCase) -> None:
    test_general.check_fronts(case, imperfect=True)


@cases(8, proving=500)
@given(case=workload_cases(beside=True))
def test_einsums_that_meet_in_memories_beside_each_other(case: WorkloadCase) -> None:
    check_front(case)


# --- the spec -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        (parallel(f"!Memory {FILES['IRF']}"), "needs two memories or more"),
        (parallel(f"!Memory {FILES['IRF']}", "!Container {name: C}"), "only !Memory nodes"),
        (
            parallel(f"!Memory {FILES['IRF']}", f"!Memory {FILES['WRF'][:-1]}, spatial: [{{name: Y, fanout: 2}}]}}"),
            "WRF stands in a !Parallel, so it has no fanout of its own",
        ),
    ],
)
def test_what_a_parallel_takes(inner: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_text(PE % inner, PRODUCT)


def test_the_outermost_memory_stands_alone() -> None:
    nodes = parallel(*(f"!Memory {text}" for text in FILES.values()))
    with pytest.raises(SpecError, match="IRF, must not stand in a !Parallel"):
        load_text(f"arch:\n  nodes:\n  {nodes}\n  - !Compute {{name: MAC, component_class: Dummy}}", PRODUCT)


def test_a_spec_is_written_and_read() -> None:
    spec = beside()
    assert load_text(dump(spec)).arch == spec.arch


def test_it_is_drawn() -> None:
    spec = beside()
    lines = [line for line in show_text(spec).splitlines() if any(word in line for word in ("Parallel", "RF", "MAC"))]
    depths = [len(line) - len(line.lstrip()) for line in lines]
    assert [line.split()[0] for line in lines][:4] == ["Parallel", "Memory", "Memory", "Memory"]
    assert depths[1] == depths[2] == depths[3] == depths[0] + 2
    rows = {row["name"]: row["depth"] for row in component_rows(Machine(spec))}
    assert rows["IRF"] == rows["WRF"] == rows["ORF"] == rows["MAC"] - 1


# --- the model ------------------------------------------------------------------------------------------------------------

MAPPING = """
mapping:
  nodes:
  - !Storage {tensors: [A, B, Z], component: DRAM}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Storage {tensors: [Z], component: ORF}
  %s
  - !Storage {tensors: [A], component: IRF}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Compute {einsum: E1, component: MAC}
"""


def test_holders_stand_in_any_order() -> None:
    """ORF above WRF above IRF. For each of 8 x 4 results, 4 values of A and of B come, and one of Z is written 4 times."""
    tree = load_text(MAPPING % "- !Storage {tensors: [B], component: WRF}").mapping
    counts = fusiest.evaluate(beside(), tree).einsums["E1"].actions
    assert counts["DRAM", "A", "read"] == counts["IRF", "A", "write"] == 8 * (8 * 4 * 4)
    assert counts["DRAM", "B", "read"] == counts["WRF", "B", "read"] == 8 * (8 * 4 * 4)
    assert counts["ORF", "Z", "write"] == 8 * (8 * 4 * 4)
    assert counts["DRAM", "Z", "write"] == counts["ORF", "Z", "read"] - 8 * (8 * 4 * 3) == 8 * (8 * 4)


def test_a_tensor_is_held_once() -> None:
    tree = load_text(MAPPING % "- !Storage {tensors: [A], component: WRF}").mapping
    with pytest.raises(SpecError, match="A is held in WRF and in IRF, which stand beside each other"):
        fusiest.evaluate(beside(), tree)
