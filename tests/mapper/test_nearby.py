"""What is best for smaller sizes of a memory, from a search that has looked a little above the best."""

from __future__ import annotations

from typing import Any

import pytest

from fusiest.base.objective import objective_of
from fusiest.joining import KnownCosts
from fusiest.mapper.candidates import KnownMapping
from fusiest.mapper.warm_start import SizeFront


def test_the_best_that_needs_no_more() -> None:
    points: list[Any] = [KnownMapping(KnownCosts(1.0, 1.0, bits), None, ()) for bits in (100.0, 64.0, 40.0)]
    front, (best, smaller, smallest) = SizeFront("GLB", points, [1000.0, 1000.0, 50.0]), points
    for bits, expected in (
        (1000.0, best),
        (100.0, best),
        (99.0, smaller),
        (64.0, smaller),
        (50.0, smallest),
        (40.0, smallest),
    ):
        assert front.best_within(bits) is expected
    assert front.best_within(55.0) is None  # the last was looked for with 50: what needs 55 may have been missed
    assert front.best_within(39.0) is None


@pytest.mark.parametrize(
    ("objective", "energy", "latency"), [("edp", 6.0, 15.0), ("energy", 9.0, 22.5), ("latency", 9.0, 22.5)]
)
def test_so_much_more(objective: str, energy: float, latency: float) -> None:
    """2.25 times the score of 4 J and 10 s: a product rises with both costs."""
    more = KnownMapping(KnownCosts(4.0, 10.0), None, ()).times(2.25, objective_of(objective))
    assert more.costs[:2] == pytest.approx((energy, latency))
