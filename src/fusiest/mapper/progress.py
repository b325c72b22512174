"""What the mapper says while it works. How it is shown is up to whoever listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Step:
    """Something was done: in which phase, how far the phase is (0 of 0 if that cannot be known), and what came out."""

    phase: str
    detail: str = ""
    done: int = 0
    total: int = 0
    unit: str = "Einsums"

    def __str__(self) -> str:
        far = f" {self.done:,} of {self.total:,} {self.unit}" if self.total else ""
        return f"{self.phase}{far}{': ' if self.detail else ''}{self.detail}"


Progress: TypeAlias = Callable[[Step], None]


def nobody(step: Step) -> None:
    """Hear of a step, and say nothing."""
