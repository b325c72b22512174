"""The memories of one Einsum at work: tiles are filled, computed on and emptied, and every value moved is counted.

A child that skips its pull starts from zero; a push adds what the child did to what it pulled. So the numbers in the
backing holders come out right exactly if every tile is moved when it must be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fusiest.base.errors import SpecError
from tests.reference.backings import Backings, TensorArray, ValueArray, zeros
from tests.reference.nest import Instance, SimulatedNest, Station, TileBox, boxes, element, size


@dataclass(frozen=True, slots=True)
class Tile:
    """What one instance holds: its values now, and those it started from."""

    now: TensorArray
    start: ValueArray


@dataclass(frozen=True, slots=True)
class Request:
    """Values that a child wants from its parent, and how many of them it would rather not have (first visits)."""

    wanted: int
    skippable: int

    def __add__(self, other: Request) -> Request:
        return Request(self.wanted + other.wanted, self.skippable + other.skippable)


@dataclass(slots=True)
class Traffic:
    """Values read and written at one station, per instance."""

    reads: Counter[Instance] = field(default_factory=Counter)
    writes: Counter[Instance] = field(default_factory=Counter)


class TensorMachine:
    """One tensor on its way between its backing holder and the compute."""

    def __init__(self, nest: SimulatedNest, tensor: str, world: Backings) -> None:
        self.nest, self.tensor, self.world = nest, tensor, world
        self.output = nest.info.accesses[tensor].output
        self.stations = nest.stations[tensor]
        self.traffic = [Traffic() for _ in self.stations]
        self.reused = frozenset(i for i, loop in enumerate(nest.spatials) if nest.may_reuse(loop, tensor))
        self._visits = [
            boxes(nest, tensor, lambda p, s=station: (p.time[: s.times], s.instance(p.place)))  # type: ignore[misc]
            for station in self.stations
        ]
        self._open: list[tuple[int, ...] | None] = [None for _ in self.stations]
        self._tiles: list[dict[Instance, Tile]] = [{} for _ in self.stations]
        self._visited: list[dict[Instance, TensorArray]] = [{} for _ in self.stations]
        self._begun: tuple[int, ...] | None = None
        if self.stations[0].toll or len(self.stations) < 2:
            raise SpecError(f"tensor {tensor} of Einsum {nest.info.name} has no backing holder")

    def empty(self, time: tuple[int, ...]) -> None:
        """Empty the tiles of iterations that are over."""
        for i in reversed(range(len(self.stations))):
            if self._open[i] is not None and self._open[i] != time[: self.stations[i].times]:
                self._close(i)

    def fill(self, time: tuple[int, ...]) -> None:
        """Fill the tiles of the new iteration."""
        for i in range(len(self.stations)):
            if self._open[i] is None:
                self._fill(i, time[: self.stations[i].times])

    def leave(self, loops: int) -> None:
        """Empty every tile that stands below this many loops."""
        for i in reversed(range(len(self.stations))):
            if self._open[i] is not None and self.stations[i].loops >= loops:
                self._close(i)

    def at_compute(self, place: Instance) -> TensorArray:
        return self._tiles[-1][place].now

    def _fill(self, i: int, time: tuple[int, ...]) -> None:
        self._open[i] = time
        station = self.stations[i]
        if i == 0 and self._begun != time:  # another tile begins where the tensor is backed: nobody has been there yet
            self._begun, self._visited = time, [{} for _ in self.stations]
        if station.toll:
            return
        requests: dict[Instance, Request] = {}
        for instance, box in self._visits[i][time].items():
            if i == 0:
                view = self.world[self.tensor].view(box)
                self._tiles[i][instance] = Tile(TensorArray(box, view), view)
                continue
            values = self._parent(i, instance).view(box).copy()
            skipped = self._skip(i, instance, box, values)
            self._tiles[i][instance] = Tile(TensorArray(box, values), values.copy())
            requests[instance] = Request(size(box), skipped)
            self.traffic[i].writes[instance] += size(box) - skipped
        if requests:
            self._send_down(i, requests)

    def _skip(self, i: int, instance: Instance, box: TileBox, values: ValueArray) -> int:
        """Start from zero where this instance has never been; how many elements those are."""
        if not (self.output and self.stations[i].component.skip_initial_output_write):
            return 0
        visited = self._visited[i].setdefault(instance, zeros(self.world[self.tensor].box)).view(box)
        first = visited == 0
        values[first] = 0
        visited[...] = 1
        return int(np.count_nonzero(first))

    def _close(self, i: int) -> None:
        self._open[i] = None
        tiles, self._tiles[i] = self._tiles[i], {}
        if i == 0 or not self.output or self.stations[i].toll:
            return
        pushed: dict[Instance, Request] = {}
        for instance, tile in tiles.items():
            self._parent(i, instance).view(tile.now.box)[...] += tile.now.values - tile.start
            pushed[instance] = Request(size(tile.now.box), 0)
            self.traffic[i].reads[instance] += size(tile.now.box)
        self._send_up(i, pushed)

    def _parent(self, i: int, instance: Instance) -> TensorArray:
        """The tile from which an instance is filled: that of the next Storage above."""
        above = self._memory_above(i)
        return self._tiles[self.stations.index(above)][above.instance(instance)].now

    def _memory_above(self, i: int) -> Station:
        return next(station for station in reversed(self.stations[:i]) if not station.toll)

    def _send_down(self, i: int, requests: dict[Instance, Request]) -> None:
        while i > 0:
            skips = self._memory_above(i).component.skip_initial_output_write
            requests, i = self._cross(i, requests), i - 1
            station, reads = self.stations[i], self.traffic[i].reads
            for instance, request in requests.items():
                if not station.toll or station.component.direction[self.tensor] != "up":
                    reads[instance] += request.wanted - (request.skippable if skips else 0)
            if not station.toll:
                return

    def _send_up(self, i: int, pushed: dict[Instance, Request]) -> None:
        while i > 0:
            pushed, i = self._cross(i, pushed), i - 1
            station = self.stations[i]
            for instance, request in pushed.items():
                if not station.toll:
                    self.traffic[i].writes[instance] += request.wanted
                elif station.component.direction[self.tensor] != "down":
                    self.traffic[i].reads[instance] += request.wanted
            if not station.toll:
                return

    def _cross(self, i: int, requests: dict[Instance, Request]) -> dict[Instance, Request]:
        """Take requests of all instances of a station to the station above: one for all where that is allowed."""
        child, parent = self.stations[i], self.stations[i - 1]
        merged = (child.places - parent.places) & self.reused
        arrived: dict[Instance, Request] = {}
        for instance, request in requests.items():
            spokesman = tuple(0 if loop in merged else index for loop, index in enumerate(instance))
            if requests.get(spokesman) is None:
                raise AssertionError(f"{self.tensor}: {instance} is served by {spokesman}, which is idle")
            if instance == spokesman:
                above = parent.instance(instance)
                arrived[above] = arrived[above] + request if above in arrived else request
        return arrived


class EinsumMachine:
    """One Einsum: all its tensors move in step, and every lane computes at every step at which it has work."""

    def __init__(self, nest: SimulatedNest, world: Backings) -> None:
        self.nest, self.world = nest, world
        self.tensors = {tensor: TensorMachine(nest, tensor, world) for tensor in nest.info.accesses}
        self.operations: Counter[Instance] = Counter()
        self._lanes: dict[tuple[int, ...], list[tuple[Instance, Mapping[str, int]]]] = {}
        for point in nest.points:
            self._lanes.setdefault(point.time, []).append((point.place, point.values))

    def step(self, time: tuple[int, ...]) -> None:
        for machine in self.tensors.values():
            machine.empty(time)
        self.world.turn(self.nest, time)
        for machine in self.tensors.values():
            machine.fill(time)
        for place, _ in self._lanes[time]:
            product = np.ones((), np.uint64)
            for tensor, machine in self.tensors.items():
                if tensor != self.nest.info.output:
                    product = product * machine.at_compute(place).values.reshape(())
            self.tensors[self.nest.info.output].at_compute(place).values[...] += product
            self.operations[place] += 1

    def leave(self, loops: int) -> None:
        for machine in self.tensors.values():
            machine.leave(loops)

    def traffic(self) -> list[tuple[Station, Traffic]]:
        """Every holder with what was read and written there. The compute is no memory."""
        return [
            (station, traffic)
            for machine in self.tensors.values()
            for station, traffic in zip(machine.stations[:-1], machine.traffic[:-1], strict=True)
        ]


class CopyMachine:
    """A copy Einsum: each element is read once where the input is backed and written once where the output is."""

    def __init__(self, nest: SimulatedNest, world: Backings) -> None:
        self.nest, self.world = nest, world
        self.operations: Counter[Instance] = Counter()
        (self.source,) = (t for t in nest.info.accesses if t != nest.info.output)
        self.target = nest.info.output
        self._read: dict[Instance, set[tuple[int, ...]]] = {}
        self._written: dict[Instance, set[tuple[int, ...]]] = {}

    def step(self, time: tuple[int, ...]) -> None:
        self.world.turn(self.nest, time)
        for point in self.nest.points:
            if point.time != time:
                continue
            source_element = element(self.nest.info.accesses[self.source], point.values)
            target_element = element(self.nest.info.accesses[self.target], point.values)
            self._read.setdefault(self.nest.backing(self.source).instance(point.place), set()).add(source_element)
            self._written.setdefault(self.nest.backing(self.target).instance(point.place), set()).add(target_element)
            source_box, target_box = tuple((x, x) for x in source_element), tuple((x, x) for x in target_element)
            self.world[self.target].view(target_box)[...] = self.world[self.source].view(source_box).reshape(())

    def leave(self, loops: int) -> None:
        """Nothing is held below the backing holders."""

    def traffic(self) -> list[tuple[Station, Traffic]]:
        source, target = self.nest.backing(self.source), self.nest.backing(self.target)
        if source.component.name == target.component.name:
            return []
        reads = Traffic(reads=Counter({i: len(elements) for i, elements in self._read.items()}))
        writes = Traffic(writes=Counter({i: len(elements) for i, elements in self._written.items()}))
        return [(source, reads), (target, writes)]
