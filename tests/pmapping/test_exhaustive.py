"""The search for pmappings against the exhaustive mapper, on random small specs.

FUSIEST_PROVE=1 tries thousands of cases instead of some hundred, and new ones each time.
"""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import event, given

from fusiest.base.errors import SpecError
from fusiest.looptree.nodes import LoopTree
from fusiest.model.evaluate import evaluate_einsum
from fusiest.model.nest import TreeNode, build_nest
from fusiest.pmapping.nest.rules import Rules
from fusiest.pmapping.table import Table
from fusiest.spec.hardware.binding import bind, bind_all
from tests.load_text import load_text
from tests.mapper_strategies import MapperCase, mapper_cases
from tests.pmapping.fronts import branch_nodes, differences, equal_table, exhaustive_fronts, pmappings, search_fronts
from tests.proving import PROVE, TALLY, Decorator, cases, floors
from tests.reference.exhaustive import TooManyTrees, exhaustive
from tests.reference.skeletons import ReferenceLimits
from tests.reference.tilings import Pmapping
from tests.values import check_tree

TREES = 20_000 if PROVE else 3_000


def run(examples: int, proving: int = 500) -> Decorator:
    return cases(examples, proving)


def search(case: MapperCase, rules: Rules | None = None) -> Table | None:
    """None for what the search says that it cannot do yet."""
    try:
        return pmappings(case.spec, case.einsum, rules=rules)
    except SpecError as error:
        if "not supported" not in error.message:
            raise
        event(f"not supported: {error.message[-50:]}")
        return None


def check_fronts(case: MapperCase, rules: Rules | None = None) -> None:
    table = search(case, rules)
    if table is None:
        return
    try:
        expected = exhaustive(case.spec, case.einsum, table.memories, ReferenceLimits(trees=TREES))
    except TooManyTrees:
        event("too many trees")
        return
    event("compared" if expected else "nothing fits")
    TALLY["compared"] += 1
    TALLY["fits"] += bool(expected)
    assert differences(search_fronts(case.spec, table), exhaustive_fronts(expected)) == []


@floors(60, fits=0.5)
@run(60, proving=2500)
@given(case=mapper_cases(within=ReferenceLimits(trees=TREES)))
def test_search_finds_the_fronts(case: MapperCase) -> None:
    check_fronts(case)


@pytest.mark.parametrize("rules", [Rules(sink=False), Rules(hoist=False), Rules(sink=False, hoist=False)])
@run(25)
@given(case=mapper_cases())
def test_no_rule_loses_anything(case: MapperCase, rules: Rules) -> None:
    check_fronts(case, rules)


@run(50)
@given(case=mapper_cases())
def test_exhaustive_agrees_with_the_model(case: MapperCase) -> None:
    """Costs put together from single tensors' are those of the whole nest."""
    try:
        fronts = exhaustive(case.spec, case.einsum, limits=ReferenceLimits(trees=TREES))
    except TooManyTrees:
        return
    for compatibility, front in fronts.items():
        for pmapping in front:
            check_nodes(case, len(compatibility.loops), pmapping)


def check_nodes(case: MapperCase, fused_loops: int, pmapping: Pmapping) -> None:
    leaf = pmapping.nodes[-1]
    path = bind(case.spec, case.einsum, leaf.component)
    nest = build_nest(tuple(TreeNode(i, node) for i, node in enumerate(pmapping.nodes)), path)
    bound = bind_all(case.spec, nest.einsum)
    found = evaluate_einsum(case.spec, nest, bound)
    assert math.isclose(found.energy, pmapping.energy, rel_tol=1e-12)
    assert math.isclose(found.latency, pmapping.latency, rel_tol=1e-12)
    memories = [name for name, c in bound.items() if c.kind == "memory" and math.isfinite(c.size)]
    bits = {memory: [0.0] * (fused_loops + 2) for memory in memories}
    total = dict.fromkeys(memories, 0.0)
    for (memory, tensor), own in found.occupancy_bits.items():
        if memory in bits:
            total[memory] += own
            if not (tensor in case.spec.info.shared and nest.tensors[tensor].holders[0].component.name == memory):
                bits[memory][1 + min(found.reservation_levels[memory, tensor], fused_loops)] += own
    assert pmapping.bits == tuple(tuple(own) for own in bits.values())
    assert all(total[memory] <= bound[memory].size for memory in memories)


@run(50)
@given(case=mapper_cases())
def test_rows_are_nests(case: MapperCase) -> None:
    """Every row turns into a nest that the model finds valid, with the costs that the row says, and with the right values."""
    table = search(case)
    some = list(table.groups.items())[: None if PROVE else 40] if table is not None else []
    for form, rows in some:
        for i in range(min(len(rows), 3)):
            nodes = branch_nodes(table, form, rows, i)
            path = bind(case.spec, case.einsum, nodes[-1].component)
            nest = build_nest(tuple(TreeNode(n, node) for n, node in enumerate(nodes)), path)
            found = evaluate_einsum(case.spec, nest, bind_all(case.spec, nest.einsum))
            assert math.isclose(found.energy, rows.energy[i], rel_tol=1e-9)
            assert math.isclose(found.latency, rows.latency[i], rel_tol=1e-9)
            check_tree(case.spec, LoopTree(nodes=tuple(nodes)))
            total = Counter[str]()
            for (memory, _), bits in found.occupancy_bits.items():
                total[memory] += bits
            assert all(bits <= path.components[path.index(memory)].size for memory, bits in total.items())


