"""More than one fused loop per rank variable, and fused Spatial loops, in whole workloads, against the exhaustive mapper."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

import fusiest
from fusiest.looptree.nodes import Compute, LoopTree, Spatial, Temporal, variable_in
from tests.drawing.dice import Dice
from tests.drawing.growing import COPIES
from tests.load_text import load_text
from tests.mapper.test_exhaustive_workload import LIMITS, check_front, run
from tests.proving import floors
from tests.workload_strategies import WorkloadCase, workload_cases

TWO = dataclasses.replace(LIMITS, fused_loops_per_variable=2)


def _common_loops(tree: LoopTree) -> set[str]:
    """What kinds of loops stand above a split."""
    found = set()
    paths = list(tree.paths())
    for path in paths:
        others = {id(node) for other in paths if other is not path for node in other}
        loops = [node for node in path if isinstance(node, (Temporal, Spatial)) and id(node) in others]
        leaf = path[-1]
        assert isinstance(leaf, Compute)
        names = [variable_in(loop, leaf.einsum) for loop in loops]
        found |= {"a common Spatial loop"} if any(isinstance(loop, Spatial) for loop in loops) else set()
        found |= {"two common loops over a variable"} if len(set(names)) < len(names) else set()
    return found


LADDER = """
arch:
  nodes:
  - !Memory
    name: DRAM
    size: inf
    component_class: Dummy
    tensors: {{keep: ~Intermediates, may_keep: {dram}}}
    actions: [{{name: read, energy: {energy}, throughput: {throughput}}}, {{name: write, energy: 5, throughput: inf}}]
  - !Memory
    name: GLB
    size: {glb}
    component_class: Dummy
    tensors: {{keep: {keep}, may_keep: ~T0}}
    actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]
  - !Memory
    name: Reg
    size: {reg}
    component_class: Dummy
    tensors: {{keep: ~DRAM & ~GLB, may_keep: {may}}}
    actions: [{{name: read, energy: 0, throughput: inf}}, {{name: write, energy: 0, throughput: inf}}]
  - !Compute
    name: MAC
    component_class: Dummy
    actions: [{{name: compute, energy: 1, throughput: 1}}]
workload:
  rank_sizes: {{M: {m}, N: {n}, K: {k}}}
  bits_per_value: {{All: 8}}
  einsums:
  - {{name: E0, tensor_accesses: [{{name: A, projection: [m]}}, {{name: T0, projection: [m], output: true}}]}}
  - {{name: E1, tensor_accesses: [{{name: T0, projection: {{M: {v}}}}}, {{name: T1, projection: {{M: {v}, K: k}}, output: true}}]}}
  - name: E2
    tensor_accesses:
    - {{name: T1, projection: {{M: m, K: k}}}}
    - {{name: W, projection: {{K: k, N: n}}}}
    - {{name: Z, projection: [m, n], output: true}}
"""
"""T0 must be exchanged in small registers, T1 may be in a larger buffer: tiles of two sizes for one rank."""


def ladder(**numbers: object) -> fusiest.Spec:
    given = {
        "dram": "~Intermediates", "energy": 20, "throughput": "inf", "glb": 48, "keep": "~DRAM & ~T0", "reg": 8,
        "may": "Nothing", "m": 8, "n": 8, "k": 1, "v": "p",
    }  # fmt: skip
    return load_text(LADDER.format(**{**given, **numbers}))


@st.composite
def ladders(draw: st.DrawFn) -> WorkloadCase:
    dice = Dice(draw)
    spec = ladder(
        dram=dice.one_of(["~Intermediates", "~T0"]),
        energy=dice.one_of([20, 5, 50]),
        throughput=dice.one_of(["inf", "1"]),
        glb=8 * dice.number(3, 9),
        keep=dice.one_of(["~DRAM & ~T0", "~T0", "~T0 & (Inputs | ~DRAM)", "~T0 & Shared"]),
        reg=8 * dice.one_of([1, 2, 3]),
        may=dice.one_of(["Nothing", "Shared", "W"]),
        m=dice.one_of([4, 6, 8]),
        n=dice.one_of([8, 4, 2]),
        k=dice.one_of([1, 1, 2]),
        v=dice.one_of(["m", "p"]),
    )
    return WorkloadCase(spec, "given" if dice.chance(50) else "all")


def test_a_second_loop_keeps_weights_for_longer() -> None:
    """T0 fits the registers one element at a time, T1 the buffer four at a time: W is then read twice, not eight times."""
    spec = ladder()
    one, two = (fusiest.map(spec, "energy", max_fused_loops_per_variable=n, jobs=1) for n in (1, 2))
    reads = [
        fusiest.evaluate(spec, r.best("energy").looptree).einsums["E2"].actions["DRAM", "W", "read"] for r in (one, two)
    ]
    assert reads == [8 * 8 * 8, 2 * 8 * 8]
    assert _common_loops(two.best("energy").looptree) == {"two common loops over a variable"}


@floors(15, fused=0.25)
@run(15)
@given(case=ladders())
def test_tiles_of_two_sizes_for_one_rank(case: WorkloadCase) -> None:
    check_front(case, limits=TWO)


@floors(20, fused=0.25)
@run(20)
@given(case=workload_cases(bounds=[4, 2, 4, 1]))
def test_two_fused_loops_per_variable(case: WorkloadCase) -> None:
    check_front(case, limits=TWO)


@floors(20, fused=0.1)
@run(20)
@given(case=workload_cases(deep=True))
def test_tensors_exchanged_below_a_fanout(case: WorkloadCase) -> None:
    check_front(case)


@floors(15)
@run(15)
@given(case=workload_cases(kinds=COPIES, deep=True))
def test_copies_below_a_fanout(case: WorkloadCase) -> None:
    check_front(case)


@floors(10, fused=0.25)
@run(10)
@given(case=workload_cases(bounds=[4, 2, 3, 1], deep=True))
def test_both(case: WorkloadCase) -> None:
    check_front(case, limits=TWO)
