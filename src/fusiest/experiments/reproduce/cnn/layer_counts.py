"""Off-chip traffic and on-chip storage of stacks of layers, counted by the model for every size of tiles.

What a layer does inside a tile changes neither, so its nest is the plainest there is: nothing is searched for here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fusiest.base.errors import FusiestError
from fusiest.looptree import Compute, Temporal
from fusiest.mapper import LayerNest, StackPlan, features, image_variables, plans_of_stack, stack_tree
from fusiest.model import Evaluation, evaluate
from fusiest.spec import DepthFirst, Spec, computes, memory_names, part_of


@dataclass(frozen=True)
class StackCount:
    """A stack in tiles of some size. Bytes and multiply-accumulates."""

    einsums: tuple[str, ...]
    tiles: tuple[int, ...]
    feature_bytes: float
    """Feature maps that are read or written off chip."""
    weight_bytes: float
    """All weights, which are read once if they stay on chip."""
    storage_bytes: float
    """The most that feature maps need on chip at any time."""
    window_bytes: float
    """Bytes of windows of rows with all columns, in the middle of the image."""
    overlap_bytes: float
    """Bytes that one tile leaves to the next, by rows and by columns."""
    operations: float
    """Points that are computed, again included."""

    def traffic(self, weights: bool) -> float:
        """Bytes off chip, of feature maps and maybe of weights."""
        return self.feature_bytes + (self.weight_bytes if weights else 0.0)

    def room(self, weights: bool) -> float:
        """Bytes on chip, of feature maps and maybe of weights."""
        return self.storage_bytes + (self.weight_bytes if weights else 0.0)


Cuts: TypeAlias = tuple[float, tuple[StackCount, ...]]


def count_stacks(spec: Spec, run: Sequence[str], flow: DepthFirst, memory: str) -> Iterator[StackCount]:
    """A stack in every size of square tiles."""
    images = image_variables(spec)
    part = part_of(spec, run)
    for plan in plans_of_stack(spec, run, flow, images):
        if len(set(tile_sizes(spec, plan))) == 1:
            nests = [_plain(spec, name) for name in run]
            try:
                cost = evaluate(part, stack_tree(spec, plan, memory, nests))
            except FusiestError:  # the first pyramid would be larger than the image
                continue
            yield _counted(spec, plan, cost, memory)


def tile_sizes(spec: Spec, plan: StackPlan) -> tuple[int, ...]:
    """Rows, columns and so on of a tile of the last layer's result."""
    last = plan.einsums[-1]
    return tuple(plan.extents(last).get(v, spec.info.einsums[last].bounds[v]) for v in image_variables(spec)[last])


def _plain(spec: Spec, name: str) -> LayerNest:
    """Rows outermost, then columns and all else, one value at a time. Weights are not held, so that storage is of feature maps."""
    info, images = spec.info.einsums[name], image_variables(spec)
    order = [*images[name], *(v for v in info.bounds if v not in images[name])]
    loops = [Temporal(rank_variable=v, tile_shape=1) for v in order]
    return LayerNest((*loops, Compute(einsum=name, component=computes(spec.require_arch())[-1])), ())


def _counted(spec: Spec, plan: StackPlan, cost: Evaluation, memory: str) -> StackCount:
    outermost = memory_names(spec.require_arch())[0]
    images = image_variables(spec)
    maps = {t for name in plan.einsums for t in features(spec, images, name)}
    moved = operations = 0.0
    for einsum in cost.einsums.values():
        for (component, tensor, _), count in einsum.actions.items():
            if component == outermost and tensor in maps:
                moved += count / 8  # an action of `simple` is a bit
            elif not tensor:
                operations += count
    weights = {t: name for name in plan.einsums for t in spec.info.einsums[name].accesses if t not in maps}
    overlaps = [
        _window_and_overlap(spec, plan, tensor, reader, images[reader]) for tensor, reader in _read(spec, plan).items()
    ]
    return StackCount(
        plan.einsums, tile_sizes(spec, plan), moved, sum(map_bytes(spec, t, name, ()) for t, name in weights.items()),
        float(cost.peak_occupancy_bits[memory]) / 8,
        sum(window for window, _ in overlaps), sum(overlap for _, overlap in overlaps), operations,
    )  # fmt: skip


