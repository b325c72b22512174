"""A mapping as statements: `lower` follows the blocks of its Einsums from the outside in, and writes down what happens."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from fusiest.code.bodies import Body
from fusiest.code.lowering.arrays import find_rooms
from fusiest.code.lowering.blocks import Around, Block, Named, Taking, blocks, loop_of, members
from fusiest.code.lowering.indices import Test, most, named
from fusiest.code.lowering.moves import EinsumMoves, Leaf
from fusiest.code.lowering.scopes import Scope
from fusiest.code.lowering.statements import Array, End, Hold, If, Loop, Program, Release, Statement, Turn
from fusiest.code.shapes import TensorShape
from fusiest.looptree import Spatial, Temporal, rank_words, tile_words
from fusiest.model import EinsumNest, NestLoop, Sharing, TreeNode
from fusiest.spec import WorkloadInfo

DEEP = 20_000
"""Calls of Python, one inside the other, that the deepest tree of loops needs."""


def lower(
    info: WorkloadInfo,
    paths: Sequence[Sequence[TreeNode]],
    common: Sharing,
    bodies: Mapping[str, Body],
    shapes: Mapping[str, TensorShape],
    safe: Callable[[str], str] | None = None,
) -> Program:
    """The statements of a mapping that is taken apart, for people; or for a language, in which `safe` makes a name one that is
    not taken."""
    found = find_rooms(common, shapes, info.producers, safe or str)
    nests = {nest.einsum.name: nest for nest in common.nests}
    parameters = {
        name: Array((safe or str)(name), name, "", shapes[name].size, outside=shapes[name])
        for body in bodies.values()
        for name in body.parameters
    }
    moves = {
        name: EinsumMoves(nest, bodies[name], found, shapes, nests, info.producers, parameters)
        for name, nest in nests.items()
    }
    with _deep():
        leaves = {name: tuple(of.leaves()) for name, of in moves.items()}
        tree = blocks(common, found.rooms, leaves, as_written=safe is None)
        writer = _BlockWriter(paths, common.nests)
        names = {array.name for array in (*found.arrays.values(), *parameters.values())}
        writer.write(tree, Scope(writer.statements, safe or str, taken=names, uneven=_uneven(common.nests)), {})
    arrays = [room.array for room in found.rooms]
    inner = tuple(array for array in arrays if array.outside is None)
    outside = [array for array in arrays if array.outside is not None]
    outside.sort(key=lambda array: list(info.users).index(array.tensor))
    inputs = tuple(array for array in outside if array.tensor not in info.producers)
    outputs = tuple(array for array in outside if array.tensor in info.producers)
    return Program(tuple(writer.statements), inner, inputs, outputs, tuple(parameters.values()))


@contextlib.contextmanager
def _deep() -> Iterator[None]:
    """Allow as many calls, one inside the other, as loops may be."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEP))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _uneven(nests: Sequence[EinsumNest]) -> frozenset[tuple[str, int]]:
    """Loops, by Einsum and number, whose tiles are not all of one length."""
    found = set()
    for nest in nests:
        for variable, chain in nest.chains.items():
            extents = {nest.reach[variable]}
            for loop in chain:
                extents = {length for extent in extents for length in loop.tiles(extent)}
                if len(extents) > 1:
                    found.add((nest.einsum.name, loop.number))
    return frozenset(found)


Guards = Mapping[str, tuple[Test, ...]]
"""By Einsum, what must hold for it to do anything here."""


