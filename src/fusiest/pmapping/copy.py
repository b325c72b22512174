"""Pmappings of a copy Einsum: only where its two tensors are exchanged matters; there is no nest to search."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fusiest.errors import SpecError
from fusiest.looptree.nodes import Compute, Node, Storage, Temporal
from fusiest.model.leakage import bind_all, leak_power
from fusiest.pmapping.general_chains import tile_options
from fusiest.pmapping.pareto import Ints
from fusiest.pmapping.placement import Placement, placements
from fusiest.pmapping.table import Backing, Branch, Form, FusedLimits, FusedLoop, Rows
from fusiest.spec.binding import Path
from fusiest.spec.spec import Spec

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
) -> Iterator[tuple[Form, Rows, CopyOrigin]]:
    """Every way to exchange the two tensors of a copy."""
    info = path.einsum
    source = next(t for t in info.accesses if t != info.output)
    seen = set()
    for placement in placements(spec, path):
        backing = {t: placement.holders(t, path)[0] for t in (source, info.output)}
        barred = {t: _barred(spec, placement, t, index) for t, index in backing.items()}
        key = tuple(backing.items()), tuple(barred.items())
        if key in seen:
            continue
        seen.add(key)
        _check(path, backing)
        energy, latency = _cost(spec, path, source, backing)
        for cuts in _cuts(path, backing, barred, limits):
            yield _rows(spec, path, backing, cuts, memories, energy, latency, imperfect)


def _check(path: Path, backing: dict[str, int]) -> None:
    for tensor, index in backing.items():
        if any(c.dimensions for c in path.components[: index + 1]):
            raise SpecError(
                f"copy Einsum {path.einsum.name}: tensor {tensor} may be backed in {path.components[index].name}, below a "
                "fanout: not supported yet"
            )
        if tensor in path.einsum.persistent and index > 0:
            raise SpecError(
                f"copy Einsum {path.einsum.name}: persistent tensor {tensor} may be backed in "
                f"{path.components[index].name}: not supported yet"
            )
    if len(set(backing.values())) == 1:
        bits = path.components[next(iter(backing.values()))].bits_per_value
        if len({bits[tensor] for tensor in backing}) > 1:
            raise SpecError(
                f"copy Einsum {path.einsum.name}: its tensors have different bits_per_value in one memory: not supported yet"
            )


def _cost(spec: Spec, path: Path, source: str, backing: dict[str, int]) -> tuple[float, float]:
    """Energy and latency: each element read once and written once, nothing within one memory."""
    info = path.einsum
    if backing[source] == backing[info.output]:
        return 0.0, 0.0
    elements = 1
    for affine in info.accesses[source].ranks.values():
        elements *= 1 + sum(abs(a) * (info.bounds[v] - 1) for v, a in affine.coefficients.items())
    energy = latency = 0.0
    for index, action in ((backing[source], "read"), (backing[info.output], "write")):
        component = path.components[index]
        a = component.actions[action]
        actions = elements * a.actions_scale / a.values_per_action[source]
        energy += actions * a.energy
        latency = max(latency, component.latency({action: actions}))
    watts = leak_power(spec, path.compute.name, bind_all(spec, info), dict.fromkeys(_dimensions(path), 1))
    return (energy + sum(watts.values()) * latency) * info.n_instances, latency * info.n_instances


def _dimensions(path: Path) -> list[tuple[str, str]]:
    return [(d.component, d.name) for c in path.components for d in c.dimensions]


def _cuts(
    path: Path, backing: dict[str, int], barred: dict[str, frozenset[str]], limits: FusedLimits
) -> Iterator[dict[str, Cut]]:
    """Per tensor, the fused loops above its backing holder: first the outer memory's, then the other's.

    Copies in one memory lie under the same loops.
    """
    outer, inner = sorted(backing, key=lambda t: (backing[t], t not in path.einsum.persistent))
    fusable = {t: _fusable(path, t, index) - barred[t] for t, index in backing.items()}
    for above in _subsets(fusable[outer] & fusable[inner]):
        for between in _subsets(fusable[inner]):
            if backing[outer] == backing[inner] and between:
                continue
            if limits.per_variable == 1 and above & between:
                continue
            first = frozenset(FusedLoop(v) for v in above)
            second = first | {FusedLoop(v, int(v in above)) for v in between}
            if limits.loops is None or len(second) <= limits.loops:
                yield {outer: first, inner: second}


def _barred(spec: Spec, placement: Placement, tensor: str, index: int) -> frozenset[str]:
    """`no_fused_loops`: variables that must have no loop above the backing holder of a tensor that Einsums share."""
    sets = placement.sets[index]
    return sets.no_fused_loops if sets is not None and tensor in spec.info.shared else frozenset()


def _fusable(path: Path, tensor: str, index: int) -> frozenset[str]:
    """Variables that may have a loop above a tensor's backing holder."""
    info = path.einsum
    if index == 0 or tensor in info.persistent:
        return frozenset()
    return frozenset(v for v in info.accesses[tensor].fully_relevant if info.bounds[v] > 1)


def _subsets(variables: frozenset[str]) -> Iterator[frozenset[str]]:
    for count in range(len(variables) + 1):
        for chosen in itertools.combinations(sorted(variables), count):
            yield frozenset(chosen)


def _rows(
    spec: Spec,
    path: Path,
    backing: dict[str, int],
    cuts: dict[str, Cut],
    memories: list[str],
    energy: float,
    latency: float,
    imperfect: bool,
) -> tuple[Form, Rows, CopyOrigin]:
    info = path.einsum
    zones: list[tuple[FusedLoop, ...]] = []
    above: Cut = frozenset()
    depth = {}
    for cut in sorted(set(cuts.values()), key=len):
        if cut - above:
            zones.append(tuple(sorted(cut - above)))
            above = cut
        depth[cut] = len(zones)
    backings = tuple(
        Backing(t, path.components[index].name, depth[cuts[t]])
        for t, index in sorted(backing.items())
        if t in spec.info.shared
    )
    form = Form(tuple(zones), backings)
    tiles = _all_tiles(info.bounds, form.loops, imperfect)
    bits = np.zeros((len(tiles), len(memories), len(zones) + 1))
    together = len(set(backing.values())) == 1
    for t, index in backing.items():
        name = path.components[index].name
        if t not in spec.info.shared and name in memories and not (together and backings):
            bits[:, memories.index(name), depth[cuts[t]]] += _tile_bits(path, t, index, cuts[t], form, tiles)
    holders = tuple(
        (Storage(tensors=(t,), component=path.components[i].name, persistent=t in info.persistent), cuts[t])
        for t, i in backing.items()
    )
    count = len(tiles)
    rows = Rows(
        tiles, np.full(count, energy), np.full(count, latency), bits, np.zeros(count, np.int64), np.arange(count),
        np.zeros((count, len(memories))),
    )  # fmt: skip
    return form, rows, CopyOrigin(path, holders)


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


def _tile_bits(path: Path, tensor: str, index: int, cut: Cut, form: Form, tiles: Ints) -> np.ndarray:
    size = np.full(len(tiles), float(path.components[index].bits_per_value[tensor]))
    innermost = {loop.variable: loop for loop in sorted(cut)}
    for affine in path.einsum.accesses[tensor].ranks.values():
        extent = np.ones(len(tiles))
        for v, a in affine.coefficients.items():
            inside = v in innermost
            own = tiles[:, form.loops.index(innermost[v])] if inside else np.full(len(tiles), path.einsum.bounds[v])
            extent = extent + abs(a) * (own - 1)
        size = size * extent
    return size
