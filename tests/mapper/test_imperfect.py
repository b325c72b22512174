"""Imperfect tiles in whole workloads, against the exhaustive mapper."""

from __future__ import annotations

import dataclasses

from hypothesis import event, given

from fusiest.reference.exhaustive import TooManyTrees
from fusiest.reference.exhaustive_workload import TooManyCombinations, exhaustive_front
from tests.mapper.test_exhaustive_workload import LIMITS, found, run
from tests.pmapping.fronts import covers
from tests.workload_strategies import WorkloadCase, workload_cases


@run(25)
@given(case=workload_cases())
def test_fronts_with_imperfect_tiles(case: WorkloadCase) -> None:
    try:
        front = exhaustive_front(case.spec, case.orders, dataclasses.replace(LIMITS, imperfect=True))
    except (TooManyTrees, TooManyCombinations) as error:
        event(type(error).__name__)
        return
    own = found(case, imperfect=True)
    if own is not None:
        points = [(m.energy, m.latency) for m in front]
        event("compared" if points else "nothing fits")
        assert all(covers(own, p) for p in points)
        assert all(covers(points, p) for p in own)
