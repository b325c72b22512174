"""Who made a result, when, and from what."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from fusiest.base.frozen import FrozenDict
from fusiest.spec import Spec

GIVEN = "given"
"""Name in place of a mapper where the mapping was given, not searched."""


@dataclass(frozen=True)
class Provenance:
    """The origin of a result, as its file has it."""

    version: str = ""
    """Version of fusiest."""
    created: str = ""
    """Moment of writing, in ISO 8601 and UTC."""
    files: tuple[str, ...] = ()
    defines: FrozenDict[str, object] = field(default_factory=FrozenDict)
    command: tuple[str, ...] = ()
    """The command line, if there was one."""
    mapper: str = "fusiest"
    """The mapper, a baseline, or `given`."""


def made_now(spec: Spec, mapper: str = "fusiest", command: tuple[str, ...] = ()) -> Provenance:
    """The provenance of a result that this program makes from a spec now."""
    from fusiest import __version__

    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    files, defines = (spec.origin.files, spec.origin.defines) if spec.origin is not None else ((), FrozenDict())
    return Provenance(__version__, now, files, defines, command, mapper)
