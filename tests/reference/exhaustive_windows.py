"""Every mapping with windows of a few Einsums on two memories: one after the other, nothing pruned.

All Einsums share one or two loops over tiles of rows and columns. Each tensor that they exchange is held above, between or below
these loops: kept, or made again. What an Einsum does on its own costs for itself; of its space others see what it holds above the
loops. So its ways are tried one by one, beside plain ways of the others, each evaluated by the model with room for
everything, and those that fit go together.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from fusiest.base.errors import FusiestError
from fusiest.base.frozen import FrozenDict
from fusiest.looptree import Compute, LoopTree, Nested, Node, Sequential, Storage, Temporal
from fusiest.model import evaluate, evaluate_einsum, take_apart
from fusiest.spec import EinsumInfo, Memory, Spec, computes, flatten

Tiles: TypeAlias = tuple[int, int, int]
"""Start and end of the first one, if nothing is left out before 0, and the step."""


class OwnWay(NamedTuple):
    """What one Einsum does: holders above each common loop, and its branch. What it costs and takes."""

    costs: tuple[float, ...]
    """Energy, and bits while each Einsum runs: of its own tensors, and while it runs itself of exchanged ones, too."""
    above: tuple[tuple[Node, ...], ...]
    inside: tuple[Node, ...]


TakenWays: TypeAlias = tuple[tuple[float, ...], tuple[OwnWay, ...]]
"""Costs, and ways of the first Einsums."""


@dataclass(frozen=True)
class CommonLoops:
    """One choice of the loops that all share, and where exchanged tensors are among them."""

    variables: tuple[Mapping[str, str], ...]
    """Per loop, the variable of each Einsum."""
    tiles: tuple[Mapping[str, Tiles], ...]
    levels: Mapping[str, int]
    """Per exchanged tensor: how many of the loops stand above it."""


@dataclass
class ExhaustiveWindows:
    """The least energy of Einsums that share loops which make windows."""

    spec: Spec
    dividing: bool = True
    """Tiles of the last Einsum divide its bounds."""
    ends: tuple[str, ...] = ()
    """Tensors shared with Einsums that are not here: they stay in the inner memory, whole."""
    evaluated: int = 0
    least: float = math.inf
    best: LoopTree | None = None
    infos: dict[str, EinsumInfo] = field(init=False)

    def __post_init__(self) -> None:
        self.infos = dict(self.spec.info.einsums)
        nodes = self.spec.require_arch().nodes
        memories = [node for node in flatten(nodes) if isinstance(node, Memory)]
        self.outer, self.inner = (str(m.name) for m in memories)
        self.size = float(memories[1].size)
        (self.compute,) = computes(self.spec.require_arch())
        self.made_inside = [info.output for info in list(self.infos.values())[:-1]]
        self.exchanged = [*self.made_inside, *self.ends]
        roomy = tuple(dataclasses.replace(n, size=math.inf) if n is memories[1] else n for n in nodes)
        self.roomy = dataclasses.replace(self.spec, arch=dataclasses.replace(self.spec.require_arch(), nodes=roomy))

    def search(self) -> float:
        """Over all common loops."""
        for common in self._all_common():
            self._try(common)
        return self.least

    # --- common loops -------------------------------------------------------------------------------------------------

    def _all_common(self) -> Iterator[CommonLoops]:
        last = list(self.infos.values())[-1]
        if len(self.infos) == 1:
            yield CommonLoops((), (), {})
            return
        rows = list(last.accesses[last.output].fully_relevant)
        for count in range(1, len(rows) + 1):
            for chosen in itertools.permutations(sorted(rows), count):
                sizes = [
                    [t for t in range(1, last.bounds[v]) if not self.dividing or last.bounds[v] % t == 0]
                    for v in chosen
                ]
                for tiles in itertools.product(*sizes):
                    for levels in itertools.product(range(count + 1), repeat=len(self.made_inside)):
                        where = dict(zip(self.made_inside, levels, strict=True))
                        derived = [
                            self._made(v, t, i, where) for i, (v, t) in enumerate(zip(chosen, tiles, strict=True))
                        ]
                        possible = [one for one in derived if one is not None]
                        if len(possible) == count:
                            yield CommonLoops(tuple(v for v, _ in possible), tuple(t for _, t in possible), where)

    def _made(
        self, variable: str, tile: int, number: int, levels: Mapping[str, int]
    ) -> tuple[dict[str, str], dict[str, Tiles]] | None:
        """What each Einsum makes in an iteration: what all users of its result need; of what is kept, the rest of it."""
        (*names, last) = self.infos
        variables, tiles = {last: variable}, {last: (0, tile, tile)}
        for name in reversed(names):
            output = self.infos[name].output
            needs = []
            for user in (u for u in self.spec.info.users[output] if u != name):
                info = self.infos[user]
                ranks = [(r, a) for r, a in info.accesses[output].ranks.items() if variables[user] in a.coefficients]
                if len(ranks) != 1:
                    return None
                ((rank, affine),) = ranks
                a = affine.coefficients[variables[user]]
                reach = sum(b * (info.bounds[v] - 1) for v, b in affine.coefficients.items() if v != variables[user])
                start, end, step = tiles[user]
                begin = a * start + affine.constant
                needs.append((rank, begin, a * (end - 1) + affine.constant + reach + 1, a * step))
            if len({(rank, step) for rank, _, _, step in needs}) != 1:
                return None
            (output_variable,) = self.infos[name].accesses[output].ranks[needs[0][0]].variables
            begin, end, step = min(n[1] for n in needs), max(n[2] for n in needs), needs[0][3]
            if levels[output] <= number and end - begin > step:
                begin = end - step
            elif levels[output] <= number and end - begin < step:
                return None  # left out, which needs a holder below
            variables[name], tiles[name] = output_variable, (begin, end, step)
        return variables, tiles

    def _loop(self, common: CommonLoops, number: int) -> Temporal:
        tiles = common.tiles[number]
        lengths = {name: end - start for name, (start, end, _) in tiles.items()}
        first = {name: end for name, (start, end, _) in tiles.items() if start}
        steps = {name: step for name, (start, end, step) in tiles.items() if step != end - start}
        return Temporal(
            rank_variable=FrozenDict(common.variables[number]),
            tile_shape=FrozenDict(lengths),
            initial_tile_shape=FrozenDict(first) if first else None,
            step=FrozenDict(steps) if steps else None,
        )

    # --- one Einsum's ways --------------------------------------------------------------------------------------------

    def _try(self, common: CommonLoops) -> None:
        """All ways of each Einsum, and the best that fit together."""
        empty = ((),) * len(common.tiles)
        plain = {name: OwnWay((), empty, self._plain(info)) for name, info in self.infos.items()}
        states: list[TakenWays] = [((0.0,) * (1 + len(self.infos)), ())]
        for name in self.infos:
            ways: dict[tuple[float, ...], OwnWay] = {}
            for way in self._ways(common, name):
                if (costed := self._evaluated(common, {**plain, name: way}, name)) is not None:
                    ways.setdefault(costed.costs, costed)
            best = _least([(costs, (way,)) for costs, way in ways.items()])
            states = _least(
                [
                    (tuple(x + y for x, y in zip(a, b, strict=True)), (*before, *added))
                    for a, before in states
                    for b, added in best
                ]
            )
        for (energy, *bits), together in states:
            if max(bits) <= self.size and energy < self.least:
                tree = self._tree(common, dict(zip(self.infos, together, strict=True)))
                cost = evaluate(self.spec, tree)  # raises if it does not fit after all
                assert not cost.warnings
                assert math.isclose(cost.energy, energy, rel_tol=1e-9), (cost.energy, energy)
                self.least, self.best = energy, tree

    def _plain(self, info: EinsumInfo) -> tuple[Node, ...]:
        return tuple(Temporal(rank_variable=v, tile_shape=1) for v, bound in info.bounds.items() if bound > 1)

    def _ways(self, common: CommonLoops, name: str) -> Iterator[OwnWay]:
        """What is held where, tiles that divide the tile of all common loops, all orders of loops and holders."""
        info = self.infos[name]
        extents = dict(info.bounds)
        for variables, tiles in zip(common.variables, common.tiles, strict=True):
            start, end, _ = tiles[name]
            v = variables[name]
            extents[v] = min(extents[v], end if start > 0 else end - start)
        private = [t for t in info.accesses if len(self.spec.info.users[t]) == 1 and t not in self.ends]
        for count in range(len(private) + 1):
            for held in itertools.combinations(private, count):
                for levels in itertools.product(range(len(common.tiles) + 1), repeat=count):
                    for above, inside in self._placed(dict(zip(held, levels, strict=True)), len(common.tiles)):
                        for nest in _nests(extents, [self._held(t) for t in inside]):
                            yield OwnWay((), above, nest)

    def _placed(
        self, levels: Mapping[str, int], count: int
    ) -> Iterator[tuple[tuple[tuple[Node, ...], ...], list[str]]]:
        """All orders of holders above each common loop, and those that are below all of them."""
        tensors_at = [[t for t, level in levels.items() if level == i] for i in range(count + 1)]
        for orders in itertools.product(*(itertools.permutations(tensors) for tensors in tensors_at[:count])):
            yield tuple(tuple(self._held(t) for t in order) for order in orders), tensors_at[count]

    def _held(self, tensor: str) -> Storage:
        return Storage(tensors=(tensor,), component=self.inner)

    def _tree(self, common: CommonLoops, ways: Mapping[str, OwnWay]) -> LoopTree:
        outside = tuple(t for t in self.spec.info.users if t not in self.exchanged)
        nodes: list[Node] = [Storage(tensors=outside, component=self.outer), *map(self._held, self.ends)]
        for number in range(len(common.tiles) + 1):
            nodes += [self._held(t) for t, level in common.levels.items() if level == number]
            if number < len(common.tiles):
                nodes += [node for way in ways.values() for node in way.above[number]]
                nodes.append(self._loop(common, number))
        branches = [(*way.inside, Compute(einsum=name, component=self.compute)) for name, way in ways.items()]
        if len(branches) == 1:
            return LoopTree(nodes=(*nodes, *branches[0]))
        return LoopTree(nodes=(*nodes, Sequential(nodes=tuple(Nested(nodes=branch) for branch in branches))))

    def _evaluated(self, common: CommonLoops, ways: Mapping[str, OwnWay], name: str) -> OwnWay | None:
        """The way with its costs; None if it is wrong."""
        self.evaluated += 1
        try:
            parts = take_apart(self.roomy, self._tree(common, ways))
        except FusiestError:
            return None
        if parts.warnings:
            return None
        at = list(self.infos).index(name)
        private = self.infos[name].accesses.keys() - set(self.exchanged)
        bits = [
            sum(b for (m, t), b in held.items() if m == self.inner and (i == at or t in private))
            for i, held in enumerate(parts.held.per_einsum)
        ]
        energy = evaluate_einsum(self.roomy, parts.nests[at], parts.bound[name]).energy
        return ways[name]._replace(costs=(energy, *bits))


def _nests(extents: Mapping[str, int], holders: Sequence[Node]) -> Iterator[tuple[Node, ...]]:
    """All orders of these holders and of loops whose tiles divide."""
    chains = [[(v, chain) for chain in _chains(extent)] for v, extent in extents.items()]
    for chosen in itertools.product(*chains):
        loops = [[Temporal(rank_variable=v, tile_shape=t) for t in chain] for v, chain in chosen]
        yield from _shuffled([*loops, *([h] for h in holders)])


def _chains(extent: int) -> list[tuple[int, ...]]:
    """Tiles that each divide the one above, down to 1."""
    if extent == 1:
        return [()]
    return [(t, *rest) for t in range(1, extent) if extent % t == 0 for rest in _chains(t)]


def _shuffled(queues: Sequence[Sequence[Node]]) -> Iterator[tuple[Node, ...]]:
    """All ways to merge sequences."""
    if not any(queues):
        yield ()
    for i, queue in enumerate(queues):
        if queue:
            for rest in _shuffled([*queues[:i], queue[1:], *queues[i + 1 :]]):
                yield (queue[0], *rest)


def _least(rows: Sequence[TakenWays]) -> list[TakenWays]:
    """Those that no other one is better than in everything."""
    kept: list[TakenWays] = []
    for row in sorted(rows, key=lambda r: r[0]):
        if not any(all(a <= b for a, b in zip(other[0], row[0], strict=True)) for other in kept):
            kept.append(row)
    return kept
