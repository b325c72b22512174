"""Every mapping of a few Einsums that share loops, also loops that make windows: all orders, nothing pruned but what costs more in all.

For each order: all ways to share loops, all places of exchanged tensors among them, all variables and tiles of Einsums that lead; those of
the others follow (`halo_groups`). Within these each Einsum has its own ways (`halo_ways`), which cost for themselves; of their space
others see what stands above loops in which they take turns. So ways are combined, and those that fit in the end are mappings. The model
counts the space of exchanged tensors, says whether values are right, and evaluates the best mappings again, as written.

Copies are not tried.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fusiest.base.errors import FusiestError
from fusiest.looptree import LoopTree, Nested, Node, Sequential, Storage
from fusiest.model import evaluate, take_apart
from fusiest.spec import Memory, Spec, flatten, paths_of
from fusiest.spec import architecture as arch
from tests.reference.choices import placements
from tests.reference.halo_groups import (
    ExchangePlace,
    GroupShape,
    LoopChoices,
    Together,
    common_depth,
    group_shapes,
    groups_of,
    path_of,
)
from tests.reference.halo_ways import CommonNode, EinsumWay, TooManyTogether, WaysOf
from tests.reference.joined_tree import NoTree, merged
from tests.reference.shape_chains import einsum_orders


@dataclass(frozen=True)
class FoundMapping:
    """A mapping with its costs."""

    energy: float
    latency: float
    tree: LoopTree
    has_windows: bool


@dataclass
class ExhaustiveHalos:
    """All mappings of a spec, or as many choices of common loops."""

    spec: Spec
    loops: int = 2
    """Most loops one inside the other that Einsums share."""
    imperfect: bool = False
    orders: str = "all"
    most: int = 50_000
    """Choices of common loops."""
    nests: int = 500_000
    """Nests of single Einsums that are evaluated."""
    tried: int = 0
    """Choices of common loops that were tried."""
    front: list[FoundMapping] = field(default_factory=list)
    """Mappings that no other is better than in energy and latency."""

    def __post_init__(self) -> None:
        self.infos = dict(self.spec.info.einsums)
        nodes = self.spec.require_arch().nodes
        roomy = dataclasses.replace(self.spec.require_arch(), nodes=arch.rewritten(nodes, _roomy))
        self.roomy = dataclasses.replace(self.spec, arch=roomy)
        self.sizes = {str(n.name): self._size(str(n.name)) for n in flatten(nodes) if isinstance(n, Memory)}
        self.limited = [m for m, sizes in self.sizes.items() if min(sizes.values()) < math.inf]
        first = next(iter(paths_of(self.spec, next(iter(self.infos)))))
        self.outermost = next(c.name for c in first.components if c.kind == "memory")
        self.ways = WaysOf(self.spec, self.imperfect, self.nests)
        self.backed = {t: self._memories(t) for t in self.spec.info.shared}

    def _size(self, memory: str) -> dict[str, float]:
        """The size of a memory while each Einsum runs."""
        sizes = {}
        for name in self.infos:
            sizes[name] = next(
                (c.size for p in paths_of(self.spec, name) for c in p.components if c.name == memory), math.inf
            )
        return sizes

    def _memories(self, tensor: str) -> tuple[str, ...]:
        """Memories in which all users may back a tensor."""
        options: list[set[str]] = []
        for user in self.spec.info.users[tensor]:
            found: set[str] = set()
            for path in paths_of(self.spec, user):
                for placement in placements(self.spec, path) if path.compute.enabled else ():
                    found |= {
                        path.components[h.level].name for h in placement.holders if h.backing and h.tensor == tensor
                    }
            options.append(found)
        return tuple(sorted(set.intersection(*options)))

    def search(self) -> list[FoundMapping]:
        """Go through all choices."""
        orders = einsum_orders(self.spec) if self.orders == "all" else [tuple(self.infos)]
        for order in orders:
            for shape in group_shapes(range(len(order)), self.loops):
                for places in self._places(order, shape):
                    for together in LoopChoices(self.spec, order, shape, places, self.imperfect).all():
                        self.tried += 1
                        if self.tried > self.most:
                            raise TooManyTogether
                        self._try(together)
        return self.front

    def least(self, objective: str) -> float:
        """The least energy, latency or product."""
        costs = {"energy": lambda m: m.energy, "latency": lambda m: m.latency, "edp": lambda m: m.energy * m.latency}
        return min(map(costs[objective], self.front), default=math.inf)

    # --- places of exchange -------------------------------------------------------------------------------------------

    def _places(self, order: Sequence[str], shape: GroupShape) -> Iterator[dict[str, ExchangePlace]]:
        """All places of exchanged tensors with which every common loop has a use: something on chip is exchanged in it."""
        outermost = self.outermost
        options: list[list[tuple[str, ExchangePlace]]] = []
        for tensor, memories in sorted(self.backed.items()):
            deepest = common_depth(shape, [order.index(u) for u in self.spec.info.users[tensor]])
            persistent = any(tensor in info.persistent for info in self.infos.values())
            options.append(
                [
                    (tensor, ExchangePlace(m, depth))
                    for m in memories
                    for depth in range(1 if m == outermost or persistent else deepest + 1)
                ]
            )
        for chosen in itertools.product(*options):
            places = dict(chosen)
            if all(
                self._has_use(order, shape, places, group, n, outermost)
                for group in groups_of(shape)
                for n in range(group.loops)
            ):
                yield places

    def _has_use(
        self,
        order: Sequence[str],
        shape: GroupShape,
        places: Mapping[str, ExchangePlace],
        group: GroupShape,
        number: int,
        outermost: str,
    ) -> bool:
        """Whether across every cut between Einsums of a group something on chip lives that all its users hold in this loop."""
        inside = {order[i] for i in group.einsums}
        above = path_of(shape, group.einsums.start).index((group.einsums, number))
        for cut in range(group.einsums.start + 1, group.einsums.stop):
            before, after = set(order[:cut]), set(order[cut:])
            crossing = [
                t
                for t, place in places.items()
                if (users := set(self.spec.info.users[t])) & before
                and users & after
                and place.memory != outermost
                and users <= inside
            ]
            if not any(places[t].depth > above or self.infos_of(t) for t in crossing):
                return False
        return True

    def infos_of(self, tensor: str) -> bool:
        """Whether some Einsum makes a tensor: its windows may be kept above a loop."""
        return tensor in self.spec.info.producers

    # --- one choice ---------------------------------------------------------------------------------------------------

    def _try(self, together: Together) -> None:
        own = {name: self._own_ways(together, name) for name in together.order}
        if not all(own.values()) or self._is_beaten(own):
            return
        plain = {name: dataclasses.replace(ways[0], held=tuple(() for _ in ways[0].held)) for name, ways in own.items()}
        try:
            parts = take_apart(self.roomy, self._plain(together, plain))
        except FusiestError:
            return
        if parts.warnings:
            return
        depth = [[self._shared_loops(together, parts, i, j) for j in range(len(own))] for i in range(len(own))]
        exchanged = [
            {m: sum(b for (at, t), b in held.items() if at == m and t in together.places) for m in self.sizes}
            for held in parts.held.per_einsum
        ]
        self._combine(together, own, exchanged, depth)

    def _plain(self, together: Together, ways: Mapping[str, EinsumWay]) -> LoopTree:
        """The mapping without storage nodes besides those of exchange and the outermost ones."""
        outside = {
            Storage(tensors=(t,), component=self.outermost, persistent=t in info.persistent)
            for info in self.infos.values()
            for t in info.accesses
            if t not in together.places
        }
        inside = {
            name: tuple(node for node in way.inside if not isinstance(node, Storage)) for name, way in ways.items()
        }
        bare = {name: dataclasses.replace(way, inside=inside[name]) for name, way in ways.items()}
        return LoopTree(nodes=(*sorted(outside, key=str), *written(self.spec, together, bare).nodes))

    def _own_ways(self, together: Together, name: str) -> list[EinsumWay]:
        loops = together.paths[name]
        shared = {t: together.places[t] for t in self.infos[name].accesses if t in together.places}
        at = [together.order.index(name)]
        alone = {
            t: max(
                common_depth(together.shape, [*at, together.order.index(u)])
                for u in self.spec.info.users[t]
                if u != name
            )
            for t in shared
        }
        return self.ways.find(name, loops, shared, alone)

    def _is_beaten(self, own: Mapping[str, list[EinsumWay]]) -> bool:
        energy = sum(min(way.energy for way in ways) for ways in own.values()) * (1 - 1e-12)
        latency = sum(min(way.latency for way in ways) for ways in own.values()) * (1 - 1e-12)
        return any(m.energy <= energy and m.latency <= latency for m in self.front)

    def _shared_loops(self, together: Together, parts: object, i: int, j: int) -> int:
        """In how many loops two Einsums take turns, as the model says."""
        nests = parts.nests  # type: ignore[attr-defined]
        count = 0
        for a, b in zip(nests[i].numbers, nests[j].numbers, strict=False):
            if a != b:
                break
            count += 1
        if i == j:
            return count
        caps = [0] * (len(nests) - 1)
        for tensor, place in together.places.items():
            users = [together.order.index(u) for u in self.spec.info.users[tensor]]
            window = next((n.kept_windows[tensor].loops for n in nests if tensor in n.kept_windows), 0)
            for cut in range(min(users), max(users)):
                caps[cut] = max(caps[cut], place.depth + window)
        return min([count, *caps[min(i, j) : max(i, j)]])

    def _combine(
        self,
        together: Together,
        own: Mapping[str, list[EinsumWay]],
        exchanged: Sequence[Mapping[str, float]],
        depth: Sequence[Sequence[int]],
    ) -> None:
        """All choices of ways that fit, by the storage nodes that Einsums have in common."""
        alike: list[dict[tuple[CommonNode, ...], list[EinsumWay]]] = []
        for name in together.order:
            by_common: dict[tuple[CommonNode, ...], list[EinsumWay]] = {}
            for way in own[name]:
                by_common.setdefault(way.common, []).append(way)
            alike.append(by_common)
        for chosen in itertools.product(*alike):
            if self._agree(together, chosen) and self._in_turn(together, chosen, depth):
                ways = [by_common[common] for by_common, common in zip(alike, chosen, strict=True)]
                self._fit(together, ways, self._start(exchanged, chosen, depth), depth)

    def _agree(self, together: Together, chosen: Sequence[tuple[CommonNode, ...]]) -> bool:
        """Whether all users of a tensor inside a common loop have the same storage nodes of it above that loop."""
        for i, nodes in enumerate(chosen):
            for node in nodes:
                for user in self.spec.info.users[node.tensor]:
                    j = together.order.index(user)
                    if common_depth(together.shape, [i, j]) > node.depth and node.place not in [
                        n.place for n in chosen[j]
                    ]:
                        return False
        return True

    def _in_turn(
        self, together: Together, chosen: Sequence[tuple[CommonNode, ...]], depth: Sequence[Sequence[int]]
    ) -> bool:
        """Whether no Einsum holds elsewhere, above a loop in which its maker and a user take turns, what they exchange there."""
        for i, nodes in enumerate(chosen):
            for node in nodes:
                makers = [together.order.index(m) for m in self.spec.info.producers.get(node.tensor, ())]
                users = [together.order.index(u) for u in self.spec.info.users[node.tensor]]
                if any(i in (m, u) and m != u and depth[m][u] > node.depth for m in makers for u in users):
                    return False
        return True

    def _start(
        self,
        exchanged: Sequence[Mapping[str, float]],
        chosen: Sequence[tuple[CommonNode, ...]],
        depth: Sequence[Sequence[int]],
    ) -> tuple[float, ...]:
        """Bits of exchanged tensors and of common nodes while each Einsum runs. Of users of one node the largest counts."""
        taken = []
        for m in self.limited:
            for i in range(len(chosen)):
                largest: dict[str, float] = {}
                for j, nodes in enumerate(chosen):
                    for n in nodes:
                        if n.memory == m and (i == j or n.level < depth[i][j]):
                            largest[n.tensor] = max(largest.get(n.tensor, 0.0), n.bits)
                taken.append(exchanged[i][m] + sum(largest.values()))
        return tuple(taken)

    def _fit(
        self,
        together: Together,
        options: Sequence[list[EinsumWay]],
        start: tuple[float, ...],
        depth: Sequence[Sequence[int]],
    ) -> None:
        """All choices of ways that fit; of those so far, only what others are not better than in everything."""
        names, count = list(together.order), len(options)
        sizes = tuple(self.sizes[m][name] for m in self.limited for name in names)
        if any(a > b for a, b in zip(start, sizes, strict=True)):
            return
        states: list[tuple[tuple[float, ...], tuple[EinsumWay, ...]]] = [((0.0, 0.0, *start), ())]
        for j, ways in enumerate(options):
            rows = []
            for costs, chosen in states:
                for way in ways:
                    bits = (
                        sum(b for (at, level), b in way.bits.items() if at == m and (i == j or level < depth[i][j]))
                        for m in self.limited
                        for i in range(count)
                    )
                    taken = tuple(a + b for a, b in zip(costs[2:], bits, strict=True))
                    if all(a <= b for a, b in zip(taken, sizes, strict=True)):
                        rows.append(((costs[0] + way.energy, costs[1] + way.latency, *taken), (*chosen, way)))
            states = _undominated(rows)
        for (energy, latency, *_), chosen in states:
            self._note(together, dict(zip(names, chosen, strict=True)), energy, latency)

    def _note(self, together: Together, ways: Mapping[str, EinsumWay], energy: float, latency: float) -> None:
        if any(m.energy <= energy * (1 + 1e-12) and m.latency <= latency * (1 + 1e-12) for m in self.front):
            return
        try:
            tree = written(self.spec, together, ways)
        except NoTree:
            return
        cost = evaluate(self.spec, tree)  # raises if it does not fit after all
        assert not cost.warnings, cost.warnings
        assert math.isclose(cost.energy, energy, rel_tol=1e-9), (cost.energy, energy)
        assert math.isclose(cost.latency, latency, rel_tol=1e-9), (cost.latency, latency)
        windows = any(t.end != t.step or t.start != 0 for loop in together.loops.values() for t in loop.tiles.values())
        windows |= any(len({t.step for t in loop.tiles.values()}) > 1 for loop in together.loops.values())
        self.front = [m for m in self.front if not (energy <= m.energy and latency <= m.latency)]
        self.front.append(FoundMapping(energy, latency, tree, windows))


def _undominated(
    rows: list[tuple[tuple[float, ...], tuple[EinsumWay, ...]]],
) -> list[tuple[tuple[float, ...], tuple[EinsumWay, ...]]]:
    kept: list[tuple[tuple[float, ...], tuple[EinsumWay, ...]]] = []
    for row in sorted(rows, key=lambda r: r[0]):
        if not any(all(a <= b for a, b in zip(other[0], row[0], strict=True)) for other in kept):
            kept.append(row)
    return kept


def _roomy(node: arch.Container) -> arch.Container:
    return dataclasses.replace(node, size=math.inf) if isinstance(node, Memory) else node


def written(spec: Spec, together: Together, ways: Mapping[str, EinsumWay]) -> LoopTree:
    """The mapping. Raises NoTree if Einsums have common storage nodes in different orders."""
    return LoopTree(nodes=_written(spec, together, ways, together.shape, 0))


def _written(
    spec: Spec, together: Together, ways: Mapping[str, EinsumWay], shape: GroupShape, depth: int
) -> tuple[Node, ...]:
    names = [together.order[i] for i in shape.einsums]
    if len(names) == 1:
        return (*_others(together, ways[names[0]], depth), *ways[names[0]].inside)
    nodes: list[Node] = []
    for number in range(shape.loops):
        nodes += _exchange(together, spec, shape, depth + number)
        nodes += merged([_others(together, ways[name], depth + number) for name in names])
        nodes.append(together.loops[shape.einsums, number].node(spec.info.einsums))
    below = depth + shape.loops
    nodes += [node for node in _exchange(together, spec, shape, below) if not _is_in_part(together, spec, shape, node)]
    branches = tuple(Nested(nodes=_written(spec, together, ways, part, below)) for part in shape.parts)
    return (*nodes, Sequential(nodes=branches))


def _exchange(together: Together, spec: Spec, shape: GroupShape, depth: int) -> list[Storage]:
    """Storage nodes at which Einsums of a group exchange tensors, below so many loops."""
    nodes: list[Storage] = []
    for tensor, place in together.places.items():
        users = {together.order.index(u) for u in spec.info.users[tensor]}
        if place.depth == depth and users <= set(shape.einsums):
            persistent = any(tensor in info.persistent for info in spec.info.einsums.values())
            nodes.append(Storage(tensors=(tensor,), component=place.memory, persistent=persistent))
    return nodes


def _is_in_part(together: Together, spec: Spec, shape: GroupShape, node: Storage) -> bool:
    """Whether Einsums of one part alone use a tensor: then it is written there."""
    users = {together.order.index(u) for u in spec.info.users[node.tensors[0]]}
    return any(users <= set(part.einsums) for part in shape.parts)


def _others(together: Together, way: EinsumWay, depth: int) -> tuple[Node, ...]:
    """An Einsum's storage nodes below so many loops, but for those of exchange."""
    places = together.places
    held = (node for node in way.held[depth] if isinstance(node, Storage))
    return tuple(n for n in held if n.tensors[0] not in places or places[n.tensors[0]].memory != n.component)
