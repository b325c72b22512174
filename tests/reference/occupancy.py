"""How full every memory is while each Einsum runs.

Where a holder's space is charged is a convention of the model, read here node by node off the path. How much is charged
is measured: the box around what the points of one iteration touch, at every moment, in every instance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.reference.nest import Instance, LoopOnPath, SimulatedNest, Station, TileBox, boxes, relevance, size
from tests.reference.schedule import common_loops, exchanged_across, users
from tests.reference.windows import longest_window, window_loops, window_rank


@dataclass(frozen=True, slots=True)
class HeldSpace:
    """Space for one holder: how many loops stand above it, and its tile in every iteration and instance."""

    tensor: str
    memory: str
    backing: bool
    persistent: bool
    level: int
    shared: int
    """Loops in which its users take turns because of it."""
    times: int
    bits_per_element: float
    tiles: Mapping[tuple[int, ...], Mapping[Instance, TileBox]]

    def bits(self, time: tuple[int, ...], instance: Instance) -> float:
        tile = self.tiles.get(time[: self.times], {}).get(instance)
        return 0 if tile is None else size(tile) * self.bits_per_element

    @property
    def largest(self) -> float:
        return max(self.bits(time, i) for time, instances in self.tiles.items() for i in instances)


def reservations(nest: SimulatedNest, nests: Sequence[SimulatedNest]) -> list[HeldSpace]:
    """Every reservation of an Einsum; of a copy, only those of the backing holders."""
    held = []
    for stations in nest.stations.values():
        holders = [s for s in stations[:-1] if not s.toll]
        for holder in holders[:1] if nest.info.is_copy_operation else holders:
            held.append(_reservation(nest, holder, nests, backing=holder is holders[0]))
    return held


def _reservation(nest: SimulatedNest, holder: Station, nests: Sequence[SimulatedNest], *, backing: bool) -> HeldSpace:
    times, places = holder.times, holder.places
    windows = window_loops(nests, holder.tensor) if backing else []
    if not (backing or holder.persistent):
        times, places = _scan(nest, holder)
    instances = nest.info.n_instances if holder.persistent else 1
    tiles = boxes(nest, holder.tensor, lambda point: (point.time[:times], holder.instance(point.place)))
    if backing and holder.tensor in nest.info.shared_out:
        tiles = {
            time: {i: _whole(nest, holder.tensor, box) for i, box in by_instance.items()}
            for time, by_instance in tiles.items()
        }
    if windows:
        length, rank = longest_window(nests, holder.tensor, windows[0]), window_rank(nests, holder.tensor, windows[0])
        tiles = {
            time: {i: _cut(box, rank, length) for i, box in by_instance.items()} for time, by_instance in tiles.items()
        }
    level = -1 if holder.persistent else times + len(places)
    return HeldSpace(
        tensor=holder.tensor,
        memory=holder.component.name,
        backing=backing,
        persistent=holder.persistent,
        level=level,
        shared=level + len(windows),
        times=times,
        bits_per_element=holder.component.bits_per_value[holder.tensor] * instances,
        tiles=tiles,
    )


def _whole(nest: SimulatedNest, tensor: str, box: TileBox) -> TileBox:
    """The box with room for the parts of all who make the tensor."""
    rank, length = nest.info.shared_out[tensor]
    place = sorted(nest.info.accesses[tensor].ranks).index(rank)
    low, high = box[place]
    return tuple((low, low + max(high - low, length - 1)) if i == place else side for i, side in enumerate(box))


def _cut(box: TileBox, rank: int, length: int) -> TileBox:
    """The box with another length along one rank."""
    return tuple((low, low + length - 1) if i == rank else (low, high) for i, (low, high) in enumerate(box))


def _scan(nest: SimulatedNest, holder: Station) -> tuple[int, frozenset[int]]:
    """Lower a reservation: past fully relevant Temporals and own Spatials, and past one partially relevant Temporal."""
    times, places = holder.times, holder.places
    for node in nest.nodes[holder.position + 1 :]:
        if not isinstance(node, LoopOnPath):
            break
        if node.spatial:
            if node.component != holder.component.name:
                break
            places = places | {nest.spatials.index(node)}
            continue
        relevant = relevance(nest.info.accesses[holder.tensor], node.variable)
        if relevant == "irrelevant":
            break
        times += 1
        if relevant == "partial":
            break
    return times, places


def shared_level(nests: Sequence[SimulatedNest], held: Sequence[list[HeldSpace]], i: int, j: int) -> int:
    """Leading loops common to both, capped at every cut by the deepest backing of a tensor exchanged across it."""
    i, j = min(i, j), max(i, j)
    level = common_loops(nests[i], nests[j])
    for cut in range(i, j):
        crossing = exchanged_across(nests, cut)
        backed = [r.shared for reserved in held for r in reserved if r.backing and r.tensor in crossing]
        level = min(level, max(backed, default=0))
    return level


def peaks(nests: Sequence[SimulatedNest]) -> list[dict[str, float]]:
    """Per Einsum, the most bits that each memory holds while it runs."""
    held = [reservations(nest, nests) for nest in nests]
    partners = _partners(nests)
    return [_peak(nests, held, partners, i) for i in range(len(nests))]


def _partners(nests: Sequence[SimulatedNest]) -> dict[str, frozenset[str]]:
    """Tensors that are one in memory: a copy's input and output, if backed in the same one."""
    groups: dict[str, frozenset[str]] = {t: frozenset([t]) for nest in nests for t in nest.info.accesses}
    for nest in nests:
        if nest.info.is_copy_operation:
            memories = {nest.backing(t).component.name for t in nest.info.accesses}
            if len(memories) == 1:
                union = frozenset[str]().union(*(groups[t] for t in nest.info.accesses))
                groups.update(dict.fromkeys(union, union))
    return groups


