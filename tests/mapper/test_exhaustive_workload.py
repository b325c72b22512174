"""The mapper against the exhaustive mapper for whole workloads, on random small specs.

FUSIEST_PROVE=1 tries hundreds of cases instead of some dozen, and new ones each time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, currently_in_test_context, event, given

from fusiest import load
from fusiest.base.errors import FusiestError
from fusiest.base.frozen import FrozenDict
from fusiest.looptree.nodes import Compute, LoopTree, Node, Sequential, Storage, Temporal
from fusiest.mapper import tables
from fusiest.mapper.mapper import NoMapping, map
from fusiest.pmapping import is_allowed
from tests.drawing.bits import kinds_of_bits
from tests.proving import PROVE, TALLY, Decorator, cases, floors
from tests.reference.exhaustive import TooManyTrees
from tests.reference.exhaustive_workload import TooManyCombinations, WorkloadLimits, exhaustive_front
from tests.reference.joined_tree import NoTree, joined_tree
from tests.values import check_values
from tests.workload_strategies import WorkloadCase, bits_cases, shared_input_cases, workload_cases

LIMITS = (
    WorkloadLimits(trees=40_000, combinations=10_000_000, trials=100_000)
    if PROVE
    else WorkloadLimits(trees=4_000, combinations=200_000, trials=2_000)
)
FOUND = Path(__file__).parent / "found_cases"
CostPoint = tuple[float, float]


def run(examples: int) -> Decorator:
    return cases(examples, proving=500)


def count(what: str) -> None:
    if currently_in_test_context():
        event(what)


def found(
    case: WorkloadCase, objective: tuple[str, ...] = ("energy", "latency"), **options: object
) -> list[CostPoint] | None:
    """The mapper's mappings, none if it says that there is no mapping; None for what it cannot do yet."""
    try:
        result = map(case.spec, objective, orders=case.orders, jobs=1, windows="none", **options)
    except NoMapping:
        return []
    except FusiestError as error:
        if "not supported" not in str(error):
            raise
        count("not supported")
        return None
    assert result.optimal
    check_values(case.spec, result.mappings)
    assert all(is_allowed(case.spec, mapping.looptree, imperfect=False) for mapping in result.mappings)
    return [(m.energy, m.latency) for m in result.mappings]


def expected(case: WorkloadCase, exchange: str = "finished", limits: WorkloadLimits = LIMITS) -> list[CostPoint] | None:
    """The exhaustive front; None if there is too much to try."""
    try:
        front = exhaustive_front(case.spec, case.orders, limits, exchange)
    except (TooManyTrees, TooManyCombinations) as error:
        count(type(error).__name__)
        return None
    assert all(is_allowed(case.spec, mapping.tree, imperfect=False) for mapping in front)
    kind = _description([m.tree for m in front])
    count(kind)
    TALLY["fused"] += kind == "fused"
    return [(m.energy, m.latency) for m in front]


def _description(trees: Sequence[LoopTree]) -> str:
    return "nothing fits" if not trees else "fused" if any(_is_fused(t.nodes, False) for t in trees) else "not fused"


def _is_fused(nodes: Sequence[Node], below_loop: bool) -> bool:
    for node in nodes:
        if isinstance(node, Sequential):
            return below_loop or any(_is_fused(branch.nodes, below_loop) for branch in node.nodes)
        below_loop |= isinstance(node, Temporal)
    return False


def covers(front: Sequence[CostPoint], point: CostPoint) -> bool:
    """Whether some point of the front is at least as good, up to rounding."""
    return any(all(x <= y + 1e-9 * abs(y) for x, y in zip(p, point, strict=True)) for p in front)


def same_front(a: Sequence[CostPoint], b: Sequence[CostPoint]) -> bool:
    return all(covers(b, p) for p in a) and all(covers(a, p) for p in b)


@floors(40, fused=0.25)
@run(40)
@given(case=workload_cases())
def test_mapper_finds_the_front(case: WorkloadCase) -> None:
    check_front(case)


@floors(40, fused=0.25)
@run(40)
@given(case=shared_input_cases())
def test_holder_whose_space_sinks_for_each_einsum_through_other_loops(case: WorkloadCase) -> None:
    check_front(case)


@floors(15, fused=0.2)
@run(15)
@given(case=workload_cases(uneven=True))
def test_memory_whose_size_depends_on_the_einsum(case: WorkloadCase) -> None:
    check_front(case)


@floors(60, fused=0.15)
@run(60)
@given(case=workload_cases(parts=60))
def test_tensors_that_several_einsums_make(case: WorkloadCase) -> None:
    several = any(len(names) > 1 for names in case.spec.info.producers.values())
    count("several producers" if several else "one producer each")
    check_front(case)


