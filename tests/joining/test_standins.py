"""Equal layers: an Einsum that is joined in another's stead is joined just as it would be itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import fusiest
from fusiest.joining import Coarse, JoinPass, JoinProblem, OpenCompatibility, levels, potential
from fusiest.joining.meeting.shared_nodes import ledger
from fusiest.joining.rows.incumbents import Incumbents
from fusiest.mapper.options import Options
from fusiest.mapper.tables import explore_all, grouped
from fusiest.spec import Spec

LAYERS = """
workload:
  rank_sizes: {M: 4, P: 4, D: 4, E: 2}
  bits_per_value: {All: 8}
  einsums:
{% for l in range(3) %}
  - "Q{{ l }}[m, e] = X{{ l }}[m, d] * WQ{{ l }}[d, e]"
  - "K{{ l }}[m, e] = X{{ l }}[m, d] * WK{{ l }}[d, e]"
  - "S{{ l }}[m, p] = Q{{ l }}[m, e] * K{{ l }}[M: p, e]"
  - "X{{ l + 1 }}[m, d] = S{{ l }}[m, p] * X{{ l }}[M: p, d]"
{% endfor %}
"""


@dataclass
class ComparedJoins:
    """How many joins had a stand-in, and how many ways to join were the same."""

    joins: int = 0
    ways: int = 0


def compare(problem: JoinProblem, finished: frozenset[str], einsum: str, before: OpenCompatibility) -> int:
    """All ways to join an Einsum's groups to a partial mapping: by itself, and by its stand-in. How many there are."""
    stand_in, live, count = problem.stand_in(finished, einsum), problem.live_around(finished, einsum), 0
    seen = stand_in.renamed(before)
    assert stand_in.own(seen) == before
    for n, (_, rows) in enumerate(problem.groups[einsum]):
        own = problem.joints(before, einsum, n, live)
        others = problem.joints(seen, stand_in.einsum, n, stand_in.live)
        assert [stand_in.own(joint.compatibility) for joint in others] == [joint.compatibility for joint in own]
        for joint, other in zip(own, others, strict=True):
            count += 1
            for name in ("matched", "open_boundaries", "einsum_boundaries", "zones", "open_zones", "tiles"):
                assert getattr(joint, name) == getattr(other, name)
            charges, other_charges = (
                list(problem.charges.of(j, ledger(j.spread, problem.memories), rows)) for j in (joint, other)
            )
            assert [charge[:2] for charge in charges] == [charge[:2] for charge in other_charges]
            assert all(np.array_equal(a.bits, b.bits) for a, b in zip(charges, other_charges, strict=True))
    return count


def compare_all(spec: Spec) -> ComparedJoins:
    """Of all partial mappings that a coarse pass over all orders comes by."""
    options = Options(objective=("energy", "latency"), jobs=1)
    problem = grouped(spec, options, explore_all(spec, options, lambda step: None))
    costs, compared = potential(problem), ComparedJoins()
    how = JoinPass(costs, costs.bounds(problem), Incumbents(options.minimized), Coarse(most=20), True)
    for level in levels(problem, how, lambda: None):
        for state in level.states:
            for einsum in problem.ready(state.finished):
                if problem.stand_in(state.finished, einsum).einsum != einsum:
                    compared.joins += 1
                    compared.ways += sum(compare(problem, state.finished, einsum, c) for c, _ in state.groups)
    return compared


def test_layers_are_joined_as_those_before(tmp_path: Path) -> None:
    """The second layer is joined to something and the first is not. So the third stands under the names of the second: Q and K in
    either order, S and X."""
    (tmp_path / "layers.yaml").write_text(LAYERS, encoding="utf-8")
    compared = compare_all(fusiest.load("simple", tmp_path / "layers.yaml", GlobalBufferSize=256))
    assert compared == ComparedJoins(joins=6, ways=compared.ways)
    assert compared.ways > 500


def test_a_chain_is_joined_as_its_beginning() -> None:
    """Matmul1 to Matmul8 as the first that is joined to another, but not where names change their order: Matmul10 is before Matmul9."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=13, M=8, KN=8, GlobalBufferSize=512)
    compared = compare_all(spec)
    assert compared.joins == 8
    assert compared.ways > 100
