"""Mappings as C against NumPy's values and the model: every value, every count, every high-water mark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import fusiest
from fusiest.code.lowering.statements import Finish, If, Let, Move, Point
from tests.code.compiled import Batch, Job, needs_compiler
from tests.code.formulas import with_formulas
from tests.drawing.dice import RandomDice
from tests.drawing.windows import draw_windows
from tests.proving import PROVE
from tests.strategies import Case, draw_case

pytestmark = needs_compiler
CHUNK = 200
CHUNKS = 8 if PROVE else 1


def drawn(kind: str, seeds: range) -> list[Case]:
    """Mappings as the model's tests draw them, one for each seed: with products, or with formulas of all kinds."""
    found = []
    for seed in seeds:
        dice = RandomDice(seed)
        case = draw_windows(dice, wrong=0) if "windows" in kind else draw_case(dice)
        found.append(Case(with_formulas(dice, case.spec), case.tree) if "formulas" in kind else case)
    return found


def seen(job: Job) -> set[str]:
    """What a program has that others need not have."""
    found = set[str]()
    for statement in job.program.statements:
        match statement:
            case Move():
                found |= {name for name in ("again", "alone", "through") if getattr(statement, name)}
                found |= {"gaps" for side in statement.box if side.count != (side.low, side.end)}
                found |= {"multicast" for tally in statement.tallies if tally.once}
            case Point():
                found |= {name for name in ("outside", "alone") if getattr(statement, name)}
                found |= {"copies" for tally in statement.tallies if tally.distinct}
                found |= {"begins"} if statement.body.begins is not None else set()
            case Finish() | If() | Let():
                found.add(type(statement).__name__)
    found |= {"rings" for array in job.program.arrays if array.ring is not None}
    found |= {"lanes" for array in job.program.arrays if array.lanes}
    return found


WANTED = {
    "plain": {"again": 0.2, "through": 0.1, "gaps": 0.08, "outside": 0.1, "rings": 0.08, "lanes": 0.2, "Let": 0.15,
              "copies": 0.04, "alone": 0.05, "multicast": 0.04},
    "windows": {"rings": 0.6, "outside": 0.3, "Let": 0.5, "gaps": 0.1},
    "formulas": {"Finish": 0.3, "begins": 0.1, "outside": 0.1, "again": 0.15},
    "windows formulas": {"Finish": 0.3, "rings": 0.6, "outside": 0.2},
}  # fmt: skip
"""Of each kind of random mappings, shares that have such statements; the tests ask for half of them."""
SHARE = {"plain": 0.35, "windows": 0.15, "formulas": 0.2, "windows formulas": 0.05}


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("kind", WANTED)
def test_random_mappings(kind: str, chunk: int, tmp_path: Path) -> None:
    """In the suite some 150 mappings, to prove 1,600 of each kind."""
    count = CHUNK if PROVE else round(CHUNK * SHARE[kind])
    batch, tally = Batch(), Counter[str]()
    for case in drawn(kind, range(chunk * CHUNK, chunk * CHUNK + count)):
        tally.update(seen(batch.add(case.spec, case.tree, case)))
    batch.run(tmp_path)
    assert {name: tally[name] for name, share in WANTED[kind].items() if tally[name] < share * count / 2} == {}


@pytest.mark.parametrize("kind", WANTED)
def test_arrays_are_what_storage_nodes_reserve(kind: str) -> None:
    """To the last bit: of what Einsums exchange, they may reserve more, for padding that readers touch."""
    compared = 0
    for case in drawn(kind, range(60)):
        for array in Batch().add(case.spec, case.tree).program.arrays:
            bits = np.prod(array.shape, dtype=np.int64) * array.width
            compared += 1
            assert bits <= array.bits if array.backing else bits == pytest.approx(array.bits, rel=1e-12), array
    assert compared > 60


@pytest.mark.parametrize("wrong", ["COUNT(", " = ", "HOLD("])
def test_one_wrong_line_is_noticed(wrong: str, tmp_path: Path) -> None:
    """A transfer that is not counted, a value that is not moved, room that is not taken."""
    batch, spec = Batch(), fusiest.load("simple", "matmuls", "fused_matmuls_to_simple", N_EINSUMS=2, M=4, KN=4)
    assert spec.mapping is not None
    job = batch.add(spec, spec.mapping)
    lines = job.text.splitlines()
    place = next(
        i for i, line in enumerate(lines) if wrong in line and not line.lstrip().startswith(("for", "//", "const"))
    )
    job.text = "\n".join([*lines[:place], ";", *lines[place + 1 :]]) + "\n"
    with pytest.raises(AssertionError):
        batch.run(tmp_path, ("-std=c99", "-O1"))
