"""Timeloop's own outputs, where they are at hand: every count, cycle number and energy is equal or explained."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import fusiest
from fusiest.timeloop import import_timeloop
from fusiest.timeloop.differences import SENT_UP, Counted

SHARED = Path(__file__).parents[3] / "shared" / "timeloop"
REFERENCES = sorted(file.parent.name for file in SHARED.glob("*/parsed-processed-input.yaml"))

pytestmark = pytest.mark.skipif(not REFERENCES, reason="no data beside the project: ../shared")


def numbers(name: str, end: str = "") -> Counted:
    files = [str(file) for file in sorted((SHARED / name).iterdir()) if file.name.endswith(end)]
    found = import_timeloop(files).report.numbers
    assert found is not None
    return found


@pytest.mark.parametrize("name", REFERENCES)
def test_all_numbers_are_those_of_timeloop(name: str) -> None:
    with_statistics, by_rules = numbers(name), numbers(name, ".yaml")
    assert with_statistics.statistics is not None
    assert len(with_statistics.counts) >= 6
    for count, rule in zip(with_statistics.counts, by_rules.counts, strict=True):
        assert count.equal or count.difference == SENT_UP
        assert math.isclose(count.timeloop, rule.timeloop), "the named differences say exactly how much"
    assert by_rules.timeloop_cycles == with_statistics.statistics.cycles
    # Statistics give picojoules of each compute with two digits.
    assert math.isclose(by_rules.timeloop_energy, with_statistics.statistics.energy, rel_tol=2e-6)


def test_how_many_numbers_are_equal() -> None:
    counts = [count for name in REFERENCES for count in numbers(name).counts]
    if len(REFERENCES) == 11:
        assert (len(counts), sum(count.equal for count in counts)) == (158, 142)


@pytest.mark.parametrize(
    "name", [name for name in REFERENCES if name in ("eyeriss-like", "mapper-freebypass", "simple-output-stationary")]
)
def test_the_mapper_finds_no_worse_than_timeloops(name: str) -> None:
    """By the same counting: Timeloop's mapping evaluated here."""
    found = import_timeloop([str(file) for file in sorted((SHARED / name).glob("*.yaml"))])
    best = fusiest.map(found.spec, objective="energy").best("energy")
    assert best.energy <= fusiest.evaluate(found.spec).energy * (1 + 1e-12)


@pytest.mark.parametrize("name", ["eyeriss_like", "simple_output_stationary"])
def test_architectures_as_users_write_them(name: str, tmp_path: Path) -> None:
    folder = SHARED / name.replace("_", "-")
    processed = folder / "parsed-processed-input.yaml"
    text = processed.read_text(encoding="utf-8")
    problem = tmp_path / "problem.yaml"
    problem.write_text(text[text.index("\nproblem:") : text.index("\ncompound_components:")], encoding="utf-8")
    rest = [str(folder / f"timeloop-mapper.{end}.yaml") for end in ("ERT", "ART", "map")]
    components = sorted(str(file) for file in (SHARED / "sources" / "_components").iterdir())
    written = import_timeloop([str(SHARED / "sources" / name / "arch.yaml"), *components, str(problem), *rest])
    assert written.spec.to_yaml() == import_timeloop([str(processed), *rest]).spec.to_yaml()
