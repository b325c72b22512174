"""The statements that a mapping is lowered to, as a flat list: blocks begin with `Loop` or `If` and end with `End`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fusiest.code.bodies import Body
from fusiest.code.lowering.indices import Index, Test, minus, named, value_of
from fusiest.code.shapes import TensorShape
from fusiest.model import AccessKey, NestLoop
from fusiest.spec import Affine, EinsumInfo


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """The room of one storage node: a tile, for each lane of the Spatial loops that tell instances apart."""

    name: str
    tensor: str
    memory: str
    shape: tuple[int, ...]
    """Of a tile, by rank."""
    lanes: tuple[NestLoop, ...] = ()
    ring: int | None = None
    """The rank along which the tile moves: its coordinates are counted round and round."""
    bits: float = 0
    """What an instance reserves."""
    width: float = 0
    """Bits of a value."""
    outside: TensorShape | None = None
    """Of a tensor that comes in or goes out: all of it is there, wherever the mapping holds it."""
    backing: bool = True
    """Whether Einsums exchange the tensor here."""
    persistent: bool = False
    gaps: bool = False
    """Whether there are elements in it that nobody makes: they are 0."""

    @property
    def elements(self) -> int:
        """Of all instances."""
        return math.prod(self.shape) * math.prod(lane.iterations for lane in self.lanes)


@dataclass(frozen=True, slots=True)
class Tile:
    """An array at some place of the program: the indices of its lanes, and the coordinates of the tile's first element."""

    array: Array
    lanes: tuple[str, ...]
    base: tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a tile, by its coordinates in the tensor."""

    tile: Tile
    coordinates: tuple[Affine, ...]

    @property
    def place(self) -> tuple[Affine, ...]:
        """The coordinates within the tile."""
        return tuple(minus(at, first) for at, first in zip(self.coordinates, self.tile.base, strict=True))


@dataclass(frozen=True, slots=True)
class Side:
    """From where to where a box goes along one rank: what is moved, and what counts as moved (gaps of a stride, too)."""

    name: str
    low: Index
    end: Index
    step: int = 1
    counted: tuple[Index, Index] | None = None

    @property
    def count(self) -> tuple[Index, Index]:
        return self.counted or (self.low, self.end)

    @property
    def alone(self) -> bool:
        """Whether it is no more than one coordinate."""
        return (
            isinstance(self.low, Affine) and isinstance(self.end, Affine) and value_of(minus(self.end, self.low)) == 1
        )

    @property
    def coordinate(self) -> Affine:
        """A coordinate of it, by its name; or as a number, where there is but one."""
        return self.low if self.alone and isinstance(self.low, Affine) else named(self.name)


@dataclass(frozen=True, slots=True)
class Tally:
    """Values moved, or points computed, that count as an action: not at all where all of `unless` are 0, and but once where
    indices of `once` are not 0. On one instance, where `here` are 0, too."""

    key: AccessKey
    once: tuple[str, ...] = ()
    here: tuple[str, ...] = ()
    unless: tuple[str, ...] | None = None
    distinct: tuple[tuple[Affine, int], ...] | None = None
    """The element, as an index along each rank and how many there are: each counts the first time only."""


@dataclass(frozen=True, slots=True)
class Loop:
    index: str
    count: Index
    words: str
    """The variable that it steps, and its tiles."""
    place: tuple[str, str] | None = None
    """Of a Spatial loop, the component and its dimension."""


@dataclass(frozen=True, slots=True)
class If:
    """Only where all of these hold."""

    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class End:
    """The end of the innermost block."""


@dataclass(frozen=True, slots=True)
class Let:
    name: str
    value: Index


@dataclass(frozen=True, slots=True)
class Turn:
    """These Einsums follow."""

    einsums: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """Room is taken from here on."""

    array: Array


@dataclass(frozen=True, slots=True)
class Release:
    """The room is free again."""

    array: Array


@dataclass(frozen=True, slots=True)
class Move:
    """A box goes from one memory to another: `fetch` into the inner one, or `drain` out of it.

    Partial sums are fetched only where one of `again` is not 0: some loop has gone round. In a lane where one of `alone` is not 0,
    they begin with nothing, and are added to what other lanes have drained.
    """

    kind: Literal["fetch", "drain"]
    einsum: str
    inner: Tile
    outer: Tile
    through: tuple[str, ...]
    """Tolls on the way, from the outer memory on."""
    box: tuple[Side, ...]
    again: tuple[str, ...] | None
    alone: tuple[str, ...]
    reduction: str
    tallies: tuple[Tally, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One point of an Einsum: what it reads, mapped and added to the output, of which nothing is there where `again` and
    `alone` are all 0. Where a read is `outside` of its tensor, nothing is added.
    """

    info: EinsumInfo
    component: str
    body: Body
    variables: Mapping[str, Affine]
    output: Element
    reads: Mapping[str, Element]
    outside: Mapping[str, tuple[tuple[Affine, int, int], ...]]
    """By tensor, coordinates that may be outside of it, with the first one that is there, and the end."""
    again: tuple[str, ...]
    alone: tuple[str, ...]
    lanes: tuple[str, ...]
    """Lanes that share the reduction: what it begins with is there in the first of them."""
    finishes: bool
    """Whether what comes after the reduction is part of the point."""
    tallies: tuple[Tally, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """What comes after a reduction, applied to a box that is complete."""

    info: EinsumInfo
    tile: Tile
    box: tuple[Side, ...]
    body: Body
    parameters: Mapping[str, Element]


Statement: TypeAlias = Loop | If | End | Let | Turn | Hold | Release | Move | Point | Finish


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A mapping as statements, with the arrays that they use."""

    statements: tuple[Statement, ...]
    arrays: tuple[Array, ...]
    """One for each storage node, those of `inputs` and `outputs` aside."""
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    parameters: tuple[Array, ...] = ()
    """What Einsums read that no memory moves."""