class _BlockWriter:
    """Blocks one after the other, as a flat list of statements."""

    def __init__(self, paths: Sequence[Sequence[TreeNode]], nests: Sequence[EinsumNest]) -> None:
        self.statements: list[Statement] = []
        self.nodes = {item.number: item.node for path in paths for item in path}
        self.names = _index_names(nests)

    def write(self, blocks: Sequence[Block], scope: Scope, guards: Guards) -> None:
        """Write blocks; those of one Einsum together, where something must hold for them."""
        i = 0
        while i < len(blocks):
            alone = _alone(blocks[i])
            tests = guards.get(alone, ())
            if not tests:
                self._block(blocks[i], scope, guards)
                i += 1
                continue
            end = next((j for j in range(i, len(blocks)) if _alone(blocks[j]) != alone), len(blocks))
            self.statements.append(If(tests))
            self.write(blocks[i:end], scope.inner(), {**guards, alone: ()})
            self.statements.append(End())
            i = end

    def _block(self, block: Block, scope: Scope, guards: Guards) -> None:
        match block:
            case Named(einsums):
                self.statements.append(Turn(einsums))
            case Taking(arrays, free):
                self.statements += [Release(array) if free else Hold(array) for array in arrays]
            case Leaf():
                self._leaf(block, scope)
            case Around():
                self._loop(block, scope, guards)

    def _leaf(self, leaf: Leaf, scope: Scope) -> None:
        tests = scope.exists(leaf.nest, leaf.loops)
        if not tests:
            leaf.write(scope)
            return
        self.statements.append(If(tests))
        leaf.write(scope.inner())
        self.statements.append(End())

    def _loop(self, block: Around, scope: Scope, guards: Guards) -> None:
        loops = [(nest, loop_of(nest, block.loop)) for nest in block.nests]
        counts = {nest.einsum.name: scope.count(nest, loop) for nest, loop in loops}
        count = functools.reduce(most, counts.values())
        inner = scope.inner()
        index = inner.name(self.names[block.loop])
        first = loops[0][1]
        place = None if first.component is None else (first.component, str(first.dimension))
        words = self._words(block.loop, [nest.einsum.name for nest, _ in loops])
        self.statements.append(Loop(index, count, words, place))
        inner.enter(block.nests, block.loop, index)
        found = dict(guards)
        for nest, loop in loops:
            name = nest.einsum.name
            if counts[name] != count:
                found[name] = (*found.get(name, ()), Test(named(index), counts[name]))
            if _may_be_empty(nest, loop):
                chain = nest.chains[loop.variable]
                tile = inner.range(nest, loop.variable, chain[: chain.index(loop) + 1])
                found[name] = (*found.get(name, ()), Test(tile.low, tile.end))
        self.write(block.inner, inner, found)
        self.statements.append(End())

    def _words(self, number: int, einsums: Sequence[str]) -> str:
        """What a loop steps, if several Einsums call it differently, and its tiles."""
        node = self.nodes[number]
        assert isinstance(node, Temporal | Spatial)
        variables = rank_words(node)
        tiles = tile_words(node, einsums).removeprefix("tile ")
        return ", ".join(([variables] if " = " in variables else []) + ([f"tiles of {tiles}"] if tiles != "1" else []))


def _alone(block: Block) -> str:
    """The Einsum of a block, if it is of one alone."""
    names = {nest.einsum.name for nest in members(block)}
    return names.pop() if len(names) == 1 else ""


def _may_be_empty(nest: EinsumNest, loop: NestLoop) -> bool:
    """Whether a loop that makes windows has one with nothing in it."""
    if not loop.tiling.windowed:
        return False
    chain = nest.chains[loop.variable]
    extents = {nest.reach[loop.variable]}
    for outer in chain[: chain.index(loop)]:
        extents = {length for extent in extents for length in outer.tiles(extent)}
    return any(end <= low for extent in extents for low, end in loop.ranges(extent))


def _index_names(nests: Sequence[EinsumNest]) -> dict[int, str]:
    """What the index of each loop is called, by its number: `m` if it is the only one over m, else `m1`, `m0`, inner ones last."""
    variables: dict[int, str] = {}
    below: Counter[int] = Counter()
    several: set[int] = set()
    taken = {variable for nest in nests for variable in nest.einsum.bounds}
    for nest in nests:
        for variable, chain in nest.chains.items():
            for i, loop in enumerate(reversed(chain)):
                variables.setdefault(loop.number, variable)
                below[loop.number] = max(below[loop.number], i)
                if len(chain) > 1:
                    several.add(loop.number)
    separators = {variable: _separator(variable, taken) for variable in variables.values()}
    return {
        number: f"{variable}{separators[variable]}{below[number]}" if number in several else variable
        for number, variable in variables.items()
    }


def _separator(variable: str, others: set[str]) -> str:
    """What stands between a variable and a number, so that no index reads like another variable.

    >>> _separator("m", {"m", "n1"}), _separator("n1", {"m", "n1"}), _separator("n", {"n", "n1"})
    ('', '_', '_')
    """
    separator = "_" if variable[-1:].isdigit() else ""
    while any(
        other.startswith(variable + separator) and other[len(variable + separator) :].isdigit() for other in others
    ):
        separator += "_"
    return separator
