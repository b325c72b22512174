"""The collector is off during a search and while loading, and afterwards as it was before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import fusiest
from fusiest.base.collector import collector_paused
from fusiest.spec.reading import loading


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    yield
    gc.enable()


@pytest.mark.parametrize("on", [True, False])
def test_as_it_was(on: bool) -> None:
    (gc.enable if on else gc.disable)()
    with pytest.raises(ZeroDivisionError):
        _fail()
    assert gc.isenabled() == on


@collector_paused()
def _fail() -> None:
    assert not gc.isenabled()
    raise ZeroDivisionError


def test_searches_pause_it() -> None:
    seen: list[bool] = []
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=2, M=4, KN=4)
    fusiest.map(spec, "edp", progress=lambda step: seen.append(gc.isenabled()), jobs=1)
    assert seen
    assert not any(seen)
    assert gc.isenabled()


def test_loading_pauses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def check(spec: fusiest.Spec) -> fusiest.Spec:
        seen.append(gc.isenabled())
        return spec

    monkeypatch.setattr(loading, "check", check)
    fusiest.load("simple")
    assert seen == [False]
    assert gc.isenabled()
