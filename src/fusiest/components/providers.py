"""Where classes that are not code come from: functions that make them when one is first looked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from fusiest.components.classes import ComponentClass

Provider: TypeAlias = "Callable[[], Iterable[ComponentClass]]"
PROVIDERS: list[Provider] = []


def register_provider(provider: Provider) -> None:
    """Add classes that are made when one is first looked for."""
    PROVIDERS.append(provider)
