"""What Einsums in an order may have in common, literally: groups with common loops, where tensors are exchanged, and in which tiles
each Einsum steps a common loop.

An Einsum whose result is used in the loop makes, in each iteration, what its users there need: all of it where the tensor is held
below the loop, else what was not made before. An Einsum whose result nobody uses there leads: its tiles are even.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fusiest.base.frozen import FrozenDict
from fusiest.looptree import Temporal, Tiling
from fusiest.spec import EinsumInfo, Spec


class LoopTiles(NamedTuple):
    """LoopTiles of a variable: the i-th goes from start + i·step to end + i·step, the first from 0; what lies outside is left out."""

    start: int
    end: int
    step: int


@dataclass(frozen=True)
class GroupShape:
    """Einsums, by their places in the order, that share some loops, and how they part below these."""

    einsums: range
    loops: int
    parts: tuple[GroupShape, ...] = ()


@dataclass(frozen=True)
class CommonLoop:
    """A loop that several Einsums share."""

    variables: FrozenDict[str, str]
    tiles: FrozenDict[str, LoopTiles]
    times: int
    led: tuple[int, int] = (0, 0)
    """Extent and tile of an Einsum that leads."""

    def is_plain(self, einsum: str, bound: int) -> bool:
        """Whether one of its Einsums steps it just as one that leads."""
        return (bound, *self.tiles[einsum]) == (self.led[0], 0, self.led[1], self.led[1])

    def tiling(self, einsum: str, bound: int) -> Tiling:
        """The loop's tiles in one of its Einsums. The first one ends where the variable does."""
        start, end, step = self.tiles[einsum]
        return Tiling(min(end, bound) if end - start == step else end, end - start, step)

    def node(self, infos: Mapping[str, EinsumInfo]) -> Temporal:
        """The loop for a LoopTree."""
        tilings = {name: self.tiling(name, infos[name].bounds[v]) for name, v in self.variables.items()}
        first = {name: t.first for name, t in tilings.items() if t.first != t.tile}
        steps = {name: t.step for name, t in tilings.items() if t.step != t.tile}
        return Temporal(
            rank_variable=self.variables,
            tile_shape=FrozenDict({name: t.tile for name, t in tilings.items()}),
            initial_tile_shape=FrozenDict(first) if first else None,
            step=FrozenDict(steps) if steps else None,
        )


class ExchangePlace(NamedTuple):
    """Where Einsums exchange a tensor: its memory, and how many of the loops that all its users share stand above it."""

    memory: str
    depth: int


@dataclass(frozen=True)
class Together:
    """One choice of all that Einsums have in common."""

    order: tuple[str, ...]
    shape: GroupShape
    loops: Mapping[tuple[range, int], CommonLoop]
    """By the Einsums of a group, and number of the loop there."""
    places: Mapping[str, ExchangePlace]
    """Of each tensor that several Einsums use."""

    @functools.cached_property
    def paths(self) -> dict[str, tuple[CommonLoop, ...]]:
        """The common loops of each Einsum, outermost first."""
        paths: dict[str, tuple[CommonLoop, ...]] = {}
        for i, name in enumerate(self.order):
            paths[name] = tuple(self.loops[key] for key in path_of(self.shape, i))
        return paths


def group_shapes(einsums: range, most: int, least: int = 0) -> Iterator[GroupShape]:
    """All ways in which neighbours may share loops, at most so many one inside the other."""
    if len(einsums) == 1:
        yield GroupShape(einsums, 0)
        return
    for loops in range(least, most + 1):
        for cuts in _cuts(einsums):
            options = [list(group_shapes(part, most - loops, 1)) for part in cuts]
            for parts in itertools.product(*options):
                yield GroupShape(einsums, loops, parts)


def _cuts(einsums: range) -> Iterator[list[range]]:
    """All ways to cut a range into two or more."""
    inner = range(einsums.start + 1, einsums.stop)
    for count in range(1, len(inner) + 1):
        for chosen in itertools.combinations(inner, count):
            ends = (einsums.start, *chosen, einsums.stop)
            yield [range(a, b) for a, b in itertools.pairwise(ends)]


