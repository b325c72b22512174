"""Extents that several ranks and variables share: a reshape that splits one of them splits all.

`Extent` is a class of equal sizes (union-find), which may be split into parts; an `Axis` is one rank of a tensor or one
variable of an Einsum, and has as many leaves as its extent. Nothing here knows about operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


class Extent:
    """A size that is one size for all who have it.

    >>> tokens, rows = Extent(12), Extent(12)
    >>> tokens.join(rows)
    >>> rows.split(4), [part.size for part in tokens.leaves()]
    (True, [3, 4])
    """

    __slots__ = ("_joined", "parts", "rigid", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.parts: tuple[Extent, Extent] | None = None
        self.rigid = False
        """Some tensor is read at sums of indices here (a window), so that its rank stays whole."""
        self._joined: Extent | None = None

    def root(self) -> Extent:
        root = self
        while root._joined is not None:
            root = root._joined
        extent = self
        while extent._joined is not None:  # paths stay short
            extent._joined, extent = root, extent._joined
        return root

    def leaves(self) -> list[Extent]:
        """The parts that are not split further, outermost first."""
        leaves, waiting = [], [self.root()]
        while waiting:
            extent = waiting.pop().root()
            if extent.parts is None:
                leaves.append(extent)
            else:
                waiting += reversed(extent.parts)
        return leaves

    def split(self, inner: int) -> bool:
        """Split into size/inner outer and `inner` inner indices; whether that is possible. Only for leaves."""
        root = self.root()
        assert root.parts is None
        if inner in (1, root.size):
            return True
        if root.rigid or root.size % inner:
            return False
        root.parts = Extent(root.size // inner), Extent(inner)
        return True

    def join(self, other: Extent) -> None:
        """Both are one from now on. Only for leaves of one size."""
        root, other_root = self.root(), other.root()
        assert root.parts is None
        assert other_root.parts is None
        assert root.size == other_root.size
        if root is not other_root:
            root.rigid |= other_root.rigid
            other_root._joined = root


_PARTS = {"d": ("h", "e"), "e": ("h", "e"), "h": ("h", "g"), "c": ("g", "c")}
"""What the parts of an axis count: features become heads and what is in one, heads and channels groups."""


class Axis:
    """A rank of a tensor, or a variable of an Einsum. `role` is what it counts, as a letter for its name."""

    __slots__ = ("_parts", "extent", "role")

    def __init__(self, extent: Extent, role: str = "") -> None:
        self.extent, self.role = extent, role
        self._parts: tuple[Axis, Axis] | None = None

    @property
    def size(self) -> int:
        return self.extent.size

    def split_axes(self) -> Iterator[tuple[Axis, Axis]]:
        """All pairs of parts, of this axis and of its parts."""
        waiting = [self]
        while waiting:
            axis = waiting.pop()
            if axis.extent.root().parts is not None:
                axis.leaves()
                assert axis._parts is not None
                yield axis._parts
                waiting += axis._parts

    def leaves(self) -> list[Axis]:
        """Axes, one per part of the extent, outermost first; the same objects at every call."""
        leaves, waiting = [], [self]
        while waiting:
            axis = waiting.pop()
            parts = axis.extent.root().parts
            if parts is None:
                leaves.append(axis)
                continue
            if axis._parts is None:
                outer, inner = _PARTS.get(axis.role, (axis.role, axis.role))
                axis._parts = Axis(parts[0], outer), Axis(parts[1], inner)
            waiting += reversed(axis._parts)
        return leaves


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """A part of an index: it moves `axis` of a tensor by `coefficient`, or nothing (a broadcast).

    It is plain if it counts the axis itself, 0, 1, 2, …: then it splits with the axis.
    """

    extent: Extent
    axis: Axis | None = None
    coefficient: int = 1

    @property
    def size(self) -> int:
        return self.extent.size

    @property
    def plain(self) -> bool:
        return self.axis is not None and self.axis.extent is self.extent

    def leaves(self) -> list[Factor]:
        """This factor as its extent is split now, outermost first."""
        if self.axis is not None and self.plain:
            axes = self.axis.leaves()
            return [self] if len(axes) == 1 else [Factor(axis.extent, axis) for axis in axes]
        extents = self.extent.leaves()
        if len(extents) == 1:
            return [self]
        leaves: list[Factor] = []
        coefficient = self.coefficient
        for extent in reversed(extents):
            leaves.append(Factor(extent, self.axis, coefficient))
            coefficient *= extent.size
        return leaves[::-1]


def spread(factors: Sequence[Factor]) -> list[Factor]:
    """All leaves, outermost first."""
    return [leaf for factor in factors for leaf in factor.leaves()]


def align(columns: Sequence[Sequence[Factor]]) -> list[list[Factor | None]] | None:
    """Split the factors of several indices so that they match one by one, and join what matches; None if they cannot.

    An index without factors is a broadcast: it has None in every group. Groups come outermost first.

    >>> heads, width = Extent(12), Extent(64)
    >>> groups = align([[Factor(heads), Factor(width)], [Factor(Extent(768))]])
    >>> [[factor.size for factor in group] for group in groups]
    [[12, 12], [64, 64]]
    """
    stacks = [spread(column) for column in columns]
    groups: list[list[Factor | None]] = []
    while any(stacks):
        for stack in stacks:  # a split of one may have split another
            while stack and len(leaves := stack[-1].leaves()) > 1:
                stack[-1:] = leaves
        inner = min(stack[-1].size for stack in stacks if stack)
        larger = [stack[-1] for stack in stacks if stack and stack[-1].size > inner]
        if larger:
            if not all(factor.extent.split(inner) for factor in larger if len(factor.leaves()) == 1):
                return None
            continue
        group = [stack.pop() if stack else None for stack in stacks]
        matched = [factor for factor in group if factor is not None]
        for factor in matched[1:]:
            matched[0].extent.join(factor.extent)
        groups.append(group)
    return groups[::-1]