TWO_ORDERS = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: Nothing, may_keep: All},
             actions: [{name: read, energy: 2, throughput: 2}, {name: write, energy: 5, throughput: inf}]}
  - !Memory {name: GLB, size: 92, component_class: Dummy,
             tensors: {keep: ~DRAM, may_keep: Shared, tensor_order_options: [[B, A], [Z, A]]},
             actions: [{name: read, energy: 5, throughput: inf}, {name: write, energy: 20, throughput: inf}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 5, throughput: 1}]}
workload:
  rank_sizes: {B: 2, K: 2, M: 2, N: 2}
  bits_per_value: {All: 8}
  einsums:
  - {name: P0, tensor_accesses: [{name: XB, projection: [b, k, n]}, {name: B, projection: [b, k, n], output: true}]}
  - name: E1
    tensor_accesses:
    - {name: A, projection: [b, m, k]}
    - {name: B, projection: [b, k, n]}
    - {name: Z, projection: [b, m, n], output: true}
"""


def test_one_and_the_same_order_option_is_met() -> None:
    """A above B above Z meets neither: B must not stand below A, or else Z must not."""
    equal_table(load_text(TWO_ORDERS), "E1")


FIXED_TILE = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: All},
             actions: [{name: read, energy: 10}, {name: write, energy: 10}]}
  - !Memory {name: GLB, size: 1, component_class: Dummy,
             tensors: {keep: A, tile_shape: [{expression: m, operator: ==, value: 4}]},
             actions: [{name: read, energy: 1}, {name: write, energy: 1}]}
  - !Memory {name: Reg, size: inf, component_class: Dummy, tensors: {keep: B},
             actions: [{name: read, energy: 1}, {name: write, energy: 0}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1}]}
workload:
  rank_sizes: {M: 4, N: 2}
  bits_per_value: {All: 1}
  einsums:
  - "Z[m, n] = A[m] * B[n]"
"""


@pytest.mark.parametrize("general", [False, True])
def test_a_loop_that_only_lowers_a_reservation_stays(general: bool) -> None:
    """[A in GLB] for m [B in Reg] for n: A must stand above m, and fits because m is right below it. A moves 4 values (DRAM 10,
    GLB 1) and is read 8 times (4 · 2, or the compute's 8), B moves 4 · 2 (10), Z 8 (10), MACs are 8, Reg is read 8 times:
    40 + 4 + 8 + 80 + 80 + 8 + 8."""
    table = equal_table(load_text(FIXED_TILE), "Z", general=general)
    assert [rows.energy.tolist() for rows in table.groups.values()] == [[228]]


WINDOW = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: All},
             actions: [{name: read, energy: 1}, {name: write, energy: 1}]}
  - !Memory {name: GLB, size: 1, component_class: Dummy, tensors: {keep: A}, actions: [{name: read, energy: 0}, {name: write, energy: 0}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 0}]}
workload:
  rank_sizes: {P: 4, R: 2}
  bits_per_value: {All: 1}
  einsums:
  - "Z[p] = A[H: p + r] * F[r]"
"""


@pytest.mark.parametrize("general", [False, True])
def test_a_loop_over_a_part_of_a_window_stands_above_it(general: bool) -> None:
    """GLB holds 1 of A's 5 values. Below the holder, one loop lowers what it reserves: to 2 values if it is over p, to 4 if it is
    over r. So the other one, which indexes A only in part, must stand above it."""
    equal_table(load_text(WINDOW), "Z", general=general)


CHAIN = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: ~Intermediates},
             actions: [{name: read, energy: 10}, {name: write, energy: 10}]}
  - !Memory {name: GLB, size: 9, component_class: Dummy, tensors: {keep: Intermediates},
             actions: [{name: read, energy: 1}, {name: write, energy: 1}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1}]}
workload:
  rank_sizes: {M: 4}
  bits_per_value: {All: 1}
  einsums:
  - "A[m] = X[m]"
  - "Z[m] = A[m]"
  - "Y[m] = Z[m]"
"""


@pytest.mark.parametrize("general", [False, True])
def test_what_einsums_exchange_does_not_sink(general: bool) -> None:
    """[A in GLB] for m [Z in GLB]: all of A is made before Z is begun, which goes on value by value. With A below m, A does, too."""
    table = equal_table(load_text(CHAIN), "Z", general=general)
    zones = [tuple(backing.zones for backing in c.backings) for c in table.groups]
    assert sorted(zones) == [(0, 0), (0, 1), (1, 0), (1, 1)]
