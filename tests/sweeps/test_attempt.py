"""What becomes of a run that fails is told by what was raised, not by its words."""

from __future__ import annotations

import pickle

import pytest

import fusiest.mapper
from fusiest import load
from fusiest.errors import FusiestError, InternalError
from fusiest.mapper import Options
from fusiest.sweeps.attempt import SearchTask, attempt


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

    monkeypatch.setattr(fusiest.mapper, "run", fails)
    outcome = attempt(SearchTask(load("simple", "matmuls", N_EINSUMS=1), Options()))
    assert (outcome.status, outcome.reason) == (status, reason)


def test_internal_errors_come_from_other_processes_as_they_are() -> None:
    assert str(pickle.loads(pickle.dumps(InternalError("two")))) == "internal error: two"
