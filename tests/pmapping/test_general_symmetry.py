"""Nests and combinations that are each other's image are searched once, and nothing is lost by that."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from fusiest.pmapping.chains.branch.symmetry import images
from fusiest.pmapping.chains.nest_tiles import GeneralNests
from fusiest.pmapping.chains.terms import Terms
from fusiest.pmapping.explore import explore
from fusiest.pmapping.question import Question
from tests.load_text import load_text

SQUARE = """
arch:
  nodes:
  - !Memory
    {name: Main, size: inf, tensors: {keep: ~Intermediates}, leak_power: 0,
     actions: [{name: read, energy: 50, throughput: 1}, {name: write, energy: 50, throughput: 1}]}
  - !Memory
    {name: Buffer, size: 8 * 14, tensors: {keep: All}, leak_power: 0,
     actions: [{name: read, energy: 1, throughput: 4}, {name: write, energy: 1, throughput: 4}]}
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  bits_per_value: {All: 8}
  rank_sizes: {P: 5, Q: 5, R: 2, S: 2}
  einsums:
  - name: E
    tensor_accesses:
    - {name: I, projection: {H: p + r, X: q + s}}
    - {name: W, projection: [r, s]}
    - {name: O, projection: [p, q], output: True}
"""


def test_nothing_is_lost() -> None:
    spec, asked = load_text(SQUARE), Question(imperfect=True)
    with patch.object(GeneralNests, "is_beaten", lambda _: False):
        with patch.object(GeneralNests, "swappings", []):
            every = explore(spec, "E", asked)
        looked: list[bool] = []
        is_image = GeneralNests.is_image

        def counted(self: GeneralNests, other: GeneralNests) -> bool:
            looked.append(is_image(self, other))
            return looked[-1]

        with patch.object(GeneralNests, "is_image", counted):
            found = explore(spec, "E", asked)
    assert any(looked)
    (expected,), (rows,) = every.groups.values(), found.groups.values()
    assert sorted(rows.energy) == pytest.approx(sorted(expected.energy))
    assert sorted(rows.latency) == pytest.approx(sorted(expected.latency))


def test_weights_must_be_alike() -> None:
    def terms(weight: float) -> Terms:
        made = Terms(("p", "q"))
        made.add([(1.0, (("tiles", "c", 0), ("one", "", 0)))], {"energy": 1.0})
        made.add([(1.0, (("one", "", 0), ("tiles", "c", 0)))], {"energy": weight})
        return made

    swap = ((0, 1),)
    assert list(images(terms(1.0), terms(1.0), [swap])) == [swap]
    assert not list(images(terms(2.0), terms(2.0), [swap]))
