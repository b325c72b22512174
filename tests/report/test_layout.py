"""The drawing of a workload's graph: edges go down, boxes do not meet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fusiest.report.layout import MOST_PER_ROW, Edge, layered


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], list[Edge]]:
    nodes = [f"E{i}" for i in range(draw(st.integers(1, 14)))]
    pairs = [(a, b) for j, b in enumerate(nodes) for a in nodes[:j]]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=20)) if pairs else []
    return nodes, [(a, b, f"t{i}") for i, (a, b) in enumerate(chosen)]


@given(graphs())
def test_layered(graph: tuple[list[str], list[Edge]]) -> None:
    nodes, edges = graph
    layout = layered(nodes, edges)
    assert list(layout.places) == nodes
    assert len(set(layout.places.values())) == len(nodes)
    for y in {y for _, y in layout.places.values()}:
        assert sum(1 for _, other in layout.places.values() if other == y) <= MOST_PER_ROW
    for (above, below, _), curve in zip(edges, layout.curves.values(), strict=True):
        assert curve[0] == layout.places[above]
        assert curve[-1] == layout.places[below]
        assert [y for _, y in curve] == [curve[0][1] + i for i in range(len(curve))]
        assert not set(curve[1:-1]) & set(layout.places.values())
