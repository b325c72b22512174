"""Random choices that shrink well."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Dice:
    """Choices whose first or smallest option is the simplest, so that failing cases shrink to plain ones."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def one_of(self, options: Sequence[T]) -> T:
        return options[0] if len(options) == 1 else self._draw(st.sampled_from(options))

    def number(self, low: int, high: int) -> int:
        return low if low >= high else self._draw(st.integers(low, high))

    def chance(self, percent: int) -> bool:
        """True with about this probability; shrinks to False."""
        return self._draw(st.integers(0, 99)) >= 100 - percent

    def subset(self, options: Sequence[T], percent: int) -> list[T]:
        return [option for option in options if self.chance(percent)]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        return self._draw(st.permutations(options))


class RandomDice(Dice):
    """Choices that nobody shrinks: many cases in little time."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def one_of(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def number(self, low: int, high: int) -> int:
        return low if low >= high else self._random.randint(low, high)

    def chance(self, percent: int) -> bool:
        return self._random.randrange(100) >= 100 - percent

    def shuffled(self, options: Sequence[T]) -> list[T]:
        return self._random.sample(options, len(options))
