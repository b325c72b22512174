"""Nests that differ only by names are counted once: what is remembered is what counting gives."""

from __future__ import annotations

import pytest

import fusiest
from fusiest.mapper import anytime
from fusiest.model import accesses
from fusiest.model.evaluate import take_apart
from fusiest.model.nest import EinsumNest
from fusiest.spec import Spec


def unfused_nests(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> list[EinsumNest]:
    """Of the mapping that is known at once."""
    monkeypatch.setattr(anytime, "LEAST_SECONDS", 0.0)
    result = fusiest.map(spec, "edp", jobs=1, time_limit=0, windows="none", progress=False)
    return take_apart(spec, result.mappings[0].looptree).nests


@pytest.mark.parametrize(
    ("files", "defines", "shapes"),
    [
        (("simple", "matmuls"), {"N_EINSUMS": 5, "M": 64, "KN": 64}, 3),
        (("tpu_v4i", "gpt3_6.7B"), {"BATCH_SIZE": 1, "N_TOKENS": 64}, 9),
        (("eyeriss", "resnet18_block"), {}, 3),
    ],
)
def test_what_is_remembered_is_what_counting_gives(
    files: tuple[str, ...], defines: dict[str, object], shapes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    nests = unfused_nests(fusiest.load(*files, defines=defines), monkeypatch)
    remembered: dict[object, accesses._CountedNest] = {}
    monkeypatch.setattr(accesses, "_COUNTED", remembered)
    for nest in [*nests, *nests]:
        counted, again = accesses.count_accesses(nest), accesses._count(nest)
        assert counted == again
        assert list(counted.total) == list(again.total)
    assert len(remembered) <= shapes < len(nests)


def test_little_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=3, M=8, KN=16)
    monkeypatch.setattr(accesses, "_MOST_COUNTED", 1)
    for nest in unfused_nests(spec, monkeypatch):
        assert accesses.count_accesses(nest) == accesses._count(nest)
        assert len(accesses._COUNTED) <= 1
