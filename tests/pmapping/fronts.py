"""The search's table and the exhaustive mapper's fronts in one form, to be compared."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from fusiest.looptree.nodes import Node, Spatial, Temporal
from fusiest.model.visits import footprint
from fusiest.pmapping.explore import explore
from fusiest.pmapping.nest.rules import Rules
from fusiest.pmapping.question import Effort, Question
from fusiest.pmapping.table import Compatibility, FusedLimits, FusedLoop, Holding, Rows, Table
from fusiest.spec import bind, computes
from fusiest.spec.spec import Spec
from tests.reference.exhaustive import exhaustive
from tests.reference.skeletons import ReferenceLimits
from tests.reference.tilings import PlainCompatibility, Pmapping

Fronts = dict[PlainCompatibility, list[tuple[float, ...]]]


def pmappings(
    spec: Spec,
    einsum: str,
    *,
    max_fused_loops: int | None = None,
    max_fused_loops_per_variable: int = 1,
    imperfect: bool = False,
    general: bool = False,
    rules: Rules | None = None,
) -> Table:
    """The table of an Einsum, with rules switched off or by the general search."""
    limits = FusedLimits(max_fused_loops, max_fused_loops_per_variable)
    return explore(spec, einsum, Question(limits, imperfect), Effort(general=general, rules=rules or Rules()))


def search_fronts(spec: Spec, table: Table) -> Fronts:
    """Every row of the table in all linear orders of its zones."""
    found: Fronts = {}
    sizes = _FrontSizes(spec, table)
    for form, rows in table.groups.items():
        for order in itertools.product(*(itertools.permutations(zone) for zone in form.zones)):
            loops = [loop for zone in order for loop in zone]
            for i in range(len(rows)):
                compatibility = _compatibility(form, rows, i, loops)
                found.setdefault(compatibility, []).append(_criteria(form, rows, i, sizes))
    return found


def _compatibility(form: Compatibility, rows: Rows, i: int, loops: list[FusedLoop]) -> PlainCompatibility:
    tiles = dict(zip(form.loops, rows.tiles[i].tolist(), strict=True))
    fused = tuple((loop.variable, tiles[loop], loop.place) for loop in loops)
    depth = [sum(len(zone) for zone in form.zones[:z]) for z in range(len(form.zones) + 1)]
    backings = ((b.tensor, b.memory, fused[: depth[b.zones]]) for b in form.backings)
    return PlainCompatibility(fused, tuple(sorted(backings)))


class _FrontSizes:
    """Bits of a shared tensor's further holders between fused loops, which a table leaves to the join."""

    def __init__(self, spec: Spec, table: Table) -> None:
        self.info, self.memories = spec.info.einsums[table.einsum], table.memories
        self.components = {
            c.name: c for compute in computes(spec.require_arch()) for c in bind(spec, table.einsum, compute).components
        }

    def bits(self, form: Compatibility, rows: Rows, i: int, held: Holding) -> float:
        above = [loop for zone in form.zones[: held.depth] for loop in zone]
        tiles = dict(zip(form.loops, rows.tiles[i].tolist(), strict=True))
        extents = dict(self.info.bounds) | {loop.variable: tiles[loop] for loop in above}
        per_value = self.components[held.memory].bits_per_value[held.tensor]
        return float(footprint(self.info.accesses[held.tensor], extents) * per_value)


def _criteria(form: Compatibility, rows: Rows, i: int, sizes: _FrontSizes) -> tuple[float, ...]:
    """Energy, latency, and per memory the bits down to each level, persistent ones first.

    Sums, because whatever else is held beside an Einsum sees all of its reservations down to some level: bits further in
    are never worse. The search may charge a holder above a zone where, in some orders, the model charges it further in.
    """
    depth = [sum(len(zone) for zone in form.zones[:z]) for z in range(len(form.zones) + 1)]
    criteria = [float(rows.energy[i]), float(rows.latency[i])]
    for m, memory in enumerate(rows.bits[i]):
        levels = [0.0] * (depth[-1] + 1)
        for held in form.holdings:
            if held.memory == sizes.memories[m]:
                levels[depth[held.depth]] += sizes.bits(form, rows, i, held)
        for z, bits in enumerate(memory):
            levels[depth[z]] += float(bits)
        criteria += itertools.accumulate([float(rows.persistent[i, m]), *levels])
    return tuple(criteria)


def exhaustive_fronts(fronts: dict[PlainCompatibility, list[Pmapping]]) -> Fronts:
    found: Fronts = {}
    for compatibility, front in fronts.items():
        for p in front:
            sums = (total for own in p.bits for total in itertools.accumulate(own))
            found.setdefault(compatibility, []).append((p.energy, p.latency, *sums))
    return found


def covers(front: Sequence[tuple[float, ...]], point: tuple[float, ...]) -> bool:
    """Whether some point of the front is at least as good, up to rounding."""
    return any(all(x <= y + 1e-9 * abs(y) + 1e-12 for x, y in zip(p, point, strict=True)) for p in front)


def differences(search: Fronts, expected: Fronts) -> list[str]:
    """Points that one side has and the other neither has nor beats."""
    found = []
    for compatibility in {**expected, **search}:
        own, other = search.get(compatibility, []), expected.get(compatibility, [])
        found += [f"missed {p} of {compatibility}; has {sorted(own)[:3]}" for p in other if not covers(own, p)]
        found += [f"too good {p} of {compatibility}; not {sorted(other)[:3]}" for p in own if not covers(other, p)]
    return found


def equal_table(spec: Spec, einsum: str, imperfect: bool = False, general: bool = False) -> Table:
    """What is found for an Einsum, which must be what trying everything finds."""
    table = pmappings(spec, einsum, imperfect=imperfect, general=general)
    expected = exhaustive(spec, einsum, table.memories, ReferenceLimits(imperfect=imperfect))
    assert expected
    assert differences(search_fronts(spec, table), exhaustive_fronts(expected)) == []
    return table


def branch_nodes(table: Table, form: Compatibility, rows: Rows, i: int) -> list[Node]:
    """The nest of one row, with its fused loops in an order that its holders allow."""
    tiles = dict(zip(form.loops, rows.tiles[i].tolist(), strict=True))
    branch = table.origins[rows.origin[i]].branch(int(rows.row[i]), tiles)
    nodes: list[Node] = list(branch.top)
    above: set[FusedLoop] = set()
    for holder, cut in branch.between:
        nodes += [_node(loop, tiles[loop]) for loop in form.loops if loop in cut - above]
        above |= cut
        nodes.append(holder)
    assert above == set(tiles)
    return [*nodes, *branch.inside]


def _node(loop: FusedLoop, tile: int) -> Node:
    if loop.place is None:
        return Temporal(rank_variable=loop.variable, tile_shape=tile)
    return Spatial(rank_variable=loop.variable, tile_shape=tile, component=loop.place[0], name=loop.place[1])