@floors(25, fused=0.2, role=0.3, rename=0.15, name=0.15)
@cases(25, proving=1000)
@given(case=bits_cases())
def test_bits_per_value_of_every_kind(case: WorkloadCase) -> None:
    """Of results and inputs, by names and by what Einsums call them, at several memories and at Tolls."""
    for kind in kinds_of_bits(case.spec):
        TALLY[kind] += 1
    check_front(case)


@pytest.mark.parametrize("name", sorted(path.name for path in FOUND.glob("*.yaml")))
def test_mapper_finds_the_front_where_it_once_did_not(name: str) -> None:
    check_front(WorkloadCase(load(FOUND / name)))


def test_copy_in_loops_of_its_neighbours() -> None:
    """In the given order it stands between two that exchange a tensor, and shares their loop."""
    case = WorkloadCase(load(FOUND / "copy_in_loops_of_others.yaml"), "given")
    assert len(expected(case) or ()) == 1
    check_front(case)


def check_front(case: WorkloadCase, exchange: str = "finished", limits: WorkloadLimits = LIMITS) -> None:
    """Cases that are too large to try everything are drawn again, smaller or not."""
    TALLY["drawn"] += 1
    front = expected(case, exchange, limits)
    switches = {"imperfect": limits.imperfect, "max_fused_loops_per_variable": limits.fused_loops_per_variable}
    own = found(case, exchange=exchange, **switches) if front is not None else None
    if currently_in_test_context():
        assume(own is not None)
    assert front is not None
    assert own is not None
    TALLY["compared"] += 1
    missed = [p for p in front if not covers(own, p)]
    too_good = [p for p in own if not covers(front, p)]
    assert (missed, too_good) == ([], [])


@pytest.mark.parametrize("easy", [tables.EASY_ROWS, -1], ids=["whole tables", "least first"])
@run(15)
@given(case=workload_cases())
def test_mapper_finds_the_best_by_one_objective(case: WorkloadCase, easy: float) -> None:
    """The least energy, latency and energy-delay product are all on the front."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "EASY_ROWS", easy)
        check_objectives(case)


def check_objectives(case: WorkloadCase) -> None:
    """The best mapping by each objective is the best of the front, by the other cost, too."""
    scores = {"energy": lambda p: p[0], "latency": lambda p: p[1], "edp": lambda p: p[0] * p[1]}
    own = {name: found(case, (name,)) for name in scores}
    front = expected(case) if None not in own.values() else None
    if front is None:
        return
    for name, score in scores.items():
        points = own[name]
        assert points is not None
        assert len(points) == (1 if front else 0)
        if front:
            assert math.isclose(score(points[0]), min(score(p) for p in front), rel_tol=1e-9)
            assert any(np.allclose(points[0], point, rtol=1e-9, atol=0) for point in front), (
                "the other cost is the least"
            )


@pytest.mark.parametrize("switch", ["coarse", "bounds", "grouping", "consolidation"])
@run(15)
@given(case=workload_cases())
def test_switches_change_nothing(case: WorkloadCase, switch: str) -> None:
    with_switch, without = found(case), found(case, **{switch: False})
    assert (with_switch is None) == (without is None)
    if with_switch is not None and without is not None:
        assert same_front(with_switch, without)


# --------------------------------------------------------------------------------------- joining branches to one tree


def nest(einsum: str, *nodes: Node) -> tuple[Node, ...]:
    return (*nodes, Compute(einsum=einsum, component="MAC"))


def held(tensor: str, memory: str) -> Storage:
    return Storage(tensors=(tensor,), component=memory)


def loop(variable: str) -> Temporal:
    return Temporal(rank_variable=variable, tile_shape=1)


TENSORS = {"E0": frozenset("AT"), "E1": frozenset("ATZ")}


def test_common_loops_stand_above_the_split() -> None:
    first = nest("E0", held("A", "DRAM"), loop("m"), held("T", "GLB"))
    second = nest("E1", held("A", "DRAM"), held("Z", "DRAM"), loop("p"), held("T", "GLB"))
    tree = joined_tree([first, second], [1], TENSORS)
    assert tree.nodes[:4] == (
        held("A", "DRAM"),
        held("Z", "DRAM"),
        Temporal(rank_variable=FrozenDict({"E0": "m", "E1": "p"}), tile_shape=1),
        held("T", "GLB"),
    )
    assert isinstance(tree.nodes[4], Sequential)


def test_a_holder_above_a_common_loop_serves_all_einsums_inside() -> None:
    """One holds A in GLB for all iterations of the common loop, the other does not: there is no such tree."""
    first = nest("E0", held("A", "DRAM"), loop("m"), held("T", "GLB"))
    second = nest("E1", held("A", "DRAM"), held("A", "GLB"), held("Z", "DRAM"), loop("p"), held("T", "GLB"))
    with pytest.raises(NoTree):
        joined_tree([first, second], [1], TENSORS)
