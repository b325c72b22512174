"""What `map` finds against all mappings in which Einsums share loops, also those that make windows."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

import fusiest
from fusiest.pmapping import NoMapping
from tests import proving
from tests.drawing.dice import RandomDice
from tests.drawing.halos import CNNS, HaloCase, draw_halo_case
from tests.drawing.windows import draw_small_cnn
from tests.proving import TALLY
from tests.reference.exhaustive_halos import ExhaustiveHalos, TooManyTogether
from tests.reference.exhaustive_windows import ExhaustiveWindows
from tests.reference.simulator import simulate
from tests.yaml_text import yaml_text

SEEDS = st.integers(0, 1 << 40)
"""Cases that shrink are too much alike."""
MOST = 2_000 if proving.PROVE else 600
"""Choices of common loops that are gone through for one order; a case with more is left out."""


@st.composite
def halo_cases(draw: st.DrawFn) -> HaloCase:
    return draw_halo_case(RandomDice(draw(SEEDS)))


@proving.floors(10, windows=0.1, tight=0.3, chip=0.4, others=0.2)
@proving.cases(12, proving=3_000)
@given(halo_cases())
def test_every_mapping_is_among_those_that_are_gone_through(case: HaloCase) -> None:
    """Two to four layers on one or two memories on chip, with fanouts, persistent weights, constraints: no mapping that `map` finds is
    better, none that is left out by its gap, and all that are found compute what they should."""
    oracle = ExhaustiveHalos(case.spec, imperfect=case.imperfect, most=MOST, nests=3 * MOST)
    try:
        oracle.search()
    except TooManyTogether:
        return
    TALLY["compared"] += 1
    best = min(oracle.front, key=lambda m: m.energy, default=None)
    least = best.energy if best is not None else math.inf
    for mapping in oracle.front:
        assert simulate(case.spec, mapping.tree).wrong_tensors == (), yaml_text(case.spec)
    try:
        result = fusiest.map(case.spec, "energy", jobs=1, imperfect=case.imperfect)
    except NoMapping:
        TALLY["tight"] += 1
        return
    found = result.best("energy")
    assert least <= found.energy * (1 + 1e-9), yaml_text(case.spec)
    assert found.energy * (1 - result.gap) <= least * (1 + 1e-9), yaml_text(case.spec)
    TALLY["windows"] += best is not None and best.has_windows
    TALLY["tight"] += result.gap > 0
    TALLY["chip"] += case.machine != "two"
    TALLY["others"] += len(case.spec.info.einsums) > 2


@st.composite
def small_cnns(draw: st.DrawFn) -> fusiest.Spec:
    dice = RandomDice(draw(SEEDS))
    return draw_small_cnn(dice, dice.one_of(CNNS))


@proving.floors(13, fewer=0.05)
@proving.cases(13, proving=2_000)
@given(small_cnns())
def test_nothing_that_the_plainer_mapper_tries_is_missing(spec: fusiest.Spec) -> None:
    """The exhaustive mapper of chains whose Einsums share all loops knows no better mapping; it lacks some."""
    oracle = ExhaustiveHalos(spec, most=2 * MOST, nests=10 * MOST)
    try:
        oracle.search()
    except TooManyTogether:
        return
    TALLY["compared"] += 1
    least, plain = oracle.least("energy"), ExhaustiveWindows(spec).search()
    assert least <= plain * (1 + 1e-9), yaml_text(spec)
    TALLY["fewer"] += least < plain * (1 - 1e-9)
