"""Shifted, mirrored and strided indices, for all random workloads: most accesses are plain, and most agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fusiest.base.frozen import FrozenDict
from fusiest.spec.language.affine import Affine, Constraint
from tests.drawing.dice import Dice


@dataclass(frozen=True)
class Twist:
    """factor · index + shift, in place of an index."""

    factor: int = 1
    shift: int = 0

    def of(self, terms: Mapping[str, int], constant: int = 0) -> Affine:
        return Affine(FrozenDict({v: self.factor * a for v, a in terms.items()}), self.factor * constant + self.shift)


def draw_twist(dice: Dice, size: int, strides: bool = True) -> Twist:
    """Of a rank of `size` elements. Mirrored ones mostly stay in it, others may reach past its ends."""
    factor = dice.one_of([1, -1, 2, 1, -2] if strides else [1, -1])
    shift = dice.one_of([0, 1, -1, 2, size])
    return Twist(factor, shift if factor > 0 else -factor * (size - 1) + dice.one_of([0, 0, shift]))


@dataclass
class Twists:
    """How the ranks of tensors are indexed: each tensor has a way of its own, from which few accesses differ."""

    dice: Dice
    percent: int = 8
    """Of tensors with a way of their own, and of accesses that differ."""
    known: dict[tuple[str, int], Twist] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    """Of the Einsum that is being drawn: variables that do not count from 0."""

    def constraints(self, bounds: Mapping[str, int]) -> tuple[Constraint, ...]:
        """The bounds of the next Einsum's variables."""
        self.least = {v: self.dice.one_of([1, -1, 3]) if self.dice.chance(4) else 0 for v in bounds}
        return tuple(
            Constraint(f"{low} <= {v} < {low + bound}")
            for (v, bound), low in zip(bounds.items(), self.least.values(), strict=True)
        )

    def straight(self, terms: Mapping[str, int], shift: int = 0) -> Affine:
        """An index that begins at `shift`, whatever variables count from."""
        return Twist(1, shift).of(terms, -sum(a * self.least.get(v, 0) for v, a in terms.items()))

    def index(self, tensor: str, rank: int, terms: Mapping[str, int], size: int, strides: bool = True) -> Affine:
        """One access of a tensor's rank. Mostly as if variables counted from 0."""
        dice, key = self.dice, (tensor, rank)
        if key not in self.known:
            self.known[key] = draw_twist(dice, size, strides) if dice.chance(self.percent) else Twist()
        twist = draw_twist(dice, size, strides) if dice.chance(self.percent) else self.known[key]
        if not strides and abs(twist.factor) != 1:
            twist = Twist()
        counted = sum(a * self.least.get(v, 0) for v, a in terms.items())
        return twist.of(terms, -counted if counted and not dice.chance(30) else 0)
