"""Pmappings of a copy Einsum: only where its two tensors are exchanged matters; there is no nest to search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from fusiest.errors import SpecError
from fusiest.looptree import Compute, Node, Storage, Temporal
from fusiest.model import bind_all, footprint, leak_power
from fusiest.pmapping.general_chains import tile_options
from fusiest.pmapping.pareto import Floats, Ints
from fusiest.pmapping.placement import Placement, placements
from fusiest.pmapping.spatial import satisfies
from fusiest.pmapping.table import Backing, Branch, Compatibility, FusedLimits, FusedLoop, Rows
from fusiest.spec import BoundDimension, Path, Spec
from fusiest.spec import architecture as arch

Cut = frozenset[FusedLoop]
"""The fused loops above a point."""


@dataclass(frozen=True)
class CopyOrigin:
    """How to write a copy's nest: its backing holders, each with the fused loops above it, then loops to single elements."""

    path: Path
    holders: tuple[tuple[Storage, Cut], ...]

    def branch(self, row: int, tiles: dict[FusedLoop, int]) -> Branch:
        outermost = self.path.components[0].name
        extents = dict(self.path.einsum.bounds) | {loop.variable: tiles[loop] for loop in sorted(tiles)}
        inside: list[Node] = [Temporal(rank_variable=v, tile_shape=1) for v, n in extents.items() if n > 1]
        inside.append(Compute(einsum=self.path.einsum.name, component=self.path.compute.name))
        top = tuple(s for s, _ in self.holders if s.component == outermost)
        return Branch(top, tuple((s, cut) for s, cut in self.holders if s.component != outermost), tuple(inside))


def copy_pmappings(
    spec: Spec, path: Path, memories: list[str], limits: FusedLimits, imperfect: bool = False
) -> Iterator[tuple[Compatibility, Rows, CopyOrigin]]:
    """Every way to exchange the two tensors of a copy."""
    tensors = sorted(path.einsum.accesses, key=lambda t: t == path.einsum.output)
    seen = set()
    for placement in placements(spec, path):
        backing = {t: placement.holders(t, path)[0] for t in tensors}
        barred = {t: _barred(spec, placement, t, index) for t, index in backing.items()}
        key = tuple(backing.items()), tuple(barred.items())
        if key not in seen:
            seen.add(key)
            _check(spec, path, backing)
            for order in _orders(spec, path, backing):
                yield from _Copy(spec, path, backing, order, barred, memories, limits, imperfect).pieces()


def _orders(spec: Spec, path: Path, backing: dict[str, int]) -> list[tuple[str, str]]:
    """Which of the two holders stands further out; memories of a `!Parallel` may stand in any order."""
    outer, inner = sorted(backing, key=lambda t: backing[t])
    names = [path.components[backing[t]].name for t in (outer, inner)]
    beside = names[1] in arch.beside(spec.require_arch().nodes).get(names[0], ())
    return [(outer, inner), (inner, outer)] if beside else [(outer, inner)]


def _barred(spec: Spec, placement: Placement, tensor: str, index: int) -> frozenset[str]:
    """`no_fused_loops`: variables that must have no loop above the backing holder of a tensor that Einsums share."""
    sets = placement.sets[index]
    return sets.no_fused_loops if sets is not None and tensor in spec.info.shared else frozenset()


def _check(spec: Spec, path: Path, backing: dict[str, int]) -> None:
    for tensor, index in backing.items():
        if tensor in path.einsum.persistent and index > 0:
            raise SpecError(
                f"copy Einsum {path.einsum.name}: persistent tensor {tensor} may be backed in "
                f"{path.components[index].name}: not supported yet"
            )
        if path.components[0].dimensions and tensor in spec.info.shared:
            raise SpecError(
                f"shared tensor {tensor} of Einsum {path.einsum.name} may be backed in {path.components[index].name}, below a "
                "fanout, as is every memory: not supported yet"
            )
    if len(set(backing.values())) == 1:
        bits = path.components[next(iter(backing.values()))].bits_per_value
        if len({bits[tensor] for tensor in backing}) > 1:
            raise SpecError(
                f"copy Einsum {path.einsum.name}: its tensors have different bits_per_value in one memory: not supported yet"
            )


@dataclass(frozen=True, slots=True)
class _Slot:
    """A place for a fused loop: above the outer holder (gap 0) or between the two (1), Temporal or on a dimension."""

    gap: int
    dimension: BoundDimension | None = None

    @property
    def place(self) -> tuple[str, str] | None:
        return (self.dimension.component, self.dimension.name) if self.dimension is not None else None


