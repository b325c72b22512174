"""Runs and parts in a row, by hand: estimates, ways to cut a workload, and which of them are made."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import fusiest
from fusiest.looptree import Compute, LoopTree
from fusiest.mapper.part_mappings import PartMapping
from fusiest.mapper.windows.in_a_row import PartsInARow
from fusiest.mapper.windows.outside import CutCosts, PlainParts


class _PartsByHand(PlainParts):
    """Each Einsum costs 10 J and 1 s, and every part 2 J more for each of its ends inside of four Einsums."""

    def __init__(self) -> None:
        self.known, self.asked = [], list[tuple[int, int]]()

    def estimates(self, start: int, end: int) -> list[tuple[float, float]]:
        return [(10.0 * (end - start) + 2.0 * (start > 0) + 2.0 * (end < 4), 1.0 * (end - start))]

    def between(self, start: int, end: int) -> Sequence[PartMapping]:  # type: ignore[override]  # a list in the house
        self.asked.append((start, end))
        energy, latency = self.estimates(start, end)[0]
        return [_part(energy, latency, start, end)] if end > start else [PartMapping(0.0, 0.0, (), False)]


def _part(energy: float, latency: float, start: int, end: int, windows: bool = False) -> PartMapping:
    trees = tuple(LoopTree(nodes=(Compute(einsum=f"E{i}", component="MAC"),)) for i in range(start, end))
    return PartMapping(energy, latency, trees, windows)


def test_rows_take_the_best_of_runs_and_parts() -> None:
    rows = PartsInARow(4, _PartsByHand())
    assert [row[:2] for row in rows.to(4)] == [(40.0, 4.0)]
    assert rows.add((1, 3), [_part(12.0, 2.0, 1, 3, True)])
    # E0 alone: 10 + 2; the run: 12; E3 alone: 10 + 2. Without the run 40.
    assert [row[:2] for row in rows.to(4)] == [(36.0, 4.0)]
    first, _, last = rows.to(4)[0].pieces
    assert (first, last) == ((0, 1), (3, 4))
    # A run over the first two: 9 + (E2, E3: 20 + 2) = 31.
    rows.add((0, 2), [_part(9.0, 2.0, 0, 2, True)])
    assert [row[:2] for row in rows.to(4)] == [(31.0, 4.0)]
    assert [row[:2] for row in rows.since(2)] == [(22.0, 2.0)]
    assert [row[:2] for row in rows.around((1, 3), [_part(12.0, 2.0, 1, 3, True)])] == [(36.0, 4.0)]


def test_what_is_slower_and_cheaper_stays() -> None:
    rows = PartsInARow(4, _PartsByHand())
    rows.add((0, 4), [_part(20.0, 9.0, 0, 4, True), _part(50.0, 3.0, 0, 4, True)])
    assert sorted(row[:2] for row in rows.to(4)) == [(20.0, 9.0), (40.0, 4.0), (50.0, 3.0)]


def test_what_is_no_better_is_not_new_and_what_is_beaten_is_not_made() -> None:
    rows = PartsInARow(4, plain := _PartsByHand())
    assert rows.add((1, 3), [_part(12.0, 2.0, 1, 3, True)])
    assert not rows.add((1, 3), [_part(13.0, 2.0, 1, 3, True)])
    assert list(rows.made(rows.to(4), lambda energy, latency: energy >= 36)) == []
    assert plain.asked == []
    (whole,) = rows.made(rows.to(4), lambda energy, latency: energy >= 37)
    assert plain.asked == [(0, 1), (3, 4)]
    assert (whole.windows, whole.energy, len(whole.trees)) == (True, 36.0, 4)


def test_a_cut_costs_what_crosses_it() -> None:
    """Two products, fused: to cut between them is to write T1 (64 x 64 values of 8 bits) to the outermost memory, and to read it."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=2, M=64, KN=64)
    best = fusiest.map(spec, "energy", windows="none", jobs=1).best("energy")
    costs, actions = CutCosts(spec, best), best.evaluation.einsums
    assert ("MainMemory", "T1", "write") not in actions["Matmul0"].actions  # it never leaves the chip
    first, second = costs.between(0, 1), costs.between(1, 2)
    assert costs.between(0, 2) == pytest.approx((best.energy, best.latency))
    moved = first[0] - actions["Matmul0"].energy
    assert moved == pytest.approx(second[0] - actions["Matmul1"].energy)
    unfused = fusiest.map(fusiest.load("simple", "matmuls", N_EINSUMS=1, M=64, KN=64), "energy", jobs=1).best("energy")
    read = unfused.evaluation.einsums["Matmul0"].actions["MainMemory", "T0", "read"]
    by_component = unfused.evaluation.energy_by_component()
    bits = sum(
        count for (memory, *_), count in unfused.evaluation.einsums["Matmul0"].actions.items() if memory == "MainMemory"
    )
    assert moved == pytest.approx(by_component["MainMemory"] * read / bits)
