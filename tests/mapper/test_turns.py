"""Einsums that take turns in loops, combined row by row, with numbers worked out by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fusiest
from fusiest.looptree import LoopTree
from fusiest.mapper import Options
from fusiest.mapper.windows import interleavings
from fusiest.mapper.windows.interleaving_plans import TurnLimits, TurnPlan, turn_plans, turn_ways
from fusiest.mapper.windows.interleavings import TurnSearches, TurnsTogether, TurnTables
from fusiest.mapper.windows.least_traffic import least_reading
from fusiest.mapper.windows.symmetric import WindowForms
from fusiest.model import elements, evaluate
from fusiest.pmapping import TooManyCandidates, exchange_memories, least_of_reading
from fusiest.spec import Spec
from tests import proving
from tests.drawing.dice import Dice
from tests.drawing.windows import draw_small_cnn
from tests.load_text import load_text
from tests.mapper.test_windows import ARCH, BLOCK, PAIR
from tests.proving import TALLY
from tests.reference.simulator import simulate

FIRST = np.array([[1.0, 1.0, 5.0, 8.0], [2.0, 2.0, 0.0, 8.0]])
"""Energy, latency, bits above the only loop, bits in its own turn. The second row costs more, but nobody else sees its space."""
SECOND = np.array([[1.0, 1.0, 0.0, 6.0], [3.0, 3.0, 0.0, 3.0]])


def combined(common: int, size: float) -> TurnsTogether:
    """Both, where exchanged tensors take 10 bits in each turn."""
    together = TurnsTogether(np.array([[1, common], [common, 1]]), [10.0, 10.0], size)
    together.add(FIRST)
    together.add(SECOND)
    return together


@pytest.mark.parametrize(
    ("common", "size", "rows", "cost"),
    [
        (1, 21, [0, 0], 2.0),  # the second turn takes 10 + 5 + 6 bits
        (1, 20, [1, 0], 3.0),  # 10 + 6; with the first row of the first, only the second of the second fits
        (0, 18, [0, 0], 2.0),  # no common loop: 10 + 8 in the first turn, 10 + 6 in the second
    ],
)
def test_what_others_hold_above_common_loops_counts(common: int, size: float, rows: list[int], cost: float) -> None:
    together = combined(common, size)
    cheapest = int(together.costs[:, 0].argmin())
    assert together.rows[cheapest].tolist() == rows
    assert together.costs[cheapest].tolist() == [cost, cost]


def test_nothing_is_left_where_a_turn_does_not_fit() -> None:
    assert len(combined(1, 17).costs) == 0


def test_what_failed_is_not_tried_again() -> None:
    """A table of A below one loop was too large for windows of 4 rows: so it is for 8, but not for 2, nor for B."""
    spec = load_text(ARCH.replace("SIZE", "96"), PAIR)
    plans = {plan.loops[0].tiling("A").tile: plan for plan in _all_plans(spec, ("A", "B")) if plan.levels["T"] == 0}
    tables = TurnTables()
    tables.fail(plans[4], "A")
    assert [tile for tile, plan in sorted(plans.items()) if tables.too_large(plan)] == [4, 8, 16]
    assert tables.has_failed(("A", "B"))
    assert not tables.has_failed(("B", "C"))
    assert not tables.is_over
    for _ in range(interleavings.MOST_FAILED - 1):
        tables.fail(plans[2], "B")
    assert tables.is_over
    assert tables.renewed().is_over


def test_failures_leave_the_result_valid_and_its_gap_right(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load_text(ARCH.replace("SIZE", "96"), PAIR)
    usual = fusiest.map(spec, "energy", jobs=1)
    monkeypatch.setattr(interleavings, "MOST_CANDIDATES", 1)
    hasty = fusiest.map(spec, "energy", jobs=1)
    assert usual.stats.plans_left == 0
    assert hasty.stats.plans_left > 0
    best, least = hasty.best("energy").energy, usual.best("energy").energy
    assert best * (1 - hasty.gap) <= least <= best


FANOUT = """
  - !Container {name: PE, spatial: [{name: X, fanout: 8, loop_bounds: [{expression: ~d, operator: ==, value: 1}MORE]}]}
  - !Compute"""


@pytest.mark.parametrize("size", ["640", "1200"])
def test_turns_fill_a_fanout_as_is_asked_for(size: str) -> None:
    """Of a fanout of 8, `min_usage` leaves what uses 8 instances, all of channels: just what a demand for 8 iterations of d leaves."""
    arch = ARCH.replace("SIZE", size).replace("\n  - !Compute", FANOUT)
    asked = load_text(arch.replace("MORE]", "], min_usage: 1"), BLOCK)
    told = load_text(arch.replace("MORE", ", {expression: d, operator: ==, value: 8}"), BLOCK)
    ours, theirs = (fusiest.map(spec, "energy", jobs=1) for spec in (asked, told))
    assert ours.best("energy").energy == pytest.approx(theirs.best("energy").energy, rel=1e-9)
    assert (
        ours.best("energy").energy < 0.95 * fusiest.map(asked, "energy", windows="none", jobs=1).best("energy").energy
    )
    assert ours.gap == pytest.approx(theirs.gap, abs=1e-9)
    assert "Spatial" in fusiest.dump_mapping(ours.best("energy").looptree)
    assert simulate(asked, ours.best("energy").looptree).wrong_tensors == ()


def test_too_many_are_not_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interleavings, "MOST_ROWS", 3)
    with pytest.raises(TooManyCandidates):
        combined(1, 21)


def _all_plans(spec: Spec, run: tuple[str, ...]) -> list[TurnPlan]:
    all_ways = turn_ways(spec, run, WindowForms(spec), TurnLimits())
    return [plan for ways in all_ways if ways.are_few for plan in turn_plans(spec, run, ways)]


def test_plans_without_room_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 1, 2, 4 and 8 rows have windows of at most 10 of the 12 values that fit; those of 16 rows do not."""
    monkeypatch.setattr(interleavings, "MOST_PLANS", 4)
    spec, said = load_text(ARCH.replace("SIZE", "96"), PAIR), list[str]()
    fusiest.map(spec, "energy", windows="retained", jobs=1, progress=lambda step: said.append(str(step)))
    assert any("A to B, exactly" in words for words in said)
    assert not any("not gone through" in words for words in said)


