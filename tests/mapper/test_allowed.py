"""Mappings obey the architecture's constraints, whoever found them: in windows, and in quick looks."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fusiest
from fusiest.pmapping import NoMapping, is_allowed
from fusiest.spec import Memory, Spec
from tests import proving
from tests.drawing.dice import Dice
from tests.drawing.windows import draw_small_cnn
from tests.load_text import load_text
from tests.proving import TALLY

ARCH = """
arch:
  nodes:
  - !Memory {{name: DRAM, size: inf, component_class: Dummy, leak_power: 0, tensors: {{keep: ~Intermediates, may_keep: All}},
             actions: [{{name: read, energy: 100, throughput: 1}}, {{name: write, energy: 100, throughput: 1}}]}}
  - !Memory {{name: Buf, size: {size}, component_class: Dummy, leak_power: 0, tensors: {{keep: ~DRAM, may_keep: All{more}}},
             actions: [{{name: read, energy: 1, throughput: 8}}, {{name: write, energy: 1, throughput: 8}}]}}
  {inner}
  - !Compute {{name: MAC, component_class: Dummy, leak_power: 0, actions: [{{name: compute, energy: 1, throughput: 1}}]}}
"""
WORK = """
workload:
  bits_per_value: {{All: 8}}
  einsums:
  - {{name: A, tensor_accesses: [{{name: I, projection: {{X: p}}}}, {{name: T, projection: {{H: p{c}}}, output: true}}],
     iteration_space_shape: [0 <= p < {rows}{channels}]}}
  - {{name: B, tensor_accesses: [{{name: T, projection: {{H: {step} * p + s{c}}}}}, {{name: W, projection: {{S: s}}}},
     {{name: O, projection: {{P: p}}, output: true}}], iteration_space_shape: [0 <= p < 8, 0 <= s < {window}{channels}]}}
