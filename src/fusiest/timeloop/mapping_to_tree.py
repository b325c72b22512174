"""Timeloop's mapping as a LoopTree: the loops of all levels from the outermost in, and a holder for each tile that is kept.

Timeloop infers reuse, here it is placed: a level's holder moves up past the loops above it that do not index its tensor. Past a loop
that moves a window over the tensor it goes as well, if that loop is the first it meets: there Timeloop keeps the overlap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from fusiest.base.errors import SpecError
from fusiest.looptree import Compute, LoopTree, Node, Spatial, Storage, Temporal
from fusiest.timeloop.directives import Directive, DirectiveFactor
from fusiest.timeloop.levels import TimeloopLevel, fanout, find_level
from fusiest.timeloop.problem_to_einsum import DataSpace, TimeloopProblem


@dataclass(frozen=True, slots=True)
class FactorLoop:
    """A loop of a level: a dimension, its iterations, what is left below it; a spatial one has an axis, X or Y."""

    level: int
    dimension: str
    iterations: int
    tile: int
    axis: str | None = None


@dataclass(slots=True)
class LevelMapping:
    """What a mapping says of one level: loops from the outermost in as (dimension, iterations, axis), and the data spaces kept."""

    temporal: list[tuple[str, int]] = field(default_factory=list)
    spatial: list[tuple[str, int, str]] = field(default_factory=list)
    last: dict[tuple[str, str], int] = field(default_factory=dict)
    """The shorter last pass of imperfect factors, by kind and dimension."""
    spaces: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TimeloopNest:
    """A whole mapping: its loops, and before how many of the loops each holder stands."""

    loops: tuple[FactorLoop, ...]
    holders: dict[tuple[int, str], int]
    """(level, data space) -> the number of loops above the holder."""
    lost_overlaps: frozenset[tuple[int, str]]
    """Holders of windows whose overlap Timeloop keeps, or sends to neighbours at once, and that cannot be had here."""

    def tree(self, problem: TimeloopProblem, levels: list[TimeloopLevel]) -> LoopTree:
        """Write the mapping as a LoopTree."""
        nodes: list[Node] = []
        spaces = {space.timeloop_name: space for space in problem.spaces}
        for position in range(len(self.loops) + 1):
            standing = [key for key, at in self.holders.items() if at == position]
            # Space for a window is taken below the loop that slides it, if no other holder stands between.
            dimension_below = self.loops[position].dimension if position < len(self.loops) else ""
            slides = {t: dimension_below in space.dimensions - space.alone for t, space in spaces.items()}
            for sliding in (False, True):
                for number, level in enumerate(levels):
                    held = [spaces[t].name for n, t in standing if n == number and (n > 0 and slides[t]) == sliding]
                    if held:
                        nodes.append(Storage(tensors=tuple(held), component=level.name))
            if position < len(self.loops):
                nodes.append(_node(self.loops[position], problem, levels))
        nodes.append(Compute(einsum=problem.name, component=levels[-1].name))
        return LoopTree(nodes=tuple(nodes))


def _node(loop: FactorLoop, problem: TimeloopProblem, levels: list[TimeloopLevel]) -> Node:
    variable = problem.variables[loop.dimension]
    if loop.axis is None:
        return Temporal(rank_variable=variable, tile_shape=loop.tile)
    component = place_name(levels, loop.level)
    return Spatial(rank_variable=variable, tile_shape=loop.tile, component=component, name=loop.axis)


def place_name(levels: list[TimeloopLevel], number: int) -> str:
    """The container that carries the fanout below a level."""
    level = levels[number]
    return level.name if level.kind == "place" else f"{level.name}_array"


def read_nest(directives: list[Directive], problem: TimeloopProblem, levels: list[TimeloopLevel]) -> TimeloopNest:
    """The mapping that these directives describe."""
    everything = frozenset(space.timeloop_name for space in problem.spaces)
    mapped = [LevelMapping(spaces=everything if level.kind == "memory" else frozenset()) for level in levels]
    for directive in directives:
        number = find_level(levels, directive.target, directive.source, directive.kind)
        level, level_mapping = levels[number], mapped[number]
        if directive.kind == "dataspace":
            level_mapping.spaces = _kept_spaces(directive, level, problem, everything)
            continue
        if level.kind == "compute":
            raise SpecError(f"{level.name} is the compute and has no loops", directive.source)
        if any((directive.kind, f.dimension) in level_mapping.last for f in directive.factors):
            raise SpecError(f"{level.name} has two {directive.kind} entries in the mapping", directive.source)
        level_mapping.last |= {(directive.kind, f.dimension): f.last or f.value for f in directive.factors}
        if directive.kind == "temporal":
            level_mapping.temporal = _ordered(directive, problem)
        else:
            level_mapping.spatial = _spread(directive, problem, levels, number)
    if mapped[0].spaces != everything:
        raise SpecError(
            f"mapping: {levels[0].name}, the outermost level, must keep every data space", directives[0].source
        )
    loops = _loops(mapped, problem, directives)
    holders, lost = _placed(loops, mapped, problem)
    return TimeloopNest(loops, holders, lost)


def _kept_spaces(
    directive: Directive, level: TimeloopLevel, problem: TimeloopProblem, everything: frozenset[str]
) -> frozenset[str]:
    for name in (*directive.keep, *directive.bypass):
        problem.space(name, directive.source)
    if level.kind != "memory":
        if frozenset(directive.keep):
            raise SpecError(f"{level.name} stores nothing and cannot keep {directive.keep[0]}", directive.source)
        return frozenset()
    return everything - frozenset(directive.bypass) | frozenset(directive.keep)


def _ordered(directive: Directive, problem: TimeloopProblem) -> list[tuple[str, int]]:
    """Loops from the outermost in. Dimensions that the permutation does not list are outside of those that it does."""
    counts: dict[str, int] = {}
    for factor in directive.factors:
        if factor.operator != "==":
            raise directive.error(f"a mapping has factors such as {factor.dimension}={factor.value}")
        if factor.dimension in counts:
            raise directive.error(f"{factor.dimension} has two factors")
        counts[factor.dimension] = _count(factor, problem, directive)
    dimensions = list(problem.sizes)
    order = directive.order([*dimensions, *problem.unit_dimensions])
    inside_out = [*order, *(d for d in dimensions if d not in order)]
    return [(d, counts[d]) for d in reversed(inside_out) if counts.get(d, 1) > 1]


def _count(factor: DirectiveFactor, problem: TimeloopProblem, directive: Directive) -> int:
    """A factor's iterations; 0 means the whole dimension. A dimension of size 1 is gone, and has none but 1."""
    size = problem.sizes.get(factor.dimension)
    if size is None:
        if factor.value > 1:
            raise directive.no_factor(factor, problem.sizes)
        return 1
    return factor.value or size


