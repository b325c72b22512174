"""Placements as a graph: the same as if each were found by itself, also where there are too many to list."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

import fusiest
from fusiest.pmapping.explore import explore, paths
from fusiest.pmapping.placements.placement import graph_of, listed, placements
from fusiest.pmapping.placements.placement_graph import PlacementNode, placement_graph
from fusiest.pmapping.question import Effort, Question
from fusiest.spec import Path, Spec, architecture_names, path_nodes, placement_sets
from fusiest.spec import architecture as arch
from tests.load_text import load_text

FREE = "{may_keep: All}"
WORKLOAD = """
workload:
  bits_per_value: {All: 8}
  rank_sizes: {M: 8, K: 4, N: 4, P: 2}
  einsums: ["Y[m, n] = X[m, k] * W[k, n]", "Z[m, p] = Y[m, n] * V[n, p] * U[m, p]"]
"""


def spec_of(*tensors: str, fanout: int = 2) -> Spec:
    """An outermost memory, and one for each of these sections inside of it."""
    lines = [
        f"  - !Memory {{name: L{i}, size: {'inf' if i == 0 else 4096}, leak_power: 0, area: 0, tensors: {said}, "
        f"{f'spatial: [{{name: X, fanout: {fanout}}}], ' if i == 2 else ''}"
        f"actions: [{{name: read, energy: {9 - i}, throughput: 1}}, {{name: write, energy: {9 - i}, throughput: 1}}]}}"
        for i, said in enumerate(["{keep: ~Intermediates, may_keep: All}", *tensors])
    ]
    compute = "  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}"
    return load_text("\n".join(["arch:", "  nodes:", *lines, compute, WORKLOAD]))


def one_by_one(spec: Spec, path: Path) -> Iterator[tuple[frozenset[str], ...]]:
    """What components hold in each placement, every choice of each after every choice of those further out."""
    nodes = path_nodes(spec.require_arch().nodes, path.compute.name)
    assert nodes is not None
    begun = [(architecture_names(spec, path.einsum), tuple[frozenset[str], ...]())]
    for node in nodes:
        further = []
        for names, held in begun:
            above = frozenset[str]().union(*held)
            if not isinstance(node, arch.Memory):
                further.append((names, (*held, frozenset())))
                continue
            sets = placement_sets(node, names, above)
            for n in range(len(sets.may_keep) + 1):
                for extra in itertools.combinations(sorted(sets.may_keep), n):
                    chosen = sets.keep.union(extra)
                    further.append((names.choose(str(node.name), chosen), (*held, chosen)))
        begun = further
    return (held for _, held in begun if frozenset[str]().union(*held) >= path.einsum.accesses.keys())


@pytest.mark.parametrize(
    "tensors",
    [
        (FREE, FREE, FREE),
        ("{keep: ~L0, may_keep: All}", FREE, "{may_keep: L1}"),
        ("{keep: ~Above, may_keep: Above}", "{may_keep: ~L1}", "{keep: L1 & L2, may_keep: All}"),
        ("{may_keep: Outputs}", "{keep: Above - L1}", "{may_keep: L2 | Inputs}"),
    ],
)
def test_placements_are_those_found_one_by_one(tensors: tuple[str, ...]) -> None:
    spec = spec_of(*tensors)
    for path in (path for einsum in spec.info.einsums for path in paths(spec, einsum)):
        expected = list(one_by_one(spec, path))
        graph = placement_graph(spec, path)
        assert expected
        assert graph is not None
        assert [placement.held for placement in listed(graph)] == expected
        assert graph.count == len(expected)
        assert placements(spec, path) == tuple(listed(graph))


def graph_of_last(spec: Spec) -> tuple[Path, PlacementNode]:
    """Of an Einsum with four tensors."""
    (path,) = paths(spec, "Z")
    graph = graph_of(spec, path)
    assert graph is not None
    return path, graph


def test_many_placements_are_few_nodes() -> None:
    _, graph = graph_of_last(spec_of("{keep: ~L0, may_keep: All}", FREE, FREE, FREE))
    assert graph.count == 24 * 16**3
    assert sum(map(len, graph.levels())) < 100


@pytest.mark.parametrize("most", [1, 7, 100, 10_000])
def test_few_of_many_placements_are_among_them(most: int) -> None:
    path, graph = graph_of_last(spec_of("{keep: ~L0, may_keep: All}", FREE))
    every = {placement.held for placement in listed(graph)}
    few = [placement.held for placement in listed(graph.few(most))]
    assert 0 < len(few) <= most
    assert len(set(few)) == len(few)
    assert every.issuperset(few)
    where = graph.where(path.memories[0], frozenset("YZ"))
    assert where is not None
    assert {p.held for p in listed(where)} == {held for held in every if held[0] >= frozenset("YZ")}


def test_a_quick_look_at_very_many_placements_finds_something() -> None:
    spec = spec_of("{keep: ~L0, may_keep: All}", FREE, FREE, FREE)
    table = explore(spec, "Z", Question(apart=True), Effort(beam=300))
    assert len(table)
    assert fusiest.map(spec, "energy", time_limit=0.001, progress=False).mappings