def _read(spec: Spec, plan: StackPlan) -> dict[str, str]:
    """Feature maps that the stack makes and reads, or reads from outside in one layer, each with a reader."""
    images = image_variables(spec)
    readers_of: dict[str, list[str]] = {}
    for name in plan.einsums:
        for tensor in features(spec, images, name):
            if tensor != spec.info.einsums[name].output:
                readers_of.setdefault(tensor, []).append(name)
    outputs = {spec.info.einsums[name].output for name in plan.einsums}
    return {tensor: readers[0] for tensor, readers in readers_of.items() if tensor in outputs or len(readers) == 1}


def _window_and_overlap(
    spec: Spec, plan: StackPlan, tensor: str, reader: str, axes: Sequence[str]
) -> tuple[float, float]:
    """Bytes of a feature map whose tiles overlap: a window of rows with all columns, and what tiles leave to neighbours: rows of the
    whole image to those below, columns of a tile to the one beside it. Without padding.
    """
    info = spec.info.einsums[reader]
    whole, window, common = [], [], []
    other_ranks = 1
    for affine in info.accesses[tensor].ranks.values():
        axis = next((v for v in axes if v in affine.variables), None)
        if axis is None:
            other_ranks *= affine.length(info.bounds)
            continue
        a = affine.coefficients[axis]
        tile = plan.extents(reader).get(axis, info.bounds[axis])
        length = affine.length({**info.bounds, axis: tile})
        whole.append(a * info.bounds[axis])
        window.append(min(length, a * info.bounds[axis]))
        common.append(length - a * tile if tile < info.bounds[axis] else 0)
    size = info.bits_per_value[tensor] / 8 * other_ranks
    overlap = 0.0
    for index, shared in enumerate(common):  # rows: of all columns; columns: of the rows of a window
        beside = 1
        for dimension in range(len(common)):
            beside *= shared if dimension == index else window[dimension] if dimension < index else whole[dimension]
        overlap += max(0, beside) * size
    return (size * math.prod([window[0], *whole[1:]]) if overlap else 0.0), overlap


def layers_apart(spec: Spec, groups: Sequence[Sequence[str]]) -> float:
    """Bytes of feature maps, without padding, that groups of layers read and write once each."""
    images = image_variables(spec)
    total = 0.0
    for group in groups:
        outputs = {spec.info.einsums[name].output for name in group[:-1]}
        read = {t: name for name in group for t in features(spec, images, name) if t not in outputs}
        total += sum(map_bytes(spec, tensor, name, images[name]) for tensor, name in read.items())
    return total


def map_bytes(spec: Spec, tensor: str, einsum: str, axes: Sequence[str]) -> float:
    """The size of a tensor that an Einsum reads or makes, along `axes` without padding."""
    info = spec.info.einsums[einsum]
    values = 1
    for affine in info.accesses[tensor].ranks.values():
        axis = next((v for v in axes if v in affine.variables), None)
        values *= affine.length(info.bounds) if axis is None else affine.coefficients[axis] * info.bounds[axis]
    return values * info.bits_per_value[tensor] / 8


def best_cuts(counts: Sequence[StackCount], names: Sequence[str], room: float, weights: bool) -> Cuts | None:
    """The least traffic of all ways to cut a workload into stacks that fit, and the stacks. `weights`: with theirs, and their room."""
    best: dict[int, Cuts] = {0: (0.0, ())}
    places = {name: i for i, name in enumerate(names)}
    for end in range(1, len(names) + 1):
        for count in counts:
            start = places[count.einsums[0]]
            if places[count.einsums[-1]] == end - 1 and count.room(weights) <= room and start in best:
                cost, before = best[start]
                cuts = cost + count.traffic(weights), (*before, count)
                if end not in best or cuts[0] < best[end][0]:
                    best[end] = cuts
    return best.get(len(names))