def _spread(
    directive: Directive, problem: TimeloopProblem, levels: list[TimeloopLevel], number: int
) -> list[tuple[str, int, str]]:
    """Spatial loops: the first `split` dimensions of the permutation run along X, the others along Y."""
    loops = _ordered(directive, problem)
    x, y = fanout(levels, number)
    order = directive.order([*problem.sizes, *problem.unit_dimensions])
    if directive.split is None:
        along = {d: "X" for d, _ in loops}
        if x == 1 and y > 1:
            along = {d: "Y" for d, _ in loops}
    else:
        along = {d: "X" if d in order[: directive.split] else "Y" for d, _ in loops}
    used = {"X": 1, "Y": 1}
    for d, n in loops:
        used[along[d]] *= n
    for axis, available in (("X", x), ("Y", y)):
        if used[axis] > available:
            raise directive.error(f"the mapping spreads {used[axis]} along {axis}, where there are {available}")
    return [(d, n, along[d]) for d, n in loops]


def _loops(mapped: list[LevelMapping], problem: TimeloopProblem, directives: list[Directive]) -> tuple[FactorLoop, ...]:
    """All loops from the outermost in, with the tile below each."""
    written: list[tuple[int, str, int, str | None]] = []
    for number, level_mapping in enumerate(mapped):
        written += [(number, d, n, None) for d, n in level_mapping.temporal]
        written += [(number, d, n, axis) for d, n, axis in level_mapping.spatial]
    below = dict.fromkeys(problem.sizes, 1)
    loops: list[FactorLoop] = []
    for number, dimension, iterations, axis in reversed(written):
        loops.append(FactorLoop(number, dimension, iterations, below[dimension], axis))
        below[dimension] *= iterations
    loops.reverse()
    extents = dict(problem.sizes)
    for loop in loops:
        if -(-extents[loop.dimension] // loop.tile) != loop.iterations:
            raise _mismatch(loop.dimension, loops, problem, directives)
        extents[loop.dimension] = loop.tile
    for dimension, extent in extents.items():
        total = 1 + sum((_last(loop, mapped) - 1) * loop.tile for loop in loops if loop.dimension == dimension)
        if extent != 1 or total != problem.sizes[dimension]:
            raise _mismatch(dimension, loops, problem, directives)
    return tuple(loops)


def _last(loop: FactorLoop, mapped: list[LevelMapping]) -> int:
    """Iterations of the last pass of a loop."""
    kind = "temporal" if loop.axis is None else "spatial"
    return mapped[loop.level].last.get((kind, loop.dimension)) or loop.iterations


def _mismatch(
    dimension: str, loops: list[FactorLoop], problem: TimeloopProblem, directives: list[Directive]
) -> SpecError:
    """At the first entry that has a factor of the dimension, or at the first one."""
    factors = [str(loop.iterations) for loop in loops if loop.dimension == dimension] or ["1"]
    named = [d for d in directives if any(factor.dimension == dimension for factor in d.factors)]
    return SpecError(
        f"mapping: the factors of {dimension} are {' * '.join(factors)}, but its size is {problem.sizes[dimension]}",
        [*named, *directives][0].source,
    )


def _placed(
    loops: tuple[FactorLoop, ...], mapped: list[LevelMapping], problem: TimeloopProblem
) -> tuple[dict[tuple[int, str], int], frozenset[tuple[int, str]]]:
    """Where each holder stands, and which of them cannot stand where Timeloop's overlap would be kept."""
    holders: dict[tuple[int, str], int] = {}
    lost: set[tuple[int, str]] = set()
    for space in problem.spaces:
        for number, level_mapping in enumerate(mapped):
            if space.timeloop_name not in level_mapping.spaces:
                continue
            first = next((i for i, loop in enumerate(loops) if loop.level >= number), len(loops))
            stands, overlap_kept = _moved_up(first, loops, space)
            holders[number, space.timeloop_name] = stands if number else 0
            if number and not (
                overlap_kept and _unicast(loops[:first], space) and not _returns(first, stands, loops, space)
            ):
                lost.add((number, space.timeloop_name))
    return holders, frozenset(lost)


def _moved_up(position: int, loops: tuple[FactorLoop, ...], space: DataSpace) -> tuple[int, bool]:
    """Above the loops just above it that leave its tile as it is, or above the one that slides a window; and whether it could.

    Timeloop steps a loop once and takes the other steps to be alike. So it keeps the overlap from one pass of a loop to the
    next only if the loop has two iterations, and the next loop out goes on in the same dimension.
    """
    extents = dict.fromkeys(space.dimensions, 1)
    for loop in loops[position:]:
        if loop.dimension in extents:
            extents[loop.dimension] *= loop.iterations
    spread: set[str] = set()
    stands, stayed, sliding = position, False, ""
    for at in reversed(range(position)):
        loop = loops[at]
        if loop.axis is not None:
            spread.add(loop.dimension)
        elif loop.dimension not in space.dimensions:
            if sliding:
                break
            stands, stayed = at, True
        elif stayed or (sliding and loop.dimension != sliding) or not _overlaps(loop, space, extents, bool(sliding)):
            break
        elif loop.dimension in spread:
            return stands, False
        else:
            stands, sliding = at, loop.dimension
            if loop.iterations != 2:
                break
    return stands, True


def _returns(position: int, stands: int, loops: tuple[FactorLoop, ...], space: DataSpace) -> bool:
    """Whether a loop further out happens to move the tile on just as the innermost loop did, so that Timeloop keeps the overlap.

    When a loop steps, those inside of it go back from the one step that Timeloop has taken.
    """
    temporal = [(at, loop) for at, loop in enumerate(loops[:position]) if loop.axis is None]
    if not temporal:
        return False
    steps = [_step(loop, space) for _, loop in temporal]
    widths = [1 + sum(abs(a) * (tile - 1) for tile, a in _tiles(rank, loops[position:])) for rank in space.ranks]
    if any(abs(step) >= width for step, width in zip(steps[-1], widths, strict=True)):
        return False
    back = [0] * len(space.ranks)
    for (at, _), step in zip(reversed(temporal), reversed(steps), strict=True):
        moved = [outer - inner for outer, inner in zip(step, back, strict=True)]
        if at < stands and at != temporal[-1][0] and moved == steps[-1]:
            return True
        back = [inner + outer for inner, outer in zip(back, step, strict=True)]
    return False


def _step(loop: FactorLoop, space: DataSpace) -> list[int]:
    """How far one step of a loop moves a tile, per rank."""
    return [rank.get(loop.dimension, 0) * loop.tile for rank in space.ranks]


def _tiles(rank: dict[str, int], inner: tuple[FactorLoop, ...]) -> list[tuple[int, int]]:
    """Extent and coefficient of each dimension of a rank below a point."""
    return [(math.prod(loop.iterations for loop in inner if loop.dimension == d), a) for d, a in rank.items()]


def _unicast(above: tuple[FactorLoop, ...], space: DataSpace) -> bool:
    """Whether no two instances of one fanout have the same window by different indices, as `p + r` has."""
    spatial = [loop for loop in above if loop.axis is not None]
    return not any(
        first.level == second.level
        and first.dimension != second.dimension
        and {first.dimension, second.dimension} <= rank.keys()
        for first in spatial
        for second in spatial
        for rank in space.ranks
    )


def _overlaps(loop: FactorLoop, space: DataSpace, extents: dict[str, int], inner_overlaps: bool) -> bool:
    """Whether neighbouring tiles of this loop have something in common; they do if those of the loop inside of it do."""
    if loop.dimension in space.alone or inner_overlaps:
        return inner_overlaps
    rank = next(rank for rank in space.ranks if loop.dimension in rank)
    width = 1 + sum(abs(a) * (extents[d] - 1) for d, a in rank.items())
    return abs(rank[loop.dimension]) * loop.tile < width