@dataclass(frozen=True)
class _Copy:
    """A copy whose tensors are backed in given memories. Those in one memory lie under the same loops."""

    spec: Spec
    path: Path
    backing: dict[str, int]
    """Source, then output."""
    order: tuple[str, str]
    """The tensor whose holder stands further out, and the other."""
    barred: dict[str, frozenset[str]]
    """Variables that must have no loop above each."""
    memories: list[str]
    limits: FusedLimits
    imperfect: bool

    def pieces(self) -> Iterator[tuple[Compatibility, Rows, CopyOrigin]]:
        slots = self._slots()
        most = self.limits.per_variable
        options = [
            [chosen for n in range(min(len(slots[v]), most) + 1) for chosen in itertools.combinations(slots[v], n)]
            for v in slots
        ]
        for pattern in itertools.product(*options):
            loops = {
                FusedLoop(v, number, slot.place): slot
                for v, own in zip(slots, pattern, strict=True)
                for number, slot in enumerate(own)
            }
            if self.limits.loops is None or len(loops) <= self.limits.loops:
                form, rows, origin = self._piece(loops)
                if len(rows):
                    yield form, rows, origin

    # --- loops --------------------------------------------------------------------------------------------------------

    def _slots(self) -> dict[str, list[_Slot]]:
        """Where each variable may have fused loops, from the outermost in."""
        found: dict[str, list[_Slot]] = {v: [] for v, bound in self.path.einsum.bounds.items() if bound > 1}
        for gap, above in enumerate(self._crossed()):
            for v, own in found.items():
                if any(not self._may_loop(t, v) for t in self.order[gap:]):
                    continue
                if gap == 0 or len(set(self.backing.values())) > 1:
                    own.append(_Slot(gap))
                own += [_Slot(gap, d) for d in above if not self._is_banned(d, v)]
        return found

    def _crossed(self) -> tuple[list[BoundDimension], list[BoundDimension]]:
        """Fanout dimensions above the outer holder, and between the two."""
        outer, inner = (self.backing[t] for t in self.order)
        components = self.path.components
        return (
            [d for c in components[: outer + 1] for d in c.dimensions],
            [d for c in components[outer + 1 : inner + 1] for d in c.dimensions],
        )

    def _may_loop(self, tensor: str, variable: str) -> bool:
        """Whether a loop may stand above a tensor's backing holder."""
        info = self.path.einsum
        on_top = self.backing[tensor] == 0 or tensor in info.persistent
        return not on_top and variable in info.accesses[tensor].fully_relevant - self.barred[tensor]

    def _is_banned(self, dimension: BoundDimension, variable: str) -> bool:
        return any(variable in self.path.einsum.accesses[t].variables for t in dimension.reuse)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _piece(self, loops: Mapping[FusedLoop, _Slot]) -> tuple[Compatibility, Rows, CopyOrigin]:
        info, shared = self.path.einsum, self.spec.info.shared
        zones: list[tuple[FusedLoop, ...]] = []
        depth: list[int] = []
        for gap, above in enumerate(self._crossed()):
            for slot in [_Slot(gap), *(_Slot(gap, d) for d in above)]:
                zone = tuple(sorted(loop for loop, own in loops.items() if own == slot))
                zones += [zone] if zone else []
            depth.append(len(zones))
        cuts = [frozenset(loop for loop, slot in loops.items() if slot.gap <= gap) for gap in range(2)]
        names = [self.path.components[self.backing[t]].name for t in self.order]
        backings = [Backing(t, m, at) for t, m, at in zip(self.order, names, depth, strict=True) if t in shared]
        form = Compatibility(tuple(zones), tuple(sorted(backings, key=lambda b: b.tensor)))
        tiles = self._allowed(form, _all_tiles(info.bounds, form.loops, self.imperfect))
        energy, latency = self._costs(form, tiles, cuts)
        bits = np.zeros((len(tiles), len(self.memories), len(zones) + 1))
        together = len(set(names)) == 1
        for t, name, at, cut in zip(self.order, names, depth, cuts, strict=True):
            if t not in shared and name in self.memories and not (together and backings):
                bits[:, self.memories.index(name), at] += self._tile_bits(t, cut, form, tiles)
        holders = tuple(
            (Storage(tensors=(t,), component=name, persistent=t in info.persistent), cut)
            for t, name, cut in zip(self.order, names, cuts, strict=True)
        )
        count = len(tiles)
        rows = Rows(
            tiles, energy, latency, bits, np.zeros(count, np.int64), np.arange(count), np.zeros((count, len(self.memories)))
        )  # fmt: skip
        return form, rows, CopyOrigin(self.path, holders)

    def _allowed(self, form: Compatibility, tiles: Ints) -> Ints:
        """Rows whose Spatial loops fit the fanouts that they cross. Nothing asks a copy to use them."""
        keep = np.ones(len(tiles), np.bool_)
        for d in [d for above in self._crossed() for d in above]:
            spread = [loop for loop in form.loops if loop.place == (d.component, d.name)]
            used = {loop.variable: _iterations(self.path.einsum.bounds, form, tiles, loop) for loop in spread}
            keep &= math.prod(used.values()) * np.ones(len(tiles)) <= d.most
            for i in np.flatnonzero(keep) if d.loop_bounds else ():
                values = dict.fromkeys(self.path.einsum.bounds, 1) | {v: int(n[i]) for v, n in used.items()}
                keep[i] = all(satisfies(c, values) for c in d.loop_bounds)
        return tiles[keep]

    def _costs(self, form: Compatibility, tiles: Ints, cuts: list[Cut]) -> tuple[Floats, Floats]:
        """Energy and latency: each element read once and written once, nothing within one memory."""
        info = self.path.einsum
        source, output = self.backing
        energy, latency = 0.0, np.zeros(len(tiles))
        if self.backing[source] == self.backing[output]:
            return np.zeros(len(tiles)), latency
        for tensor, action in ((source, "read"), (output, "write")):
            component = self.path.components[self.backing[tensor]]
            a = component.actions[action]
            per_element = a.actions_scale / a.values_per_action[source]
            energy += footprint(info.accesses[source], info.bounds) * per_element * a.energy
            elements, inverse = np.unique(self._per_unit(tensor, form, tiles, cuts), return_inverse=True)
            seconds = np.array([component.latency({action: n * per_element}) for n in elements.tolist()])
            latency = np.maximum(latency, seconds[inverse.reshape(-1)])
        return (energy + self._watts(form, tiles) * latency) * info.n_instances, latency * info.n_instances

    def _per_unit(self, tensor: str, form: Compatibility, tiles: Ints, cuts: list[Cut]) -> Ints:
        """Elements that one instance of a tensor's memory reads or writes: with Spatial loops above it at index 0."""
        info = self.path.einsum
        source = next(iter(self.backing))
        above = cuts[self.order.index(tensor)]
        spread = {loop.variable for loop in above if loop.place is not None}
        found = []
        for row in tiles.tolist():
            extents = dict(info.bounds)
            for v in spread:
                own = [
                    (t, loop.place is not None)
                    for t, loop in zip(row, form.loops, strict=True)
                    if loop.variable == v and loop in above
                ]
                extents[v] = _visited(info.bounds[v], tuple(own))
            found.append(footprint(info.accesses[source], extents))
        return np.array(found, np.int64)

    def _watts(self, form: Compatibility, tiles: Ints) -> Floats:
        """Leakage, which depends on how far gated dimensions are used."""
        dimensions = [d for c in self.path.components for d in c.dimensions]
        used = np.ones((len(tiles), len(dimensions)), np.int64)
        for i, d in enumerate(dimensions):
            for loop in form.loops:
                if loop.place == (d.component, d.name):
                    used[:, i] *= _iterations(self.path.einsum.bounds, form, tiles, loop)
        options, inverse = np.unique(used, axis=0, return_inverse=True)
        bound = bind_all(self.spec, self.path.einsum)
        watts = []
        for row in options.tolist():
            named = {(d.component, d.name): n for d, n in zip(dimensions, row, strict=True)}
            watts.append(sum(leak_power(self.spec, self.path.compute.name, bound, named).values()))
        return np.array(watts)[inverse.reshape(-1)]

    def _tile_bits(self, tensor: str, cut: Cut, form: Compatibility, tiles: Ints) -> Floats:
        index = self.backing[tensor]
        size = np.full(len(tiles), float(self.path.components[index].bits_per_value[tensor]))
        innermost = {loop.variable: form.loops.index(loop) for loop in sorted(cut)}
        for affine in self.path.einsum.accesses[tensor].ranks.values():
            extent = np.ones(len(tiles))
            for v, a in affine.coefficients.items():
                own = tiles[:, innermost[v]] if v in innermost else self.path.einsum.bounds[v]
                extent = extent + abs(a) * (own - 1.0)
            size = size * extent
        return size