"""
PAIR = WORK.format(rows=10, step=1, window=3, c="", channels="")
PAIR_OF_CHANNELS = WORK.format(rows=10, step=1, window=3, c=", C: c", channels=", 0 <= c < 2")
GAPS = WORK.format(rows=23, step=3, window=2, c="", channels="")
GAPS_OF_CHANNELS = WORK.format(rows=23, step=3, window=2, c=", C: c", channels=", 0 <= c < 2")
FULL = (
    "- !Container {name: PE, spatial: [{name: X, fanout: 8, min_usage: 1, "
    "loop_bounds: [{expression: ~p, operator: ==, value: 1}]}]}"
)
REGISTER = (
    "- !Memory {name: Reg, size: 48, component_class: Dummy, leak_power: 0, tensors: {keep: T%s}, "
    "actions: [{name: read, energy: 0.1, throughput: 8}, {name: write, energy: 0.1, throughput: 8}]}"
)


def chip(size: int, more: str = "", inner: str = "", work: str = PAIR) -> Spec:
    return load_text(ARCH.format(size=size, more=more, inner=inner), work)


@pytest.mark.parametrize(
    ("free", "constrained"),
    [
        (chip(80, "", FULL.replace("min_usage: 1, ", ""), PAIR_OF_CHANNELS), chip(80, "", FULL, PAIR_OF_CHANNELS)),
        (chip(64, work=GAPS_OF_CHANNELS), chip(64, ", no_fused_loops: p", work=GAPS_OF_CHANNELS)),
        (chip(80, "", REGISTER % "", PAIR_OF_CHANNELS), chip(80, ", no_resend_to_below: T", REGISTER % "", PAIR_OF_CHANNELS)),
        (chip(80), chip(80, ", tile_shape: [{expression: p, operator: <=, value: 2}]")),
        (chip(80, work=PAIR_OF_CHANNELS), chip(80, ", tensor_order_options: [[~T, T]]", work=PAIR_OF_CHANNELS)),
    ],
    ids=["min_usage", "no_fused_loops", "no_resend_to_below", "tile_shape", "tensor_order_options"],
)  # fmt: skip
@pytest.mark.parametrize("windows", ["retained", "all"])
def test_windows_obey_constraints(free: Spec, constrained: Spec, windows: str) -> None:
    """What is best without the constraint breaks it, and is not the answer with it."""
    best = fusiest.map(free, "energy", windows=windows, jobs=1).best("energy")
    ours = fusiest.map(constrained, "energy", windows=windows, jobs=1).best("energy")
    assert is_allowed(constrained, ours.looptree, imperfect=False)
    if best.energy < ours.energy:
        assert is_allowed(free, best.looptree, imperfect=False)
        assert not is_allowed(constrained, best.looptree, imperfect=False)
    assert ours.energy <= fusiest.map(constrained, "energy", windows="none", jobs=1).best("energy").energy


def test_some_constraints_cost_something() -> None:
    """No Spatial loop was asked for: 18828 J."""
    full = fusiest.map(chip(80, "", FULL, PAIR_OF_CHANNELS), "energy", windows="all", jobs=1)
    assert full.best("energy").energy == pytest.approx(72348.0)


@pytest.mark.parametrize(
    ("spec", "energy"),
    [
        (chip(80, ", no_fused_loops: p"), 17706.0),  # T is kept above the loop over p, which is not fused then
        (
            chip(64, inner=REGISTER % ", no_refetch_from_above: T", work=GAPS),
            21539.2,
        ),  # p stands above where T is backed
        (chip(64, ", no_resend_to_below: T", REGISTER % "", GAPS), 21539.2),
    ],
    ids=["no_fused_loops", "no_refetch_from_above", "no_resend_to_below"],
)
def test_windows_do_all_that_constraints_allow(spec: Spec, energy: float) -> None:
    result = fusiest.map(spec, "energy", windows="all", jobs=1)
    assert result.best("energy").energy == pytest.approx(energy)
    assert is_allowed(spec, result.best("energy").looptree, imperfect=False)


@st.composite
def constrained_cnns(draw: st.DrawFn) -> tuple[Spec, Spec]:
    """A few layers, sometimes with a register between buffer and compute, and the same with a constraint."""
    dice = Dice(draw)
    spec = draw_small_cnn(dice, dice.one_of(["pair", "pair", "triple", "residual", "image", "dilated", "pooled"]))
    outer, buffer, compute = spec.require_arch().nodes
    assert isinstance(buffer, Memory)
    exchanged = [t for t in spec.info.producers if len(spec.info.users[t]) > 1]
    held, rows = dice.one_of(exchanged), dice.one_of(sorted(spec.info.einsums["E1"].bounds))
    inner = dataclasses.replace(
        buffer, name="Reg", size=64, tensors=dataclasses.replace(buffer.tensors, keep=held, may_keep="Nothing")
    )
    nodes = (outer, buffer, inner, compute) if dice.chance(50) else (outer, buffer, compute)
    field, value = dice.one_of(
        [("no_fused_loops", rows), ("no_resend_to_below", held), ("no_refetch_from_above", held)]
    )
    if field == "no_refetch_from_above" and len(nodes) == 4:
        changed = dataclasses.replace(inner, tensors=dataclasses.replace(inner.tensors, no_refetch_from_above=value))
        others = (outer, buffer, changed, compute)
    else:
        tensors = dataclasses.replace(buffer.tensors, **{field: value})
        others = (outer, dataclasses.replace(buffer, tensors=tensors), *nodes[2:])
    arches = (dataclasses.replace(spec.require_arch(), nodes=each) for each in (nodes, others))
    free, constrained = (dataclasses.replace(spec, arch=each) for each in arches)
    return free, constrained


@proving.floors(20, both=0.5, obeyed=0.15, broken=0.1)
@proving.cases(20, proving=1_000)
@given(constrained_cnns())
def test_a_constraint_takes_just_what_breaks_it(drawn: tuple[Spec, Spec]) -> None:
    """If what is best without a constraint obeys it, it is the best with it; and nothing is better with it than without."""
    results = []
    for spec in drawn:
        try:
            results.append(fusiest.map(spec, "energy", windows="all", jobs=1))
        except NoMapping:
            results.append(None)
    TALLY["compared"] += 1
    free, ours = results
    if ours is None or free is None:
        assert ours is None
        return
    TALLY["both"] += 1
    best, least = free.best("energy"), ours.best("energy")
    assert is_allowed(drawn[1], least.looptree, imperfect=False)
    assert is_allowed(drawn[0], best.looptree, imperfect=False)
    if is_allowed(drawn[1], best.looptree, imperfect=False):
        TALLY["obeyed"] += 1
        assert least.energy * (1 - ours.gap) <= best.energy * (1 + 1e-9)
    else:
        TALLY["broken"] += 1
    if free.optimal:
        assert least.energy >= best.energy * (1 - 1e-9)


USED = """
arch:
  nodes:
  - !Memory {{name: Main, size: inf, component_class: Dummy, leak_power: 0, tensors: {{keep: All}},
             actions: [{{name: read, energy: 1, throughput: 1}}, {{name: write, energy: 1, throughput: 1}}]}}
  - !Container {{name: Array, spatial: [{{name: X, fanout: {fanout}, min_usage: 1, may_reuse: Nothing,
                loop_bounds: [{{expression: k, operator: ==, value: 1}}]}}]}}
  - !Memory {{name: Reg, size: {size}, component_class: Dummy, leak_power: 0, tensors: {{keep: A}},
             actions: [{{name: read, energy: 0, throughput: inf}}, {{name: write, energy: 0, throughput: inf}}]}}
  - !Compute {{name: MAC, component_class: Dummy, leak_power: 0, actions: [{{name: compute, energy: 0, throughput: 1}}]}}
