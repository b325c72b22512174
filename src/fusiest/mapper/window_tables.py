"""Tables of pmappings that plans of windows have in common: an Einsum's depends on its window, not on the whole plan."""

from __future__ import annotations

from fusiest.mapper.options import Options
from fusiest.mapper.tables import asked_of
from fusiest.pmapping import Table, common_key, meeting_memories
from fusiest.spec import Spec

MOST_TABLES = 24
"""A table of many rows holds what it takes to write them as nests: some ten megabytes."""


class WindowTables:
    """The latest tables, by all that they depend on."""

    def __init__(self) -> None:
        self.tables: dict[object, Table] = {}

    def remembered(self, spec: Spec, options: Options, exact: bool) -> dict[str, Table]:
        """The tables of a spec that are there, by Einsum."""
        keys = _keys(spec, options, exact)
        return {name: self.tables[key] for name, key in keys.items() if key in self.tables}

    def keep(self, spec: Spec, options: Options, tables: dict[str, Table], exact: bool) -> None:
        """Those that a search has explored."""
        keys = _keys(spec, options, exact)
        for name, table in tables.items():
            self.tables.setdefault(keys[name], table)
        for key in list(self.tables)[:-MOST_TABLES]:
            del self.tables[key]


def _keys(spec: Spec, options: Options, exact: bool) -> dict[str, object]:
    asked = asked_of(options)
    common = (
        exact,
        asked,
        meeting_memories(spec, asked.usage, asked.ample(spec)),
        asked.ample(spec),
        asked.is_roomy(spec),
    )
    return {name: (name, common_key(spec, name, options.finished), common) for name in spec.info.einsums}
