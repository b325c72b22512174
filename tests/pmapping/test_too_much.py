"""What would take for ever to search ends in a line that says what is too much."""

from __future__ import annotations

import pytest

from fusiest.base.errors import SpecError
from fusiest.pmapping.nest import spatial
from fusiest.pmapping.placements import placement_graph
from tests.load_text import load_text
from tests.pmapping.fronts import pmappings

DUMMY = "component_class: Dummy"


def spec(nodes: str, einsum: str = "B[m, n] = A[m, k] * W[k, n]") -> str:
    return f"""
arch:
  nodes:
  - !Memory {{name: DRAM, size: inf, {DUMMY}, tensors: {{keep: ~Intermediates, may_keep: All}}}}
{nodes}
  - !Compute {{name: MAC, {DUMMY}}}
workload: {{rank_sizes: {{M: 64, K: 64, N: 64}}, bits_per_value: 8, einsums: ["{einsum}"]}}
"""


MEMORIES = "\n".join(f"  - !Memory {{name: L{i}, size: 1e6, {DUMMY}, tensors: {{may_keep: All}}}}" for i in range(30))
FANOUTS = "  - !Container {name: PE, spatial: [" + ", ".join(f"{{name: X{i}, fanout: 2}}" for i in range(50)) + "]}"
INPUTS = "B[m] = " + " * ".join(f"A{i}[m]" for i in range(250))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (spec(MEMORIES), "ways to hold the 3 tensors of Einsum B in the 31 memories above MAC, too many to search"),
        (spec(FANOUTS), "ways to spread loops of Einsum B over the 50 fanout dimensions of PE, too many to search"),
        (spec(MEMORIES.split("\n")[0], INPUTS).replace("K: 64, N: 64", ""), "ways to hold the 251 tensors of Einsum B"),
    ],
)
def test_too_much(text: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement_graph, "MOST_HELD", 10_000)
    monkeypatch.setattr(spatial, "MOST_CHOICES", 100)
    with pytest.raises(SpecError, match=words):
        pmappings(load_text(text), "B")


def test_equal_ways_to_spread_loops_count_once() -> None:
    """2^50 instances in 50 dimensions: what matters is how far each of three variables is spread, 7 · 7 · 7 ways."""
    table = pmappings(load_text(spec(FANOUTS)), "B")
    assert len(table) == 1
