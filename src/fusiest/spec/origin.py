"""Where a spec was loaded from."""

from __future__ import annotations

from dataclasses import dataclass, field

from fusiest.frozen import FrozenDict


@dataclass(frozen=True, slots=True)
class SpecOrigin:
    """Files and bundled names as the user gave them, and the defines that filled in their templates."""

    files: tuple[str, ...] = ()
    defines: FrozenDict[str, object] = field(default_factory=FrozenDict)
