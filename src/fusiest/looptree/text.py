"""A LoopTree as indented text, and the words for its nodes that every drawing uses.

    [A, B in DRAM]
    for m in 0..4 (tile 2)
      [A in Buf]

It shows a mapping as it is written and never judges it: an invalid mapping must be drawable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from fusiest.looptree.nodes import (
    Compute,
    HolderNode,
    Loop,
    LoopTree,
    Node,
    Sequential,
    Spatial,
    Temporal,
    Toll,
    tiling_in,
    variable_in,
)

BoundsByEinsum: TypeAlias = Mapping[str, Mapping[str, int]]
"""Einsum → rank variable → bound."""

_UNICODE = ("├─ ", "│  ", "└─ ", "   ")
_ASCII = ("|- ", "|  ", "`- ", "   ")
_PLAIN = ("• ", "  ", "• ", "  ")


def text(tree: LoopTree, bounds: BoundsByEinsum | None = None, unicode: bool = True) -> str:
    """The tree as indented text, a line per node; loops show their iterations where the bounds are known.

    >>> from fusiest.looptree.nodes import Storage
    >>> nodes = (Storage(tensors=("A",), component="DRAM"), Temporal(rank_variable="m", tile_shape=2))
    >>> print(text(LoopTree(nodes=(*nodes, Compute(einsum="A", component="MAC"))), {"A": {"m": 8}}))
    [A in DRAM]
    for m in 0..4 (tile 2)
      A on MAC
    """
    return "\n".join(_lines(tree.nodes, (), bounds or {}, _UNICODE if unicode else _ASCII))


def outline(tree: LoopTree, bounds: BoundsByEinsum | None = None) -> str:
    """The tree as `text` draws it, with one sign for every branch, so that equal branches are equal lines."""
    return "\n".join(_lines(tree.nodes, (), bounds or {}, _PLAIN))


def _lines(
    nodes: tuple[Node, ...], above: tuple[Loop, ...], bounds: BoundsByEinsum, glyphs: tuple[str, ...]
) -> list[str]:
    users = einsums(nodes)
    lines: list[str] = []
    pad = ""
    for node in nodes:
        if isinstance(node, Sequential):
            fan = _fan([_lines(branch.nodes, above, bounds, glyphs) for branch in node.nodes], glyphs)
            return lines + [pad + line for line in fan]
        if isinstance(node, Compute):
            lines.append(f"{pad}{node.einsum} on {node.component}")
        elif isinstance(node, Temporal | Spatial):
            head = loop_words(node, iterations(node, above, users, bounds))
            lines.append(f"{pad}{head} ({tile_words(node, users)}){place_words(node)}")
            above = (*above, node)
            pad += "  "
        else:
            lines.append(f"{pad}[{', '.join(node.tensors)} {holder_words(node)}]")
    return lines


def _fan(branches: list[list[str]], glyphs: tuple[str, ...]) -> list[str]:
    tee, bar, corner, blank = glyphs
    lines = []
    for i, branch in enumerate(branches):
        head, tail = (tee, bar) if i < len(branches) - 1 else (corner, blank)
        lines += [(tail if j else head) + line for j, line in enumerate(branch)]
    return lines


def einsums(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The Einsums that are computed under these nodes, in execution order."""
    last: Node | None = None
    for last in nodes:
        if isinstance(last, Sequential):
            return tuple(einsum for branch in last.nodes for einsum in einsums(branch.nodes))
    return (last.einsum,) if isinstance(last, Compute) else ()


def first_user(loop: Loop, einsums: Iterable[str], bounds: BoundsByEinsum) -> tuple[str, str] | None:
    """The first of the Einsums for which the loop steps a variable with a known bound, and that variable.

    One that steps it in even tiles comes before those that make windows.
    """
    windowed: tuple[str, str] | None = None
    for einsum in einsums:
        variable, tiling = variable_in(loop, einsum), tiling_in(loop, einsum)
        if variable is not None and tiling is not None and variable in bounds.get(einsum, {}):
            if not tiling.windowed:
                return einsum, variable
            windowed = windowed or (einsum, variable)
    return windowed


def iterations(loop: Loop, above: Iterable[Loop], einsums: Iterable[str], bounds: BoundsByEinsum) -> int | None:
    """⌈extent above / tile⌉ for the first of the Einsums that has the variable; None if no bound is known."""
    user = first_user(loop, einsums, bounds)
    if user is None:
        return None
    einsum, variable = user
    extent = bounds[einsum][variable]
    for outer in above:
        tiling = tiling_in(outer, einsum)
        if variable_in(outer, einsum) == variable and tiling is not None:
            extent = max(tiling.lengths(extent, None))
    tiling = tiling_in(loop, einsum)
    assert tiling is not None
    return tiling.last(extent, None) + 1


def tile_words(loop: Loop, einsums: Iterable[str]) -> str:
    """`tile 2`, or what it is in each Einsum below, where some make windows or tiles differ.

    >>> from fusiest.base.frozen import FrozenDict
    >>> sizes = {"tile_shape": FrozenDict({"A": 4, "B": 4, "C": 2}), "initial_tile_shape": FrozenDict({"A": 6})}
    >>> tile_words(Temporal(rank_variable="h", **sizes, step=FrozenDict({"B": 2})), ("A", "B", "C"))
    'tile 6, then 4 in A, 4 every 2 in B, 2 in C'
    """
    users: dict[str, list[str]] = {}
    for einsum in einsums:
        tiling = tiling_in(loop, einsum)
        if tiling is not None:
            words = str(tiling.tile) if tiling.first == tiling.tile else f"{tiling.first}, then {tiling.tile}"
            words += f" every {tiling.step}" if tiling.step != tiling.tile else ""
            users.setdefault(words, []).append(einsum)
    if not users and isinstance(loop.tile_shape, int):
        users[str(loop.tile_shape)] = []
    if len(users) < 2:
        return f"tile {', '.join(users)}"
    return "tile " + ", ".join(f"{words} in {' and '.join(names)}" for words, names in users.items())


def rank_words(loop: Loop, index: Callable[[str], str] = str) -> str:
    """`m`, or `m (K, V) = p (QK)` where Einsums name the shared rank differently."""
    if isinstance(loop.rank_variable, str):
        return index(loop.rank_variable)
    users: dict[str, list[str]] = {}
    for einsum, variable in loop.rank_variable.items():
        users.setdefault(variable, []).append(einsum)
    if len(users) == 1:
        return index(next(iter(users)))
    return " = ".join(f"{index(variable)} ({', '.join(names)})" for variable, names in users.items())


def loop_words(loop: Loop, iterations: int | None) -> str:
    """`for m in 0..4`, `parallel-for m in 0..4`, or without the range if it is not known."""
    keyword = "parallel-for" if isinstance(loop, Spatial) else "for"
    return f"{keyword} {rank_words(loop)}" + ("" if iterations is None else f" in 0..{iterations}")


def place_words(loop: Loop) -> str:
    """` on PE.X` for a spatial loop, nothing for a temporal one."""
    return f" on {loop.component}.{loop.name}" if isinstance(loop, Spatial) else ""


def holder_words(holder: HolderNode) -> str:
    """`in DRAM`, `in DRAM, persistent`, or `through NoC` for a Toll."""
    if isinstance(holder, Toll):
        return f"through {holder.component}"
    return f"in {holder.component}" + (", persistent" if holder.persistent else "")