def _all_tiles(bounds: Mapping[str, int], loops: tuple[FusedLoop, ...], imperfect: bool) -> Ints:
    """Every combination of tiles, each smaller than the extent above it."""
    rows: list[dict[str, tuple[int, ...]]] = [{v: (bound,) for v, bound in bounds.items()}]
    for loop in loops:
        rows = [
            row | {loop.variable: (*row[loop.variable], tile)}
            for row in rows
            for tile in tile_options(row[loop.variable][-1], imperfect)[:-1]
        ]
    found = [[row[loop.variable][loop.number + 1] for loop in loops] for row in rows]
    return np.array(found, np.int64).reshape(len(rows), len(loops))


def _iterations(bounds: Mapping[str, int], form: Compatibility, tiles: Ints, loop: FusedLoop) -> Ints:
    outer = [i for i, other in enumerate(form.loops) if other.variable == loop.variable and other.number < loop.number]
    above = tiles[:, outer[-1]] if outer else np.full(len(tiles), bounds[loop.variable])
    result: Ints = -(-above // tiles[:, form.loops.index(loop)])
    return result


@cache
def _visited(extent: int, loops: tuple[tuple[int, bool], ...]) -> int:
    """How far a variable is covered below loops of these tiles, if those that are Spatial stay at index 0.

    >>> _visited(10, ((4, False),)), _visited(10, ((4, True),)), _visited(10, ((4, False), (3, True)))
    (10, 4, 8)
    """
    if not loops or extent == 0:
        return extent
    (tile, spatial), rest = loops[0], loops[1:]
    if spatial:
        return _visited(min(extent, tile), rest)
    return extent // tile * _visited(tile, rest) + _visited(extent % tile, rest)