workload:
  bits_per_value: {{All: 8}}
  einsums:
  - {{name: E, tensor_accesses: [{{name: A, projection: {{K: k}}}}, {{name: B, projection: {{M: m, K: k}}}},
     {{name: Z, projection: {{M: m}}, output: true}}], iteration_space_shape: [0 <= m < {m}, 0 <= k < {k}]}}
"""


@pytest.mark.parametrize(
    ("spec", "imperfect"),
    [
        # Of 7 rows, no divisor but 1 fits 4 instances; tiles of 2 use all of them.
        (load_text(USED.format(fanout=4, size=1000, m=7, k=2)), True),
        # 8,640 shapes: a quick look takes fewer, and without the factor 7.
        (load_text(USED.format(fanout=7, size=10**9, m=151200, k=5040)), False),
    ],
    ids=["tiles that do not divide", "many divisors"],
)
def test_quick_looks_use_as_much_as_is_asked_for(spec: Spec, imperfect: bool) -> None:
    whole, limited = (
        fusiest.map(spec, "energy", imperfect=imperfect, time_limit=limit, jobs=1).best("energy")
        for limit in (None, 600.0)
    )
    assert is_allowed(spec, limited.looptree, imperfect)
    assert limited.energy == pytest.approx(whole.energy, rel=1e-12)
    assert "Spatial" in fusiest.dump_mapping(limited.looptree)


def test_a_constraint_on_what_a_run_has_inside() -> None:
    """T is inside a run that is one Einsum when it is joined with its neighbours: what the architecture says of T asks nothing there."""
    costs = []
    for said in ("", ", no_resend_to_below: T"):
        spec = load_text(STRIDED_ARCH.replace(" SAID", said), STRIDED)
        costs.append(fusiest.map(spec, "energy", windows="all", jobs=1).best("energy").energy)
    assert costs[0] == costs[1] < fusiest.map(spec, "energy", windows="none", jobs=1).best("energy").energy


STRIDED_ARCH = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, leak_power: 0, tensors: {keep: ~Intermediates, may_keep: All},
             actions: [{name: read, energy: 100, throughput: 1}, {name: write, energy: 100, throughput: 1}]}
  - !Memory {name: GLB, size: 32, component_class: Dummy, leak_power: 0, tensors: {keep: ~DRAM, may_keep: All SAID},
             actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]}
  - !Compute {name: MAC, component_class: Dummy, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""
STRIDED = """
workload:
  bits_per_value: {All: 8}
  einsums:
  - {name: A, tensor_accesses: [{name: I, projection: {H: a}}, {name: T, projection: {H: a}, output: true}],
     iteration_space_shape: [0 <= a < 5]}
  - {name: B, tensor_accesses: [{name: T, projection: {H: 2 * b}}, {name: U, projection: {H: b}, output: true}],
     iteration_space_shape: [0 <= b < 3]}
  - {name: C, tensor_accesses: [{name: U, projection: {H: c + r}}, {name: O, projection: {H: c}, output: true}],
     iteration_space_shape: [0 <= c < 2, 0 <= r < 2]}
"""
