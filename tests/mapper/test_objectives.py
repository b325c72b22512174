"""An objective that is one more line of the table: the search, and everything that shows results, follow."""

from __future__ import annotations

from typing import Any

import pytest

import fusiest
from fusiest.base.objective import OBJECTIVES, Objective, cost_of
from fusiest.mapper import result_json
from fusiest.report import Subject, report_html
from tests.golden_answers import kept, spec_of
from tests.report.test_page import data_of

ED2P = Objective(("ed2p",), (1, 2), "Jss", "energy-delay² product", "ED²P")
E3DP = Objective(("e3dp",), (3, 1), "JJJs", "energy³-delay product", "E³DP")
FRONTS = {
    number: (case, [(float.fromhex(energy), float.fromhex(latency)) for energy, latency, _ in answer["mappings"]])
    for number, (case, answer) in enumerate(kept())
    if len(answer["mappings"]) > 1 and answer["optimal"]
}
"""Specs with several optimal mappings, and all of these mappings' energies and latencies."""


@pytest.fixture(autouse=True)
def _two_more(monkeypatch: pytest.MonkeyPatch) -> None:
    for objective in (ED2P, E3DP):
        monkeypatch.setitem(OBJECTIVES, objective.names[0], objective)


@pytest.mark.parametrize("number", FRONTS)
def test_the_best_is_the_best_of_the_front(number: int) -> None:
    """Every function that rises with energy and latency is least somewhere on the front."""
    case, front = FRONTS[number]
    spec = spec_of(case)
    for objective in (ED2P, E3DP):
        (name,) = objective.names
        result = fusiest.map(spec, name, jobs=1, **case["options"])
        assert result.optimal
        assert cost_of(result.best(name), name) == pytest.approx(min(objective.score_of(*c) for c in front), rel=1e-9)


def test_fronts_have_several_bests() -> None:
    """Else the test above could not tell objectives apart."""

    def best(objective: Objective, front: list[tuple[float, float]]) -> tuple[float, float]:
        return min(front, key=lambda costs: objective.score_of(*costs))

    fronts = [front for _, front in FRONTS.values()]
    assert sum(len({best(objective, front) for objective in (ED2P, E3DP)}) > 1 for front in fronts) >= 4


def test_it_is_shown_wherever_costs_are() -> None:
    result = fusiest.map(fusiest.load("simple", "matmuls"), "ed2p", jobs=1)
    saved: Any = result_json(result)["mappings"]
    best = result.best("ed2p")
    assert saved[0]["ed2p"] == best.energy * best.latency * best.latency
    assert "ed2p" in result.table("mapping").columns
    page = data_of(report_html(Subject(result, None, "ed2p", "")))
    assert page["objectives"]["ed2p"] == [[1, 2], "Jss", ED2P.title, "ED²P"]
