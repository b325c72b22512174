"""Equal layers: a first pass of all of them with pmappings that the first have. It is quicker, and changes no result."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import fusiest
from fusiest.base.interrupt import OutOfTime
from fusiest.joining import Coarse, Level, as_used, first_layers
from fusiest.mapper import search
from fusiest.mapper.candidates import Candidate, KnownMapping
from fusiest.mapper.mapper import grouped
from fusiest.mapper.options import Options
from fusiest.mapper.tables import explore_all

OBJECTIVES = ["latency", "edp", "energy,latency"]


def chain(einsums: int, objective: str = "edp", known: list[Candidate | KnownMapping] | None = None) -> search.Search:
    """The search for the best mappings of so many products, with room for two tiles or so."""
    spec = fusiest.load(
        "simple", "matmuls", N_EINSUMS=einsums, M=32, KN=16, GlobalBufferSize=4096, MainMemoryEnergy=20e-12
    )
    options = Options(objective=tuple(objective.split(",")), jobs=1)
    problem = grouped(spec, options, explore_all(spec, options, lambda step: None))
    return search.Search(problem, search.SearchSettings(options, all_orders=True), known or [])


@pytest.fixture
def _very_coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "FIRST_PASS", Coarse(most=12))


class Kinds(NamedTuple):
    """All that `first_layers` looks at: Einsums of one kind have the same letter."""

    letters: str

    @property
    def order(self) -> tuple[str, ...]:
        return tuple(map(str, range(len(self.letters))))

    @property
    def kinds(self) -> dict[str, int]:
        return {einsum: ord(letter) for einsum, letter in zip(self.order, self.letters, strict=True)}


@pytest.mark.parametrize(
    ("letters", "count"),
    [
        ("abbbbbbbc", 3),
        ("abbbbc", None),  # they are most of all
        ("abcd" + "ebcd" * 7 + "f", 9),
        ("ivvvqsazfg", None),  # an attention with equal projections has no layers
        ("abcdefgh", None),
    ],
)
def test_first_layers_have_twice_what_comes_again(letters: str, count: int | None) -> None:
    found = first_layers(Kinds(letters))
    assert found == (None if count is None else frozenset(map(str, range(count))))


def test_equal_products_are_of_one_kind() -> None:
    """The first and the last have tables of their own."""
    assert first_layers(chain(9).problem) == frozenset(f"Matmul{i}" for i in range(3))


@pytest.mark.usefixtures("_very_coarse")
def test_pmappings_of_the_first_layers_are_those_of_all() -> None:
    found = chain(9)
    layers = first_layers(found.problem)
    assert layers is not None
    how = search.replace(found.join_pass(search.FIRST_PASS), stretch=layers)
    passed = found.levels(found.problem, how)
    few = as_used(found.problem, passed)
    sizes = {e: sum(len(rows) for _, rows in groups) for e, groups in few.groups.items()}
    whole = {e: sum(len(rows) for _, rows in groups) for e, groups in found.problem.groups.items()}
    assert 0 < sizes["Matmul2"] < whole["Matmul2"]
    assert 0 < sizes["Matmul0"] <= len(passed.end)  # at most one for each partial mapping
    assert sizes["Matmul8"] == whole["Matmul8"]  # nothing is known of it
    assert all(a.rows is b.rows for a, b in zip(few.groups["Matmul1"], few.groups["Matmul7"], strict=True))


@pytest.mark.usefixtures("_very_coarse")
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_it_changes_no_result(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = chain(9, objective)
    assert found._first_layers(search.FIRST_PASS) is None
    assert found.candidates
    found.run()
    monkeypatch.setattr(search, "first_layers", lambda problem: None)
    without = chain(9, objective)
    without.run()
    assert [c.costs for c in found.best()] == [pytest.approx(c.costs, rel=1e-9) for c in without.best()]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_exact_layers_are_not_joined_again(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = chain(9, objective)
    found.run()
    assert [step.finished for step in found.known.funnel] == list(range(1, 10))
    monkeypatch.setattr(search, "first_layers", lambda problem: None)
    monkeypatch.setattr(search, "HASTY_PASS", search.FIRST_PASS)  # so that neither has something to beat
    without = chain(9, objective)
    without.run()
    assert (found.known.funnel, found.known.joined) == (without.known.funnel, without.known.joined)
    assert found.known.most_survivors == without.known.most_survivors
    assert [(c.costs, c.joins()) for c in found.best()] == [(c.costs, c.joins()) for c in without.best()]


@pytest.mark.usefixtures("_very_coarse")
@pytest.mark.parametrize("stop", range(1, 6, 2))
def test_an_end_within_a_coarse_pass_claims_no_more_than_is_known(stop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapping is known, and time is up in a first pass, from which the best mappings are gone: the gap covers them still."""
    whole = chain(6, "energy")
    whole.run()
    (best,) = whole.best()
    known = best._replace(costs=best.costs._replace(energy=2 * best.costs.energy))
    original, begun = search.levels, list[Level]()

    def stopping(*arguments: object) -> object:
        for level in original(*arguments):
            begun.append(level)
            yield level
            if len(begun) == stop:
                raise OutOfTime

    monkeypatch.setattr(search, "levels", stopping)
    proof = chain(6, "energy", [known]).run()
    assert proof.stopped == "time limit"
    assert known.costs.energy * (1 - proof.gap) <= best.costs.energy * (1 + 1e-9)
