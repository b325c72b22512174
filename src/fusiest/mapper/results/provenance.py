"""Who made a result, when, and from what."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from fusiest.base.frozen import FrozenDict
from fusiest.spec import Spec

GIVEN = "given"
"""In place of a mapper: nothing was searched, the mapping was given."""


@dataclass(frozen=True)
class Provenance:
    """What a result file says of itself beside its figures."""

    version: str = ""
    """fusiest's."""
    created: str = ""
    """When, as ISO 8601 has it, in UTC."""
    files: tuple[str, ...] = ()
    defines: FrozenDict[str, object] = field(default_factory=FrozenDict)
    command: tuple[str, ...] = ()
    """The command line, if there was one."""
    mapper: str = "fusiest"
    """Or a baseline, or `given`."""


def made_now(spec: Spec, mapper: str = "fusiest", command: tuple[str, ...] = ()) -> Provenance:
    """Of something that this program makes from a spec now."""
    from fusiest import __version__

    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    files, defines = (spec.origin.files, spec.origin.defines) if spec.origin is not None else ((), FrozenDict())
    return Provenance(__version__, now, files, defines, command, mapper)
