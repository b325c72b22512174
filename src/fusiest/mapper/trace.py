"""From a row of the last join back to its LoopTree."""

from __future__ import annotations

from fusiest.looptree.nodes import LoopTree
from fusiest.mapper.joiner import Joiner, State
from fusiest.mapper.tree import Step, build_tree
from fusiest.pmapping.table import FusedLoop

Pick = tuple[State, int, str, int, int, int]
"""State before, its form, the Einsum, its form and row, and the way of joining."""


def trace(joiner: Joiner, states: dict[frozenset[str], State], row: int) -> tuple[tuple[str, ...], LoopTree]:
    """The order of Einsums and the tree of one complete row."""
    found = picks(joiner, states, row)
    return tuple(pick[2] for pick in found), picked_tree(joiner, found)


def picks(joiner: Joiner, states: dict[frozenset[str], State], row: int) -> list[Pick]:
    """The joins that led to one complete row."""
    state = states[frozenset(joiner.order)]
    form = 0
    found: list[Pick] = []
    while state.done:
        rows = state.rows[form]
        done, einsum = state.pairs[int(rows.source[row])]
        right = int(rows.right_form[row]), int(rows.right_row[row]), int(rows.joint[row])
        form, row = int(rows.left_form[row]), int(rows.left_row[row])
        state = states[done]
        found.append((state, form, einsum, *right))
    return found[::-1]


def picked_tree(joiner: Joiner, picks: list[Pick]) -> LoopTree:
    """The tree of these forms and rows."""
    steps: list[Step] = []
    numbering: list[dict[FusedLoop, int]] = []
    backed: dict[str, tuple[str, frozenset[int]]] = {}
    fresh = iter(range(1 << 60))
    open_numbers: list[int] = []
    for state, left, einsum, right, right_row, way in picks:
        form, rows = joiner.right[einsum][right]
        view = joiner.views[einsum]
        shared = joiner.live(state.done) & frozenset(view.info.accesses)
        joint = joiner.joints(state.forms[left], form, einsum, shared, joiner.live(state.done | {einsum}))[way]
        tiles = {v: int(rows.tiles[right_row, i]) for i, v in enumerate(form.loops)}
        old = {form.loops[b]: open_numbers[a] for a, b in joint.matched}
        numbers = {v: old[v] if v in old else next(fresh) for v in form.loops}
        origin = joiner.tables[einsum].origins[int(rows.origin[right_row])]
        branch = origin.branch(int(rows.row[right_row]), tiles)
        sunk = frozenset((h.tensor, h.memory) for h in form.holdings if h.depth > h.zones)
        steps.append(Step(einsum, branch, form.zones, tiles, old, sunk))
        numbering.append(numbers)
        for b in form.backings:
            above = frozenset(numbers[v] for zone in form.zones[: b.zones] for v in zone)
            backed[b.tensor] = b.memory, above
        open_numbers = [numbers[form.loops[c]] for c in joint.tiles]
    return build_tree(steps, numbering, backed)
