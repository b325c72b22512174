"""What is known at a place of the program: loops that run, names that are taken, and where each rank variable is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from fusiest.code.lowering.indices import (
    ZERO,
    Index,
    Test,
    choose,
    constant,
    least,
    minus,
    most,
    named,
    plus,
    quotient,
    value_of,
)
from fusiest.code.lowering.statements import Let, Statement
from fusiest.model import EinsumNest, NestLoop
from fusiest.spec import Affine


@dataclass(frozen=True, slots=True)
class Range:
    """From where to where a variable goes; the end is excluded."""

    low: Affine
    end: Affine

    @property
    def extent(self) -> int | None:
        """Its length, if that is always the same."""
        return value_of(minus(self.end, self.low))


@dataclass
class Scope:
    """A block of the program that is being written; inner blocks know what outer ones know."""

    statements: list[Statement]
    safe: Callable[[str], str]
    """Makes a name one that the language has not taken."""
    placed: dict[int, str] = field(default_factory=dict)
    """Loops that run, by number, with their indices."""
    ranges: dict[tuple[object, ...], Range] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    uneven: frozenset[tuple[str, int]] = frozenset()
    """Loops, by Einsum and number, whose tiles are not all of one length."""
    loose: frozenset[tuple[str, int]] = frozenset()
    """Those that may go on where a lane of a Spatial loop outside of them has ended."""

    def inner(self) -> Scope:
        """A block within this one."""
        return replace(self, placed=dict(self.placed), ranges=dict(self.ranges), taken=set(self.taken))

    def name(self, wanted: str) -> str:
        """A name that nothing else here has."""
        name = self.safe(wanted)
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def names(self, wanted: Sequence[str]) -> list[str]:
        """Names for one statement alone: others may have them, too."""
        inner = self.inner()
        return [inner.name(name) for name in wanted]

    def let(self, wanted: str, value: Index) -> Affine:
        """A number by a name, unless it is a plain sum."""
        if isinstance(value, Affine):
            return value
        name = self.name(wanted)
        self.statements.append(Let(name, value))
        return named(name)

    # --- ranges ---------------------------------------------------------------------------------------------------

    def range(self, nest: EinsumNest, variable: str, loops: Iterable[NestLoop]) -> Range:
        """Where a variable is inside of some of its loops, outermost first. Loops that do not run here are at their first tile."""
        found = Range(ZERO, constant(nest.reach[variable]))
        key: tuple[object, ...] = (nest.einsum.name, variable)
        for loop in loops:
            index = self.placed.get(loop.number)
            key = (*key, loop.number, index)
            if key not in self.ranges:
                self.ranges[key] = self._step(found, loop, variable, index)
            found = self.ranges[key]
        return found

    def _step(self, outer: Range, loop: NestLoop, variable: str, index: str | None) -> Range:
        """The tile of a loop."""
        first, tile, step = loop.tiling
        wanted = index if index is not None and index.startswith(variable) else f"{variable}_{index or 0}"
        if index is None:
            return Range(outer.low, self.let(f"{wanted}_end", least(plus(outer.low, first), outer.end)))
        end = plus(plus(outer.low, named(index), step), first)
        low: Index = plus(outer.low, named(index), step)
        if first < tile:
            low = most(outer.low, minus(end, tile))
        elif first > tile:
            low = choose(named(index), outer.low, minus(end, tile))
        if not self._always_inside(outer, loop):
            return Range(self.let(f"{wanted}_low", low), self.let(f"{wanted}_end", least(end, outer.end)))
        return Range(self.let(f"{wanted}_low", low), end)

    @staticmethod
    def _always_inside(outer: Range, loop: NestLoop) -> bool:
        """Whether no tile is cut off at the end."""
        extent = outer.extent
        if extent is None:
            return False
        last = loop.tiling.last(extent, loop.window_iterations)
        return loop.tiling.first + last * loop.tiling.step <= extent

    def count(self, nest: EinsumNest, loop: NestLoop) -> Index:
        """How often a loop iterates here."""
        chain = nest.chains[loop.variable]
        outer = self.range(nest, loop.variable, chain[: chain.index(loop)])
        first, tile, step = loop.tiling
        if outer.extent is not None or (loop.tiling.windowed and loop.window_iterations is not None):
            return constant(loop.tiling.last(outer.extent or 0, loop.window_iterations) + 1)
        extent = minus(outer.end, outer.low)
        if not loop.tiling.windowed:
            return quotient(extent, tile)
        covered = quotient(plus(extent, step - first), step)
        return most(constant(1), least(covered, quotient(plus(extent, tile - first), step)))

    def enter(self, nests: Sequence[EinsumNest], loop: int, index: str) -> None:
        """A loop runs from here on."""
        self.placed[loop] = index
        for nest in nests:
            own = next(x for x in nest.loops if x.number == loop)
            chain = nest.chains[own.variable]
            self.range(nest, own.variable, chain[: chain.index(own) + 1])
            waiting = (x.number for x in chain[: chain.index(own)] if x.number not in self.placed)
            if not own.is_spatial and any((nest.einsum.name, number) in self.uneven for number in waiting):
                self.loose |= {(nest.einsum.name, loop)}

    def exists(self, nest: EinsumNest, loops: Sequence[NestLoop]) -> tuple[Test, ...]:
        """That there is a tile here, in all of these loops."""
        tests = []
        for variable, chain in nest.chains.items():
            inside = [loop for loop in chain if loop in loops]
            for i, loop in enumerate(inside):
                if (nest.einsum.name, loop.number) in self.loose:
                    tile = self.range(nest, variable, inside[: i + 1])
                    end = tile.end if loop.tiling.windowed else self.range(nest, variable, inside[:i]).end
                    tests.append(Test(tile.low, end))
        return tuple(tests)
