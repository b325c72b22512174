"""What one Einsum does, statement by statement: fetches, the point, what finishes it, and drains, each with its place in the nest.

The rules are the model's: what moves when is read off each tensor's own view of the nest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fusiest.code.bodies import Body
from fusiest.code.lowering.arrays import Rooms, sinking, sliding_loop
from fusiest.code.lowering.indices import Index, choose, constant, least, minus, most, named, plus, total
from fusiest.code.lowering.scopes import Range, Scope
from fusiest.code.lowering.statements import Array, Element, Finish, Move, Point, Side, Tally, Tile
from fusiest.code.shapes import TensorShape, span
from fusiest.model import EinsumNest, Holder, NestLoop, TensorNest, charged_under, is_reused
from fusiest.spec import REDUCED, Affine


@dataclass(frozen=True, eq=False)
class Leaf:
    """A statement of one Einsum: inside of how many of its loops it stands, and in which lanes it happens side by side."""

    nest: EinsumNest
    depth: int
    loops: tuple[NestLoop, ...]
    """All loops that it happens once for, outermost first."""
    write: Callable[[Scope], None]
    after: bool = False
    """Whether it stands behind the loops inside, not before them."""
    holder: Holder | None = None
    """The storage node whose tile it completes."""

    @property
    def lanes(self) -> tuple[NestLoop, ...]:
        return tuple(loop for loop in self.loops if loop.is_spatial)


@dataclass
class EinsumMoves:
    """One Einsum of a mapping, with all that its statements need to know."""

    nest: EinsumNest
    body: Body
    rooms: Rooms
    shapes: Mapping[str, TensorShape]
    nests: Mapping[str, EinsumNest]
    """All Einsums."""
    makers: Mapping[str, Sequence[str]]
    parameters: Mapping[str, Array]
    """What Einsums read besides, which no memory moves."""
    gone: frozenset[str] = field(init=False)
    """Variables that are reduced."""

    def __post_init__(self) -> None:
        self.gone = frozenset(self.nest.einsum.bounds) - self.nest.einsum.accesses[self.nest.einsum.output].variables

    def leaves(self) -> Iterator[Leaf]:
        """All statements, those of outer storage nodes first: so what stands behind loops comes in the opposite order."""
        info = self.nest.einsum
        if info.is_copy_operation:
            yield Leaf(self.nest, len(self.nest.loops), self.nest.loops, self._copy)
            return
        finish = self._finish() if self.body.after != REDUCED and self._reduced(self.nest.loops) else None
        for holder in sorted(self.nest.holders, key=lambda h: h.position):
            index = self.nest.tensors[holder.tensor].holders.index(holder)
            if index > 0 and not holder.is_toll:
                yield from self._transfers(holder, index)
            if finish is not None and holder is finish.holder:
                yield finish
        yield Leaf(self.nest, len(self.nest.loops), self.nest.loops, self._point)

    # --- storage nodes --------------------------------------------------------------------------------------------

    def _transfers(self, holder: Holder, index: int) -> Iterator[Leaf]:
        """Where a storage node is filled, and emptied if it holds an output."""
        tensor = self.nest.tensors[holder.tensor]
        loops, depth = tuple(charged_under(self.nest, holder, index)), self._depth(holder, index)

        def fetch(scope: Scope) -> None:
            move = self._move(scope, tensor, index, loops, "fetch")
            if move.again != () or move.tallies:
                scope.statements.append(move)

        def drain(scope: Scope) -> None:
            scope.statements.append(self._move(scope, tensor, index, loops, "drain"))

        yield Leaf(self.nest, depth, loops, fetch)
        if tensor.access.output:
            yield Leaf(self.nest, depth, loops, drain, after=True)

    def _depth(self, holder: Holder, index: int) -> int:
        """Inside of how many loops a storage node is filled: that is where its space is charged."""
        point = max((loop.position for loop in sinking(self.nest, holder, index)), default=holder.position)
        return sum(loop.position <= point for loop in self.nest.loops)

    def _move(self, scope: Scope, tensor: TensorNest, index: int, loops: Sequence[NestLoop], kind: str) -> Move:
        memory = next(i for i in reversed(range(index)) if not tensor.holders[i].is_toll)
        fetch = kind == "fetch"
        again = self._again(scope, tensor, index) if tensor.access.output else ()
        tallies = self._fetched if fetch else self._drained
        return Move(
            kind="fetch" if fetch else "drain",
            einsum=self.nest.einsum.name,
            inner=self._tile(scope, tensor, index),
            outer=self._tile(scope, tensor, memory),
            through=tuple(h.component.name for h in tensor.holders[memory + 1 : index]),
            box=self._box(scope, tensor, index, loops, memory),
            again=again if fetch and tensor.access.output else None,
            alone=self._alone(scope, tensor, memory, index),
            reduction=self.body.reduction,
            tallies=tuple(tallies(scope, tensor, memory, index, again)),
        )

    def _again(self, scope: Scope, tensor: TensorNest, index: int) -> tuple[str, ...]:
        """Indices of the Temporal loops above a storage node that come back to a tile of an output."""
        loops = self._reduced(tensor.loops_above(index))
        return tuple(scope.placed[loop.number] for loop in loops if not loop.is_spatial)

    def _alone(self, scope: Scope, tensor: TensorNest, memory: int, index: int) -> tuple[str, ...]:
        """Indices of the Spatial loops whose lanes add up to one tile of an output between two storage nodes."""
        if not tensor.access.output:
            return ()
        loops = self._reduced([loop for gap in tensor.gaps[memory + 1 : index + 1] for loop in gap])
        return tuple(scope.placed[loop.number] for loop in loops if loop.is_spatial)

    def _reduced(self, loops: Sequence[NestLoop]) -> list[NestLoop]:
        """Loops over variables that the output does not have, if they have several iterations."""
        return [loop for loop in loops if loop.variable in self.gone and loop.iterations > 1]

    # --- what counts ----------------------------------------------------------------------------------------------

    def _fetched(
        self, scope: Scope, tensor: TensorNest, memory: int, index: int, again: tuple[str, ...]
    ) -> Iterator[Tally]:
        """Reads on the way down, and the write into the storage node: on a first pass over an output, as the memories say."""
        output, holders = tensor.access.output, tensor.holders
        below = holders[index].component if index < len(holders) else self.nest.path.compute
        skips = output and below.skip_initial_output_write and holders[memory].component.skip_initial_output_write
        for i in range(memory, index):
            component = holders[i].component
            if component.direction.get(tensor.access.tensor) != "up" and not (skips and not again):
                yield self._tally(scope, tensor, i, index, "read", again if skips else None)
        if index < len(holders):
            first = output and below.skip_initial_output_write
            if not (first and not again):
                yield self._tally(scope, tensor, index, index, "write", again if first else None)

    def _drained(
        self, scope: Scope, tensor: TensorNest, memory: int, index: int, again: tuple[str, ...]
    ) -> Iterator[Tally]:
        """The read out of the storage node, and what is passed and written on the way up."""
        if index < len(tensor.holders):
            yield self._tally(scope, tensor, index, index, "read", None)
        for i in range(memory, index):
            holder = tensor.holders[i]
            if holder.component.direction.get(tensor.access.tensor) != "down":
                yield self._tally(scope, tensor, i, index, "read" if holder.is_toll else "write", None)

    def _tally(
        self, scope: Scope, tensor: TensorNest, at: int, index: int, action: str, unless: tuple[str, ...] | None
    ) -> Tally:
        """What counts at one component on the way to a storage node: one transfer may serve many lanes."""
        between = [loop for gap in tensor.gaps[at + 1 : index + 1] for loop in gap]
        once = [loop for loop in between if is_reused(self.nest, tensor, loop)]
        here = [loop for gap in tensor.gaps[: at + 1] for loop in gap if loop.is_spatial]
        return Tally(
            (tensor.holders[at].component.name, tensor.access.tensor, action),
            tuple(scope.placed[loop.number] for loop in once if loop.iterations > 1),
            tuple(scope.placed[loop.number] for loop in here if loop.iterations > 1),
            unless,
        )

    # --- boxes ----------------------------------------------------------------------------------------------------

    def _ranges(self, scope: Scope, nest: EinsumNest, loops: Sequence[NestLoop]) -> dict[str, Range]:
        """Where each variable is inside of some of its loops."""
        return {
            v: scope.range(nest, v, [loop for loop in nest.chains.get(v, ()) if loop in loops])
            for v in nest.einsum.bounds
        }

    def _tile(self, scope: Scope, tensor: TensorNest, index: int) -> Tile:
        """The array of a storage node, here."""
        name = tensor.access.tensor
        array = self.rooms.arrays[self.nest.einsum.name, name, index]
        if array.outside is not None:
            return Tile(array, (), tuple(constant(low) for low in array.outside.low))
        nest = self.nest
        if index == 0:  # everyone finds it where its makers begin
            nest = self.nests[self.makers[name][0]]
        own = nest.tensors[name]
        holder = own.holders[index]
        loops = charged_under(nest, holder, index)
        if array.ring is not None:  # whose first element stays where the first window begins
            loops = [loop for loop in loops if index == 0 or loop != sliding_loop(nest, holder, index)]
        ranges = self._ranges(scope, nest, loops)
        base = [_ends(own.access.ranks[rank], ranges)[0] for rank in self.shapes[name].ranks]
        if index == 0 and name in nest.einsum.shared_out:
            base[self.shapes[name].ranks.index(nest.einsum.shared_out[name].rank)] = constant(0)
        lanes = tuple(scope.placed[lane.number] for lane in array.lanes)
        return Tile(array, lanes, tuple(base))

    def _box(
        self, scope: Scope, tensor: TensorNest, index: int, loops: Sequence[NestLoop], memory: int
    ) -> tuple[Side, ...]:
        """What is moved: of a tile that is filled piece by piece, what the pieces before do not have."""
        holder, access = tensor.holders[index], tensor.access
        ranges = self._ranges(scope, self.nest, loops)
        begin = self._ranges(scope, self.nest, tensor.loops_above(index))
        pieces = {loop.variable for loop in sinking(self.nest, holder, index) if loop.iterations > 1}
        sliding = sliding_loop(self.nest, holder, index)
        sides, ranks = [], self.shapes[access.tensor].ranks
        for rank, name in zip(ranks, scope.names(ranks), strict=True):
            affine = access.ranks[rank]
            low, end = _ends(affine, ranges)
            moved: Ends = (low, end)
            counted: Ends = moved
            if sliding is not None and sliding.variable in affine.coefficients:
                moved, counted = self._slid(scope, affine, sliding, ranges)
            elif stepped := pieces.intersection(affine.coefficients):
                counted = _next(affine, min(stepped), ranges, begin)
            if memory == 0:
                moved = self._clipped(tensor, rank, moved)
            step = max((abs(a) for a in affine.coefficients.values()), default=1) if access.output else 1
            sides.append(Side(name, *moved, step, counted))
        return tuple(sides)

    def _slid(self, scope: Scope, affine: Affine, loop: NestLoop, ranges: Mapping[str, Range]) -> tuple[Ends, Ends]:
        """What a window has that the one before did not have, and what counts as moved: the gap between the two, too."""
        (low, end), index = _ends(affine, ranges), named(scope.placed[loop.number])
        chain = self.nest.chains[loop.variable]
        outer = scope.range(self.nest, loop.variable, chain[: chain.index(loop)])
        first, tile, step = loop.tiling
        before: Index = plus(plus(outer.low, index, step), first - step)
        if not first == tile == step:
            before = least(before, outer.end)
        last = scope.let(f"{loop.variable}_before", before)
        earlier = _ends(affine, {**ranges, loop.variable: Range(last, last)})
        if affine.coefficients[loop.variable] > 0:
            new, gap = most(low, earlier[1]), earlier[1]
            return (choose(index, low, new), end), (choose(index, low, gap), end)
        new, gap = least(end, earlier[0]), earlier[0]
        return (low, choose(index, end, new)), (low, choose(index, end, gap))

    def _clipped(self, tensor: TensorNest, rank: str, ends: Ends) -> Ends:
        """Only what exists of a tensor: the rest is padding, and nothing moves there."""
        first, end = self.shapes[tensor.access.tensor].bounds(rank)
        low, high = span(tensor.access.ranks[rank], self.nest.einsum.bounds)
        return (
            most(ends[0], constant(first)) if low < first else ends[0],
            least(ends[1], constant(end)) if high >= end else ends[1],
        )

    # --- the point ------------------------------------------------------------------------------------------------

    def _variables(self, scope: Scope) -> dict[str, Affine]:
        """The value of each variable at a point."""
        return {v: found.low for v, found in self._ranges(scope, self.nest, self.nest.loops).items()}

    def _element(self, scope: Scope, tensor: TensorNest, index: int, variables: Mapping[str, Affine]) -> Element:
        ranks = self.shapes[tensor.access.tensor].ranks
        coordinates = tuple(total(tensor.access.ranks[rank], variables) for rank in ranks)
        return Element(self._tile(scope, tensor, index), coordinates)

    def _point(self, scope: Scope) -> None:
        info, variables = self.nest.einsum, self._variables(scope)
        output = self.nest.tensors[info.output]
        tallies = [
            Tally(
                (self.nest.path.compute.name, "", "compute"),
                here=tuple(scope.placed[x.number] for x in self.nest.loops if x.is_spatial and x.iterations > 1),
            )
        ]
        elements: dict[str, Element] = {}
        for name, tensor in self.nest.tensors.items():
            index = len(tensor.holders)
            memory = next(i for i in reversed(range(index)) if not tensor.holders[i].is_toll)
            elements[name] = self._element(scope, tensor, memory, variables)
            again = self._again(scope, tensor, index) if tensor.access.output else ()
            tallies += self._fetched(scope, tensor, memory, index, again)
            if tensor.access.output:
                tallies += self._drained(scope, tensor, memory, index, again)
                alone = self._alone(scope, tensor, memory, index)
        reduced = self._reduced(self.nest.loops)
        scope.statements.append(
            Point(
                info=info,
                component=self.nest.path.compute.name,
                body=self.body,
                variables=variables,
                output=elements.pop(info.output),
                reads={**elements, **self._free(variables)},
                outside=self._outside(variables),
                again=self._again(scope, output, len(output.holders)),
                alone=alone,
                lanes=tuple(scope.placed[loop.number] for loop in reduced if loop.is_spatial),
                finishes=not reduced,
                tallies=tuple(tallies),
            )
        )

    def _free(self, variables: Mapping[str, Affine]) -> dict[str, Element]:
        """Parameters, as variables index them."""
        found = {}
        for name, access in self.body.parameters.items():
            at = tuple(total(affine, variables) for affine in access.ranks.values())
            found[name] = Element(Tile(self.parameters[name], (), (constant(0),) * len(at)), at)
        return found

    def _outside(self, variables: Mapping[str, Affine]) -> dict[str, tuple[tuple[Affine, int, int], ...]]:
        """Coordinates of what is read that may be no part of their tensor."""
        found: dict[str, tuple[tuple[Affine, int, int], ...]] = {}
        for tensor, access in self.nest.einsum.accesses.items():
            for rank, affine in access.ranks.items():
                first, end = self.shapes[tensor].bounds(rank)
                low, high = span(affine, self.nest.reach)
                if not access.output and (low < first or high >= end):
                    found[tensor] = (*found.get(tensor, ()), (total(affine, variables), first, end))
        return found

    def _copy(self, scope: Scope) -> None:
        """A point of a copy Einsum: each element is read once, and written once, if it moves at all."""
        info, variables = self.nest.einsum, self._variables(scope)
        (source,) = (tensor for name, tensor in self.nest.tensors.items() if name != info.output)
        target = self.nest.tensors[info.output]
        elements = [self._element(scope, tensor, 0, variables) for tensor in (source, target)]
        tallies = []
        if source.holders[0].component.name != target.holders[0].component.name:
            for tensor, action in ((source, "read"), (target, "write")):
                here = tuple(scope.placed[loop.number] for loop in tensor.gaps[0] if loop.is_spatial)
                key = (tensor.holders[0].component.name, source.access.tensor, action)
                tallies.append(Tally(key, here=here, distinct=self._distinct(tensor, variables)))
        scope.statements.append(
            Point(
                info=info,
                component=self.nest.path.compute.name,
                body=self.body,
                variables=variables,
                output=elements[1],
                reads={source.access.tensor: elements[0]},
                outside=self._outside(variables),
                again=(),
                alone=(),
                lanes=(),
                finishes=True,
                tallies=tuple(tallies),
            )
        )

    def _distinct(self, tensor: TensorNest, variables: Mapping[str, Affine]) -> tuple[tuple[Affine, int], ...]:
        """An element that is touched, among all that are."""
        found = []
        for affine in tensor.access.ranks.values():
            low, high = span(affine, self.nest.reach)
            found.append((minus(total(affine, variables), low), high - low + 1))
        return tuple(found)

    # --- what comes after a reduction -----------------------------------------------------------------------------

    def _finish(self) -> Leaf:
        """Where all is summed up, in the storage node above all that reduces: behind the outermost loop that does, and behind the
        drain into that storage node.
        """
        info, output = self.nest.einsum, self.nest.tensors[self.nest.einsum.output]
        reduced = self._reduced(self.nest.loops)
        inside = min(i for i, gap in enumerate(output.gaps) if any(loop in reduced for loop in gap))
        memories = [i for i, holder in enumerate(output.holders) if not holder.is_toll]
        index = max(i for i in memories if i < inside)
        drains = [self._depth(output.holders[i], i) for i in memories if i > index][:1]
        loops_inside = [self.nest.loops.index(loop) for loop in reduced if not loop.is_spatial]
        depth = min([len(self.nest.loops), *loops_inside, *drains])
        around = {loop.number for loop in self.nest.loops[:depth] if not loop.is_spatial}
        around |= {loop.number for gap in output.gaps[: index + 1] for loop in gap if loop.is_spatial}
        for variable in output.access.variables:  # lanes of loops outside of those around
            chain = self.nest.chains.get(variable, [])
            last = max((i for i, loop in enumerate(chain) if loop.number in around), default=0)
            around |= {loop.number for loop in chain[:last] if loop.is_spatial}
        loops = tuple(loop for loop in self.nest.loops if loop.number in around)

        def finish(scope: Scope) -> None:
            ranges = self._ranges(scope, self.nest, loops)
            sides, variables = [], dict.fromkeys(info.bounds, constant(0))
            ranks = self.shapes[info.output].ranks
            for rank, name in zip(ranks, scope.names(ranks), strict=True):
                affine = output.access.ranks[rank]
                step = max((abs(a) for a in affine.coefficients.values()), default=1)
                sides.append(Side(name, *_ends(affine, ranges), step))
                for variable, a in affine.coefficients.items():  # which is 1 or -1 where there are parameters
                    variables[variable] = plus(constant(-a * affine.constant), sides[-1].coordinate, a)
            tile = self._tile(scope, output, index)
            scope.statements.append(Finish(info, tile, tuple(sides), self.body, self._free(variables)))

        return Leaf(self.nest, depth, loops, finish, after=True, holder=output.holders[index])


Ends = tuple[Index, Index]
"""From the first coordinate to the end, which is excluded."""


def _ends(affine: Affine, ranges: Mapping[str, Range]) -> tuple[Affine, Affine]:
    """The first coordinate that a box touches along a rank, and the end."""
    low = high = constant(affine.constant)
    for variable, coefficient in affine.coefficients.items():
        first, last = ranges[variable].low, minus(ranges[variable].end, 1)
        low = plus(low, first if coefficient > 0 else last, coefficient)
        high = plus(high, last if coefficient > 0 else first, coefficient)
    return low, plus(high, 1)


def _next(affine: Affine, variable: str, ranges: Mapping[str, Range], begin: Mapping[str, Range]) -> Ends:
    """What counts as moved of a piece of a tile: it, and the gap behind the piece before, where indices have a stride."""
    low, end = _ends(affine, ranges)
    if abs(affine.coefficients[variable]) == 1:
        return low, end
    before = minus(ranges[variable].low, 1)
    earlier = _ends(affine, {**ranges, variable: Range(before, ranges[variable].low)})
    whole = _ends(affine, {**ranges, variable: begin[variable]})
    if affine.coefficients[variable] > 0:
        return most(whole[0], earlier[1]), end
    return low, least(whole[1], earlier[0])