def path_of(shape: GroupShape, einsum: int) -> list[tuple[range, int]]:
    """The loops above an Einsum: those of each group that it is in."""
    keys = [(shape.einsums, number) for number in range(shape.loops)]
    for part in shape.parts:
        if einsum in part.einsums:
            return keys + path_of(part, einsum)
    return keys


def groups_of(shape: GroupShape) -> Iterator[GroupShape]:
    """A group and all groups in it."""
    yield shape
    for part in shape.parts:
        yield from groups_of(part)


def common_depth(shape: GroupShape, einsums: Sequence[int]) -> int:
    """How many loops all these Einsums share."""
    paths = [path_of(shape, i) for i in einsums]
    return sum(1 for keys in zip(*paths, strict=False) if len(set(keys)) == 1)


@dataclass(frozen=True)
class LoopChoices:
    """All choices of common loops for one order, shape and exchange places."""

    spec: Spec
    order: tuple[str, ...]
    shape: GroupShape
    places: Mapping[str, ExchangePlace]
    imperfect: bool

    def all(self) -> Iterator[Together]:
        """Each choice once."""
        keys = list(dict.fromkeys((g.einsums, n) for g in groups_of(self.shape) for n in range(g.loops)))
        yield from self._extend(keys, {})

    def _extend(self, keys: list[tuple[range, int]], chosen: dict[tuple[range, int], CommonLoop]) -> Iterator[Together]:
        if not keys:
            yield Together(self.order, self.shape, dict(chosen), self.places)
            return
        key, *rest = keys
        above = [chosen[k] for k in chosen if set(key[0]) <= set(k[0])]
        for loop in self._loops(key, above):
            yield from self._extend(rest, {**chosen, key: loop})

    def _loops(self, key: tuple[range, int], above: Sequence[CommonLoop]) -> Iterator[CommonLoop]:
        """All tiles of one loop: those that lead choose, the others follow."""
        names = [self.order[i] for i in key[0]]
        leaders = [name for name in names if not self._users(name, set(names))]
        options = [list(self._even(name, above)) for name in leaders]
        for led in itertools.product(*options):
            if len({iterations for _, _, iterations in led}) == 1:
                variables = {name: v for name, (v, _, _) in zip(leaders, led, strict=True)}
                tiles = {name: LoopTiles(0, t, t) for name, (_, t, _) in zip(leaders, led, strict=True)}
                is_cut = any(loop.variables[leaders[0]] == variables[leaders[0]] for loop in above)
                if self._follow(key, names, variables, tiles, above) and (
                    is_cut or self._are_few(variables, tiles, led[0][2][0])
                ):
                    bound = self.spec.info.einsums[leaders[0]].bounds[led[0][0]]
                    yield CommonLoop(FrozenDict(variables), FrozenDict(tiles), led[0][2][0], (bound, led[0][1]))

    def _are_few(self, variables: Mapping[str, str], tiles: Mapping[str, LoopTiles], times: int) -> bool:
        """Whether no Einsum has more even tiles than the loop has iterations: then it would have more."""
        bounds = {name: self.spec.info.einsums[name].bounds[v] for name, v in variables.items()}
        even = (name for name, (start, end, step) in tiles.items() if not start and end == step)
        return all(-(-bounds[name] // tiles[name].step) <= times for name in even)

    def _users(self, name: str, inside: set[str]) -> list[str]:
        output = self.spec.info.einsums[name].output
        return [u for u in self.spec.info.users[output] if u != name and u in inside]

    def _even(self, name: str, above: Sequence[CommonLoop]) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        """Variables, tiles and iterations. Inside a loop that makes windows, iterations depend on the window."""
        for v, bound in self.spec.info.einsums[name].bounds.items():
            outer = [loop for loop in above if loop.variables[name] == v]
            if not outer:
                for tile in range(1, bound):
                    if self.imperfect or bound % tile == 0:
                        yield v, tile, (-(-bound // tile),)
            elif len(outer) == 1 and not outer[0].is_plain(name, bound):
                lengths = sorted(outer[0].tiling(name, bound).lengths(bound, outer[0].times))
                for tile in range(1, lengths[-1]):
                    if self.imperfect or any(n % tile == 0 for n in lengths):
                        yield v, tile, (-(-lengths[-1] // tile), *(-(-n // tile) for n in lengths))

    def _follow(
        self,
        key: tuple[range, int],
        names: list[str],
        variables: dict[str, str],
        tiles: dict[str, LoopTiles],
        above: Sequence[CommonLoop],
    ) -> bool:
        """Add what Einsums do whose results are used in the loop; whether there is such a thing."""
        infos = self.spec.info.einsums
        for name in reversed(names):
            if name in variables:
                continue
            users, output = self._users(name, set(names)), infos[name].output
            needs = [needed(infos[u], output, variables[u], tiles[u]) for u in users]
            known = [need for need in needs if need is not None]
            if len(known) < len(needs) or len({(rank, wanted.step) for rank, wanted in known}) != 1:
                return False
            rank, (_, _, step) = known[0]
            index = infos[name].accesses[output].ranks[rank]
            if len(index.variables) != 1 or set(index.coefficients.values()) != {1}:
                return False
            (variables[name],) = index.variables
            outer = [loop for loop in above if loop.variables[name] == variables[name]]
            if outer:
                if not all(self._are_alike(outer, name, u, variables) for u in users):
                    return False
                tiles[name] = LoopTiles(0, step, step)
                continue
            start = min(wanted.start for _, wanted in known) - index.constant
            end = max(wanted.end for _, wanted in known) - index.constant
            if self._is_kept(output, key):
                start = end - step
            if end < 1:
                return False
            tiles[name] = LoopTiles(start, end, step)
        return True

    def _are_alike(self, outer: Sequence[CommonLoop], name: str, user: str, variables: Mapping[str, str]) -> bool:
        """Whether a user reads one by one what an Einsum makes in the same windows, which an inner loop cuts into pieces."""
        infos = self.spec.info.einsums
        (loop, *others) = outer
        if others or loop.variables[user] != variables[user]:
            return False
        bound = infos[name].bounds[variables[name]]
        if loop.is_plain(name, bound):
            return False
        output = infos[name].output
        indices = [infos[e].accesses[output].ranks for e in (name, user)]
        ranks = [r for r, index in indices[0].items() if variables[name] in index.variables]
        alone = all(
            dict(index[ranks[0]].coefficients) == {variables[e]: 1}
            for e, index in zip((name, user), indices, strict=True)
        )
        made = needed(infos[name], output, variables[name], loop.tiles[name])
        return alone and made == needed(infos[user], output, variables[user], loop.tiles[user])

    def _is_kept(self, tensor: str, key: tuple[range, int]) -> bool:
        """Whether a tensor is held above a loop."""
        number = path_of(self.shape, key[0].start).index(key)
        return tensor not in self.places or self.places[tensor].depth <= number


def needed(user: EinsumInfo, tensor: str, variable: str, tiles: LoopTiles) -> tuple[str, LoopTiles] | None:
    """What an Einsum needs of a tensor for its tiles: positions of the rank that its variable steps; None if it steps none, forwards."""
    for rank, affine in user.accesses[tensor].ranks.items():
        a = affine.coefficients.get(variable, 0)
        if a > 0:
            others = [b * (user.bounds[v] - 1) for v, b in affine.coefficients.items() if v != variable]
            low, high = sum(o for o in others if o < 0), sum(o for o in others if o > 0)
            first = a * tiles.start + low + affine.constant
            return rank, LoopTiles(first, a * (tiles.end - 1) + high + affine.constant + 1, a * tiles.step)
    return None
