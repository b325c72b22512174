"""Tables of pmappings shared by plans of windows: an Einsum's table depends on its window, not on the whole plan."""

from __future__ import annotations

from fusiest.mapper.options import Options
from fusiest.mapper.tables import question_of
from fusiest.pmapping import Question, Table, common_key, meeting_memories
from fusiest.spec import Spec

MOST_TABLES = 24
"""Most tables besides those of the whole workload: one with many rows takes some ten megabytes, for the way back to
nests."""


class WindowTables:
    """Tables of the whole workload, and the latest others, by all that they depend on."""

    def __init__(self, spec: Spec, options: Options, tables: dict[str, Table]) -> None:
        self.of_all = {key: tables[name] for name, key in _keys(spec, options, True).items() if name in tables}
        self.tables: dict[object, Table] = {}

    def remembered(self, spec: Spec, options: Options, exact: bool) -> dict[str, Table]:
        """Known tables of a spec, by Einsum."""
        known, keys = {**self.of_all, **self.tables}, _keys(spec, options, exact)
        return {name: known[key] for name, key in keys.items() if key in known}

    def keep(self, spec: Spec, options: Options, tables: dict[str, Table], exact: bool) -> None:
        """Keep the tables that a search has explored."""
        keys = _keys(spec, options, exact)
        for name, table in tables.items():
            if keys[name] not in self.of_all:
                self.tables.setdefault(keys[name], table)
        for key in list(self.tables)[:-MOST_TABLES]:
            del self.tables[key]


def _keys(spec: Spec, options: Options, exact: bool) -> dict[str, object]:
    return {name: (exact, key) for name, key in table_keys(spec, question_of(options), options.finished).items()}


def table_keys(spec: Spec, question: Question, finished: bool) -> dict[str, object]:
    """Everything that the table of each Einsum depends on."""
    ample = question.ample(spec)
    common = question, meeting_memories(spec, question.usage, ample), ample, question.is_roomy(spec)
    return {name: (name, common_key(spec, name, finished, question.rates), common) for name in spec.info.einsums}