def test_exact_searches_are_for_windows_alone() -> None:
    """Down reads what Filter makes row by row: the search without windows has all that they do in common loops."""
    spec = load_text(ARCH.replace("SIZE", "1200"), BLOCK)
    assert _all_plans(spec, ("Filter", "Down")) == []
    plans = _all_plans(spec, ("Up", "Filter"))
    assert plans
    assert all(any(loop.variables["Filter"] == "p" for loop in plan.loops) for plan in plans)


def test_what_is_made_again_over_rows_columns_and_channels() -> None:
    """A MobileNetV2 block of 8 x 8 in 60 bytes: the best of very many plans with three loops, most of which read inputs too often."""
    spec = fusiest.load("simple", "mobilenet", SIZE=8, CHANNELS_IN=2, EXPANSION=4, GlobalBufferSize=480)
    none, both = (fusiest.map(spec, "energy", windows=w, jobs=1).best("energy") for w in ("none", "all"))
    assert simulate(spec, both.looptree).wrong_tensors == ()
    assert both.energy < 0.9 * none.energy


@st.composite
def small_cnns(draw: st.DrawFn) -> Spec:
    dice = Dice(draw)
    return draw_small_cnn(dice, dice.one_of(["triple", "residual", "image", "depthwise", "forked"]))


@proving.floors(6, same=0.5)
@proving.cases(6, proving=200)
@given(small_cnns())
def test_no_plan_needs_less_than_is_said_beforehand(spec: Spec) -> None:
    """What exchanged tensors take at least, against what the model says; for some plans that is just as much."""
    run = tuple(spec.info.einsums)
    searches = TurnSearches(spec, Options(), WindowForms(spec), True)
    same = False
    for plan in _all_plans(spec, run):
        bits = searches._exchanged_bits(spec, plan, "GLB")
        if bits is not None:
            assert plan.least_bits(spec) <= max(bits)
            same = same or plan.least_bits(spec) == max(bits)
    TALLY["compared"] += 1
    TALLY["same"] += same


def _planned(spec: Spec) -> Iterator[tuple[TurnPlan, LoopTree]]:
    """The best mappings of plans of the whole workload."""
    searches = TurnSearches(spec, Options(objective=("energy",)), WindowForms(spec), True)
    ((memory, size),) = (exchange_memories(spec) or {}).items()
    for plan in _all_plans(spec, tuple(spec.info.einsums)):
        bits = searches._exchanged_bits(spec, plan, memory)
        if bits is not None and max(bits) <= size:
            for part in searches._planned(spec, plan, memory, size, bits):
                yield plan, part.trees[0]


@proving.floors(6, same=0.3)
@proving.cases(6, proving=200)
@given(small_cnns())
def test_no_plan_reads_less_than_is_said_beforehand(spec: Spec) -> None:
    """Inputs from the outermost memory, against what the model counts for the best mapping of each plan; for some, just as much."""
    same = False
    size = next(iter((exchange_memories(spec) or {}).values()))
    for plan, tree in itertools.islice(_planned(spec), 40):
        found = evaluate(spec, tree).einsums
        for name, (joules, seconds) in least_reading(spec, plan, size).items():
            info = spec.info.einsums[name]
            again = busy = 0.0
            for tensor, access in info.accesses.items():
                if tensor not in plan.levels and not access.output:
                    energy, time = least_of_reading(spec, name, tensor)
                    reads = found[name].actions["DRAM", tensor, "read"] * 100 / energy
                    again += max(0, reads - elements(access, info.bounds)) * energy
                    busy += reads * time
            assert joules <= again * (1 + 1e-9)
            assert seconds <= busy * (1 + 1e-9)
            same = same or 0 < joules == pytest.approx(again)
    TALLY["compared"] += 1
    TALLY["same"] += same
