"""Where a spec was loaded from."""

from __future__ import annotations

from dataclasses import dataclass, field

from fusiest.base.frozen import FrozenDict


@dataclass(frozen=True, slots=True)
class SpecOrigin:
    """Files and bundled names as the user gave them, and the defines that filled in their templates."""

    files: tuple[str, ...] = ()
    defines: FrozenDict[str, object] = field(default_factory=FrozenDict)
    values: FrozenDict[str, object] = field(default_factory=FrozenDict)
    """Every define that the templates take, with its value, given or not."""
    inputs: tuple[object, ...] = ()
    """What was given to `load`, to load it again."""
