"""What `map` finds is what it found before, bit for bit; a change that is meant to change it says so in the file's difference."""

from __future__ import annotations

from typing import Any

import pytest

from tests.golden_answers import answer, kept

KEPT = kept()


def _name(number: int) -> str:
    case, _ = KEPT[number]
    return f"{number}-{case.get('kind') or '-'.join(case['files'])}-{'-'.join(map(str, case['options'].values()))}"


@pytest.mark.parametrize("number", range(len(KEPT)), ids=_name)
def test_answers_are_as_they_were(number: int) -> None:
    case, expected = KEPT[number]
    found: dict[str, Any] = answer(case)
    assert found == expected


def test_there_are_many_and_most_have_mappings() -> None:
    assert len(KEPT) >= 80
    assert sum(len(expected["mappings"]) > 0 for _, expected in KEPT) >= 60
    assert sum(len(expected["mappings"]) > 1 for _, expected in KEPT) >= 15
