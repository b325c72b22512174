"""Specs as values: equal ones are found to be equal once, however often they are asked."""

from __future__ import annotations

import pickle

import pytest

import fusiest
from fusiest.spec.workload.einsums import Workload


def _spec(size: int = 16) -> fusiest.Spec:
    return fusiest.load("simple", "matmuls", N_EINSUMS=3, M=size, KN=16)


def test_equal_specs_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of a spec is asked for thousands of times, with another that is equal as well."""
    first, second, third = _spec(), _spec(), _spec()
    usual, compared = Workload.__eq__, []

    def counted(one: Workload, other: object) -> bool:
        compared.append(one)
        return usual(one, other)

    monkeypatch.setattr(Workload, "__eq__", counted)
    for _ in range(10):
        assert first == second
        assert second == first
    assert len(compared) == 1
    assert third == second
    assert third == first  # through the second
    assert len(compared) == 2


def test_other_specs_differ() -> None:
    first, other = _spec(), _spec(32)
    assert first != other
    assert first == _spec()
    assert first != other  # also if it is known to equal another
    changed = first.with_component("GlobalBuffer", size=1024)
    assert changed != first
    assert changed.with_component("GlobalBuffer", size="8 * 1024 * 1024") == first
    assert first != "a spec"


def test_equality_outlives_pickling() -> None:
    first, second = _spec(), _spec()
    assert first == second
    again = pickle.loads(pickle.dumps(second))
    assert again == first
    assert again != _spec(32)
