"""What the number of a field may be: its range, and its unit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusiest.base.errors import shown
from fusiest.base.units import read_quantity

SMALLEST, LARGEST = 1e-100, 1e100
"""What a number may be besides 0 and infinity: costs are products of few of these and counts, and stay numbers."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the number of a field may be.

    >>> Limits().complaint("size", -1)
    'size must not be negative, but is -1'
    """

    positive: bool = False
    finite: bool = True
    whole: bool = False
    fraction: bool = False
    always_one: bool = False
    units: tuple[str, ...] = ()
    """Units that its quantities may have, as `units` calls them; none if it is a mere number."""

    def complaint(self, name: str, value: int | float) -> str | None:
        """Why a field cannot have this value; None if it can."""
        if self.whole and not (1 <= value < math.inf and value == int(value)):
            return f"{name} must be a whole number of at least 1, but is {value}"
        if self.always_one and value != 1:
            return f"{name} must be 1, but is {value}: no other value has a meaning here"
        if self.fraction and not 0 <= value <= 1:
            return f"{name} must be a fraction, from 0 to 1, but is {value}"
        if self.positive and not value > 0:
            return f"{name} must be positive, but is {value}"
        if not value >= 0:
            return f"{name} must not be negative, but is {value}"
        if self.finite and value == math.inf:
            return f"{name} must be finite"
        if LARGEST < value < math.inf:
            return f"{name} is too large"
        return f"{name} is too small" if 0 < value < SMALLEST else None

    def wrong_unit(self, name: str, text: str) -> str | None:
        """Why a field cannot have this quantity; None if it can, or if the text is none.

        >>> Limits(units=("J",)).wrong_unit("energy", "5 ns")
        "energy is in J, but '5 ns' is in s"
        """
        quantity = read_quantity(text)
        if quantity is None or quantity.unit.dimension in self.units:
            return None
        expected = f"is in {' or '.join(self.units)}" if self.units else "takes no unit"
        return f"{name} {expected}, but '{shown(text)}' is in {quantity.unit.dimension}"
