"""Where the Einsums of a workload stand in a drawing: rows by dependency, ordered so that few edges cross.

An edge that spans several rows is given a place in each of them, so that it passes between the boxes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_PER_ROW = 5
_SWEEPS = 4

Edge = tuple[str, str, str]
"""Producer, consumer, tensor."""


@dataclass(frozen=True, slots=True)
class Layout:
    """x from 0 to 1 and y in rows: of each Einsum, and along each edge."""

    places: dict[str, tuple[float, float]]
    curves: dict[Edge, list[tuple[float, float]]]


def layered(nodes: Sequence[str], edges: Sequence[Edge]) -> Layout:
    """`nodes` are listed in an order that respects the edges.

    >>> layered(["A", "B", "C"], [("A", "B", "t"), ("A", "C", "t")]).places
    {'A': (0.5, 0.0), 'B': (0.25, 1.0), 'C': (0.75, 1.0)}
    """
    row = _rows(nodes, edges)
    rows: list[list[str]] = [[] for _ in range(max(row.values(), default=0) + 1)]
    for node in nodes:
        rows[row[node]].append(node)
    chains = {edge: _chain(i, edge, row) for i, edge in enumerate(edges)}
    for chain in chains.values():
        for offset, dummy in enumerate(chain[1:-1], start=1):
            rows[row[chain[0]] + offset].append(dummy)
    _untangle(rows, list(chains.values()))
    places = {name: ((i + 0.5) / len(r), float(y)) for y, r in enumerate(rows) for i, name in enumerate(r)}
    curves = {edge: [places[name] for name in chain] for edge, chain in chains.items()}
    return Layout({node: places[node] for node in nodes}, curves)


def _rows(nodes: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    """Each Einsum below all that it needs, and in a row that is not yet full."""
    row: dict[str, int] = {}
    filled: dict[int, int] = {}
    for node in nodes:
        y = max((row[a] + 1 for a, b, _ in edges if b == node), default=0)
        while filled.get(y, 0) >= MOST_PER_ROW:
            y += 1
        row[node] = y
        filled[y] = filled.get(y, 0) + 1
    return row


def _chain(number: int, edge: Edge, row: Mapping[str, int]) -> list[str]:
    """An edge as its ends and, between them, a stand-in per row."""
    above, below, _ = edge
    return [above, *(f"\0{number}/{y}" for y in range(row[above] + 1, row[below])), below]


def _untangle(rows: list[list[str]], chains: list[list[str]]) -> None:
    """Order each row by the mean place of its neighbours, downwards and upwards in turn."""
    near: dict[str, list[str]] = {}
    for chain in chains:
        for a, b in zip(chain, chain[1:], strict=False):
            near.setdefault(a, []).append(b)
            near.setdefault(b, []).append(a)
    for sweep in range(_SWEEPS):
        for r in rows if sweep % 2 == 0 else reversed(rows):
            at = {name: (i + 0.5) / len(own) for own in rows for i, name in enumerate(own)}

            def mean(name: str, at: Mapping[str, float] = at) -> float:
                return sum(at[n] for n in near.get(name, [name])) / len(near.get(name, [name]))

            r.sort(key=mean)