def _peak(
    nests: Sequence[SimulatedNest], held: Sequence[list[HeldSpace]], partners: Mapping[str, frozenset[str]], i: int
) -> dict[str, float]:
    """What lies in each memory whatever the Einsum does, plus the busiest moment of its own holders."""
    lasting: dict[tuple[str, frozenset[str]], float] = {}
    whole = {(r.memory, r.tensor): 0.0 for reserved in held for r in reserved if r.backing}
    # One holder, as large as any of its users needs it.
    for r in (r for reserved in held for r in reserved if r.backing):
        whole[r.memory, r.tensor] = max(whole[r.memory, r.tensor], r.largest)
    for j, reserved in enumerate(held):
        shared = shared_level(nests, held, i, j)
        for r in reserved:
            together = partners[r.tensor] if r.backing else frozenset([r.tensor])
            lifetime = [k for t in together for k in users(nests, t)]
            first = min(users(nests, r.tensor))
            exchanged = r.backing and len(lifetime) > 1 and first <= i <= max(lifetime)
            if exchanged or r.persistent or (j != i and r.level < shared):
                bits = whole[r.memory, r.tensor] if r.backing else r.largest
                lasting[r.memory, together] = max(lasting.get((r.memory, together), 0), bits)
    own_spaces: dict[str, list[HeldSpace]] = {r.memory: [] for reserved in held for r in reserved}
    for r in held[i]:
        together = partners[r.tensor] if r.backing else frozenset([r.tensor])
        if (r.memory, together) in lasting:  # one holder on several paths: as large as any of them needs it
            lasting[r.memory, together] = max(lasting[r.memory, together], r.largest)
        else:
            own_spaces[r.memory].append(r)
    total = {memory: _busiest(nests[i], spaces) for memory, spaces in own_spaces.items()}
    for (memory, _), bits in lasting.items():
        total[memory] += bits
    return total


def _busiest(nest: SimulatedNest, spaces: list[HeldSpace]) -> float:
    """The most that one instance of a memory holds at one moment."""
    moments = {
        (time, instance)
        for time in {point.time for point in nest.points}
        for r in spaces
        for instance in r.tiles.get(time[: r.times], {})
    }
    return max((sum(r.bits(time, instance) for r in spaces) for time, instance in moments), default=0)
