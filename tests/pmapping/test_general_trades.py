"""What is limited makes other things dear: bounds of the search, which lose nothing."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from fusiest.pmapping.chains.branch import inputs
from fusiest.pmapping.chains.branch.trades import Trades, make_trades
from fusiest.pmapping.explore import explore
from fusiest.pmapping.question import Question
from fusiest.spec import Spec
from tests.load_text import load_text
from tests.pmapping.test_general_symmetry import SQUARE

ARRAY = """- !Container {name: Array, spatial: [{name: X, fanout: 3, may_reuse: All}, {name: Y, fanout: 2, may_reuse: All}]}
  - !Memory
    {name: Register, size: 8 * 2, tensors: {keep: output}, leak_power: 0,
     actions: [{name: read, energy: 0.1, throughput: inf}, {name: write, energy: 0.1, throughput: inf}]}
  - !Compute"""


def costs(spec: Spec) -> list[tuple[float, float]]:
    table = explore(spec, "E", Question(imperfect=True, needed=True))
    return [cost for rows in table.groups.values() for cost in sorted(zip(rows.energy, rows.latency, strict=True))]


@pytest.mark.parametrize("stride", [1, 2])
def test_nothing_is_lost(stride: int) -> None:
    """A convolution of a prime size on an array on which any variable may be spread."""
    text = SQUARE.replace("- !Compute", ARRAY).replace("- name: E", "- name: E\n    renames: {output: O}")
    text = text.replace("p + r", f"{stride} * p + r").replace("q + s", f"{stride} * q + s").replace("Q: 5", "Q: 7")
    used: list[int] = []

    def made(*arguments: object) -> Trades:
        trades = make_trades(*arguments)  # type: ignore[arg-type]
        used.append(len(trades.pairs))
        return trades

    with patch.object(inputs, "make_trades", made), patch.object(inputs, "_UNTRADED", 0):
        found = costs(load_text(text))
    assert sum(used) > 0
    with patch.object(inputs, "_UNTRADED", np.inf):
        assert np.array(costs(load_text(text))) == pytest.approx(np.array(found), rel=1e-9)
