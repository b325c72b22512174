"""What becomes of a run that fails is told by what was raised, not by its words."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import fusiest.mapper
from fusiest import load
from fusiest.base.errors import FusiestError, InternalError
from fusiest.mapper import Options, SizeFront
from fusiest.sweeps.reuse.table_cache import own_shelf
from fusiest.sweeps.runs.attempt import SearchTask, attempt


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (InternalError("the model says 2 J"), "internal error", "the model says 2 J"),
        (FusiestError("internal error is a word"), "bad design", "internal error is a word"),
        (ValueError("seven"), "internal error", "ValueError: seven"),
    ],
)
def test_mistakes_of_ours_are_told_from_bad_designs(
    error: Exception, status: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(fusiest.mapper, "search_with", fails)
    outcome = attempt(SearchTask(load("simple", "matmuls", N_EINSUMS=1), Options()))
    assert (outcome.status, outcome.reason) == (status, reason)


def test_internal_errors_come_from_other_processes_as_they_are() -> None:
    assert str(pickle.loads(pickle.dumps(InternalError("two")))) == "internal error: two"


def test_what_is_kept_for_others_is_not_what_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fronts of sizes go before a run is out of memory, also where tables were too large to be kept."""
    spec, shelf, search = load("simple", "matmuls", M=4, KN=4), own_shelf(), fusiest.mapper.search_with

    def needs_room(*arguments: Any, **named: Any) -> Any:
        if shelf.fronts:
            raise MemoryError
        return search(*arguments, **named)

    monkeypatch.setattr(fusiest.mapper, "search_with", needs_room)
    shelf.clear()
    shelf.fronts["another's"] = spec, SizeFront("GlobalBuffer")
    assert attempt(SearchTask(spec, Options(objective=("edp",), jobs=1), "a family")).status == "done"
