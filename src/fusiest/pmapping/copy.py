"""Pmappings of a copy Einsum: only where its two tensors are exchanged matters; there is no nest to search."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fusiest.errors import SpecError
from fusiest.looptree.nodes import Compute, Node, Storage, Temporal
from fusiest.model.leakage import bind_all, leak_power
from fusiest.pmapping.general_chains import tile_options
from fusiest.pmapping.pareto import Ints
from fusiest.pmapping.placement import placements
from fusiest.pmapping.table import Backing, Branch, Form, Rows
from fusiest.spec.binding import Path
from fusiest.spec.spec import Spec


@dataclass(frozen=True)
class CopyOrigin:
    """How to write a copy's nest: its backing holders, each with the fused loops above it, then loops to single elements."""

    path: Path
    holders: tuple[tuple[Storage, frozenset[str]], ...]

    def branch(self, row: int, tiles: dict[str, int]) -> Branch:
        outermost = self.path.components[0].name
        inside: list[Node] = [
            Temporal(rank_variable=v, tile_shape=1)
            for v, bound in self.path.einsum.bounds.items()
            if tiles.get(v, bound) > 1
        ]
        inside.append(Compute(einsum=self.path.einsum.name, component=self.path.compute.name))
        top = tuple(s for s, _ in self.holders if s.component == outermost)
        return Branch(top, tuple((s, cut) for s, cut in self.holders if s.component != outermost), tuple(inside))


def copy_pmappings(
    spec: Spec, path: Path, memories: list[str], max_fused_loops: int | None, imperfect: bool = False
) -> Iterator[tuple[Form, Rows, CopyOrigin]]:
    """Every way to exchange the two tensors of a copy."""
    info = path.einsum
    source = next(t for t in info.accesses if t != info.output)
    seen = set()
    for placement in placements(spec, path):
        backing = {t: placement.holders(t, path)[0] for t in (source, info.output)}
        key = tuple(backing.items())
        if key in seen:
            continue
        seen.add(key)
        _check(path, backing)
        energy, latency = _cost(spec, path, source, backing)
        for cuts in _cuts(spec, path, source, backing, max_fused_loops):
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
    spec: Spec, path: Path, source: str, backing: dict[str, int], max_fused_loops: int | None
) -> Iterator[dict[str, frozenset[str]]]:
    """Per tensor, the fused loops above its backing holder. Copies in one memory lie under the same loops."""
    info = path.einsum
    fusable = {t: _fusable(spec, path, t, index) for t, index in backing.items()}
    most = len(info.bounds) if max_fused_loops is None else max_fused_loops
    for inner in _subsets(fusable[info.output], most):
        for outer in _subsets(fusable[source], most):
            if not (inner <= outer or outer <= inner):
                continue
            if backing[source] == backing[info.output] and inner != outer:
                continue
            yield {info.output: inner, source: outer}


def _fusable(spec: Spec, path: Path, tensor: str, index: int) -> frozenset[str]:
    """Variables that may have a loop above a tensor's backing holder."""
    info = path.einsum
    if index == 0 or tensor in info.persistent:
        return frozenset()
    return frozenset(v for v in info.accesses[tensor].fully_relevant if info.bounds[v] > 1)


def _subsets(variables: frozenset[str], most: int) -> Iterator[frozenset[str]]:
    for count in range(min(len(variables), most) + 1):
        for chosen in itertools.combinations(sorted(variables), count):
            yield frozenset(chosen)


def _rows(
    spec: Spec,
    path: Path,
    backing: dict[str, int],
    cuts: dict[str, frozenset[str]],
    memories: list[str],
    energy: float,
    latency: float,
    imperfect: bool,
) -> tuple[Form, Rows, CopyOrigin]:
    info = path.einsum
    zones: list[tuple[str, ...]] = []
    above: frozenset[str] = frozenset()
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
    tiles = _all_tiles([info.bounds[v] for v in form.loops], imperfect)
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


def _all_tiles(bounds: list[int], imperfect: bool) -> Ints:
    """Every combination of tiles smaller than the bounds."""
    options = [tile_options(bound, imperfect)[:-1] for bound in bounds]
    combinations = list(itertools.product(*options))
    return np.array(combinations, np.int64).reshape(len(combinations), len(bounds))


def _tile_bits(path: Path, tensor: str, index: int, cut: frozenset[str], form: Form, tiles: Ints) -> np.ndarray:
    size = np.full(len(tiles), float(path.components[index].bits_per_value[tensor]))
    for affine in path.einsum.accesses[tensor].ranks.values():
        extent = np.ones(len(tiles))
        for v, a in affine.coefficients.items():
            own = tiles[:, form.loops.index(v)] if v in cut else np.full(len(tiles), path.einsum.bounds[v])
            extent = extent + abs(a) * (own - 1)
        size = size * extent
    return size
