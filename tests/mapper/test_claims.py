"""Claims of `map` against each other: no mapping that any run wrote costs less than another run says is possible.

FUSIEST_PROVE=1 FUSIEST_PROVE_EXAMPLES=2000 FUSIEST_PROVE_SECONDS=7200 tries two thousand specs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

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
    """One workload with two or three sizes of the buffer, one or two of an array, and several options."""
    dice = Dice(draw)
    kind = dice.one_of(["pair", "triple", "residual", "image", "dilated", "pooled", "depthwise", "forked"])
    spec = draw_small_cnn(dice, kind)
    factors = dice.one_of([(1, 2), (1, 1.5, 8), (1, 1.25)])
    rows = dice.one_of([(), (2, 4), (3,), (8, 16)])
    objective = dice.one_of(["energy", "latency", "edp"])
    specs = [with_chip(spec, factor, row) for factor in factors for row in rows or (1,)]
    return [(changed, windows, objective) for changed in specs for windows in dice.one_of([WINDOWS, WINDOWS[::2]])]


def with_chip(spec: Spec, factor: float, rows: int) -> Spec:
    """The spec with a buffer `factor` times as large, above an array of `rows` compute units."""
    dram, buffer, compute = spec.require_arch().nodes
    assert isinstance(buffer, arch.Memory)
    assert isinstance(buffer.size, (int, float))
    array = arch.Container(name="PE", spatial=(arch.Dimension(name="X", fanout=rows),))
    nodes = (dram, replace(buffer, size=8 * int(buffer.size * factor / 8)), *([array] if rows > 1 else []), compute)
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


@proving.floors(6, pairs=3, windowed=0.2, claims=1)
@proving.cases(6, proving=2_000)
@given(families())
def test_no_claim_is_beaten_by_another_run(family: list[tuple[Spec, str, str]]) -> None:
    runs = [run(*item) for item in family]
    TALLY["compared"] += 1
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
