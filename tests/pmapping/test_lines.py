"""Cutoffs by lines: a table within them has every pmapping that is below one of them, or one that is no worse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiest.base.errors import SpecError
from fusiest.pmapping import Cutoff, Effort, Question, explore
from fusiest.pmapping.lattice import fanout, growth
from fusiest.pmapping.pareto import Floats
from fusiest.pmapping.table import Rows
from tests.mapper_strategies import MapperCase, mapper_cases
from tests.proving import TALLY, cases, floors

ROUNDING = 1e-9


def below(rows: Rows, lines: Floats, share: float) -> np.ndarray:
    """Rows whose weighted sum is below this share of some line."""
    sums = (by_energy * rows.energy + by_latency * rows.latency < most * share for by_energy, by_latency, most in lines)
    return np.logical_or.reduce(list(sums))


def covered(rows: Rows, number: int, others: Rows) -> bool:
    """Whether one of the others has the same tiles and is no worse than a row."""
    same = (others.tiles == rows.tiles[number]).all(axis=1)
    ours, theirs = criteria(rows.take(np.array([number])))[0], criteria(others)
    return bool((same & (theirs <= ours * (1 + ROUNDING)).all(axis=1)).any())


def criteria(rows: Rows) -> Floats:
    """Energy, latency, and space at or above each fusion level."""
    space = np.concatenate([rows.persistent[:, :, None], rows.bits], axis=2).cumsum(axis=2)
    return np.column_stack([rows.energy, rows.latency, space.reshape(len(rows), -1)])


RATIOS = st.sampled_from([(1.0, 1.0), (4.0, 1.0), (1.0, 4.0), (1.0, 0.01)])


@floors(120, kept=0.6, left_out=0.3, fused=0.1)
@cases(120, proving=5000)
@given(
    case=mapper_cases(unusual=True),
    ratios=st.lists(RATIOS, min_size=1, max_size=2),
    share=st.sampled_from([0.0, 0.02, 0.1, 0.3, 0.7]),
    few=st.sampled_from([0, 16, 10**9]),
    leaf=st.sampled_from([1, 12]),
    needed=st.booleans(),
)
def test_a_table_within_lines_lacks_nothing_below_them(
    case: MapperCase, ratios: list[tuple[float, float]], share: float, few: int, leaf: int, needed: bool
) -> None:
    """`few`: rows are grown one by one always, as usual, never. `leaf`: pairs at fanouts are compared one by one, in boxes."""
    question = Question(needed=needed)
    try:
        whole = explore(case.spec, case.einsum, question)
    except SpecError:
        return
    TALLY["compared"] += 1
    if not whole.groups:
        assert not explore(
            case.spec, case.einsum, question, Effort(cutoff=Cutoff(lines=np.array([[1.0, 1.0, np.inf]])))
        ).groups
        return
    energies = np.concatenate([rows.energy for rows in whole.groups.values()])
    latencies = np.concatenate([rows.latency for rows in whole.groups.values()])
    lines = []
    for by_energy, by_latency in ratios:
        weights = by_energy / max(energies.min(), 1e-30), by_latency / max(latencies.min(), 1e-30)
        sums = weights[0] * energies + weights[1] * latencies
        lines.append((*weights, float(np.quantile(sums, share)) * (1 + 1e-6)))
    cutoff = Cutoff(lines=np.array(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth, "_FEW", few)
        patch.setattr(fanout, "_FEW_PAIRS", -1 if leaf == 1 else 200_000)
        patch.setattr(fanout, "_LEAF", leaf)
        cut = explore(case.spec, case.einsum, question, Effort(cutoff=cutoff))
    TALLY["kept"] += bool(len(cut))
    TALLY["left_out"] += len(cut) < len(whole)
    TALLY["fused"] += any(form.zones for form in cut.groups)
    for form, rows in whole.groups.items():
        for number in np.flatnonzero(below(rows, cutoff.lines, 1 - 1e-9)):
            assert form in cut.groups, form
            assert covered(rows, int(number), cut.groups[form]), (form, rows.energy[number], rows.latency[number])
    for form, rows in cut.groups.items():
        assert below(rows, cutoff.lines, 1 + ROUNDING).all()
        for number in range(len(rows)):
            assert covered(rows, number, whole.groups[form])
