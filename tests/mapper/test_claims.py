"""Claims of `map` against each other: no mapping that any run wrote costs less than another run says is possible.

FUSIEST_PROVE=1 FUSIEST_PROVE_EXAMPLES=2000 FUSIEST_PROVE_SECONDS=7200 tries two thousand specs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fusiest
from fusiest.base.errors import InvalidMapping, SpecError
from fusiest.model import evaluate
from fusiest.pmapping import NoMapping
from fusiest.spec import Spec
from fusiest.spec import architecture as arch
from tests import proving
from tests.drawing.dice import Dice
from tests.drawing.windows import draw_small_cnn
from tests.load_text import load_text
from tests.proving import TALLY

WINDOWS = ("none", "retained", "all")
"""Each allows all that those before it allow."""


@dataclass(frozen=True)
class Run:
    spec: Spec
    windows: str
    objective: str
    result: fusiest.Result | None


@st.composite
def families(draw: st.DrawFn) -> list[tuple[Spec, str, str]]:
    """One workload with two or three sizes of the buffer, one or two of an array, and several options.

    In some, weights have a memory of their own beside the buffer of what Einsums exchange.
    """
    dice = Dice(draw)
    kind = dice.one_of(["pair", "triple", "residual", "image", "dilated", "pooled", "depthwise", "forked"])
    spec = draw_small_cnn(dice, kind)
    factors = dice.one_of([(1, 2), (1, 1.5, 8), (1, 1.25)])
    rows = dice.one_of([(), (2, 4), (3,), (8, 16)])
    objective = dice.one_of(["energy", "latency", "edp"])
    beside = dice.one_of([0, 0, 16, 64])
    specs = [with_chip(spec, factor, row, beside) for factor in factors for row in rows or (1,)]
    return [(changed, windows, objective) for changed in specs for windows in dice.one_of([WINDOWS, WINDOWS[::2]])]


def with_chip(spec: Spec, factor: float, rows: int, beside: int) -> Spec:
    """The spec with a buffer `factor` times as large, above an array of `rows` compute units.

    `beside`: bits of a memory for weights alone; 0: there is none.
    """
    dram, buffer, compute = spec.require_arch().nodes
    assert isinstance(buffer, arch.Memory)
    assert isinstance(buffer.size, (int, float))
    weights = replace(
        buffer,
        name="Weights",
        size=beside,
        tensors=arch.Tensors(keep="Nothing", may_keep="Inputs - Intermediates"),
        actions=tuple(replace(action, energy=0) for action in buffer.actions),
    )
    array = arch.Container(name="PE", spatial=(arch.Dimension(name="X", fanout=rows),))
    sized = replace(buffer, size=8 * int(buffer.size * factor / 8))
    nodes = (dram, *([weights] if beside else []), sized, *([array] if rows > 1 else []), compute)
    return replace(spec, arch=replace(spec.require_arch(), nodes=nodes))


def run(spec: Spec, windows: str, objective: str) -> Run:
    try:
        return Run(spec, windows, objective, fusiest.map(spec, objective, windows=windows, jobs=1))
    except NoMapping:
        return Run(spec, windows, objective, None)


def cost_on(spec: Spec, objective: str, mapping: fusiest.Mapping) -> float:
    """The cost of a mapping on a chip; infinity where the chip cannot run it."""
    try:
        return float(getattr(evaluate(spec, mapping.looptree), objective))
    except (InvalidMapping, SpecError):
        return math.inf


def has_halos(mapping: fusiest.Mapping) -> bool:
    text = fusiest.dump_mapping(mapping.looptree)
    return "initial_tile_shape:" in text or "step:" in text


@proving.floors(6, pairs=3, windowed=0.2, claims=1, beside=0.2)
@proving.cases(6, proving=2_000)
@given(families())
def test_no_claim_is_beaten_by_another_run(family: list[tuple[Spec, str, str]]) -> None:
    runs = [run(*item) for item in family]
    TALLY["compared"] += 1
    TALLY["beside"] += any(node.name == "Weights" for node in family[0][0].require_arch().nodes)
    TALLY["claims"] += sum(r.result is not None and r.result.gap < 1 for r in runs)
    for other in runs:
        if other.result is None:
            continue
        (mapping,) = other.result.mappings
        TALLY["windowed"] += has_halos(mapping)
        for claim in runs:
            if WINDOWS.index(other.windows) > WINDOWS.index(claim.windows):
                continue
            cost = cost_on(claim.spec, claim.objective, mapping)
            TALLY["pairs"] += cost < math.inf and claim is not other
            least = math.inf
            if claim.result is not None:
                least = getattr(claim.result.mappings[0], claim.objective) * (1 - claim.result.gap)
            assert least <= cost * (1 + 1e-9), (claim.windows, other.windows, least, cost)


UNEVEN = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: ~Intermediates, may_keep: ~Intermediates},
             actions: [{name: read, energy: 1}, {name: write, energy: 1}]}
  - !Memory {name: GLB, size: SIZE, component_class: Dummy, tensors: {keep: ~DRAM, may_keep: Intermediates},
             actions: [{name: read, energy: 1}, {name: write, energy: 1}]}
  - !Container {name: PE, spatial: [{name: X, fanout: 8}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  bits_per_value: 8
  iteration_space_shape: {h: 0 <= h < 11, p: 0 <= p < 6, s: 0 <= s < 6}
  einsums:
  - "T[H: h] = I[X: h]"
  - "O[P: p] = T[H: p + s]"
"""
FIRST_OF_EIGHT = """
mapping:
  nodes:
  - !Storage {tensors: [I, O], component: DRAM}
  - !Storage {tensors: [T], component: GLB}
  - !Temporal {rank_variable: {O: p, T: h}, tile_shape: {T: 3, O: 3}, initial_tile_shape: {T: 8}}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Spatial {rank_variable: h, tile_shape: 1, component: PE, name: X}
      - !Compute {einsum: T, component: MAC}
    - !Nested
      nodes:
      - !Temporal {rank_variable: p, tile_shape: 1}
      - !Spatial {rank_variable: s, tile_shape: 1, component: PE, name: X}
      - !Compute {einsum: O, component: MAC}
"""


@pytest.mark.parametrize("objective", ["latency", "edp"])
def test_a_window_fills_an_array_that_no_divisor_fills(objective: str) -> None:
    """A first window of eight of eleven rows takes two turns of eight lanes; tiles that divide eleven take six or more."""
    valid = fusiest.evaluate(load_text(UNEVEN.replace("SIZE", "80") + FIRST_OF_EIGHT))
    assert valid.latency == 8
    for size in (64, 80, 120, 800):
        result = fusiest.map(load_text(UNEVEN.replace("SIZE", str(size))), objective, jobs=1)
        least = getattr(result.mappings[0], objective) * (1 - result.gap)
        assert size < 80 or least <= getattr(valid, objective) * (1 + 1e-9)
        assert result.optimal == (result.gap == 0)
