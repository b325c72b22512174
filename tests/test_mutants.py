"""Each edit of `make mutants` meets its text in the source exactly once, and its tests exist."""

from __future__ import annotations

import pytest
from mutants.__main__ import ROOT
from mutants.cases import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.file)
def test_an_edit_meets_its_text_once(mutant: Mutant) -> None:
    assert (ROOT / "src" / "fusiest" / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
    assert mutant.old != mutant.new
    assert all((ROOT / test.split("::")[0]).exists() for test in mutant.tests)
