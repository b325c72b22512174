"""Timeloop's files as plain tables that know their lines, and their sections, whatever file they stand in.

Files are read by the rules of specs: templates are rendered, includes end at the project, nothing runs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusiest.base.errors import Located, Source, SpecError, shown
from fusiest.spec import (
    Included,
    Includes,
    ListNode,
    MapNode,
    ScalarNode,
    YamlNode,
    evaluate_expression,
    load_nodes,
    text_of_file,
)

SECTIONS = ("architecture", "problem", "mapping", "constraints", "ERT", "ART", "variables")
CONSTRAINTS = ("architecture_constraints", "mapspace_constraints", "mapspace", "constraints")
PASSED_OVER = (
    "compound_components", "components", "mapper", "globals", "dumped_by_timeloop_front_end", "definitions", "ERT_summary",
    "ART_summary",
)  # fmt: skip
"""Sections that say nothing about the result: energies come from the table, and the search has options of its own. What is
called `problem_…` is there for `problem` to take over."""


class FileTable(dict[str, Any]):
    """A table of a file: its tag, and the line that it begins at. Dashes in keys are underscores."""

    def __init__(self, entries: Mapping[str, Any], source: Source, tag: str | None = None) -> None:
        super().__init__(entries)
        self.source, self.tag = source, tag

    def only(self, label: str, *allowed: str) -> None:
        """An error that names a key which is none of these and says something."""
        for key, value in self.items():
            if key not in allowed and value not in (None, [], {}):
                raise SpecError(f"{label}: '{shown(key)}' is not supported", self.source)


@dataclass
class TimeloopFiles:
    """What all files say together: each section's values in the order of the files, and the texts of statistics."""

    values: dict[str, list[Any]] = field(default_factory=dict)
    statistics: list[tuple[str, str]] = field(default_factory=list)

    def section(self, name: str) -> Any:
        """The section, or None; it may be given once."""
        values = [value for value in self.values.get(name, ()) if value not in (None, [], {})]
        if len(values) > 1:
            place = values[1].source if isinstance(values[1], FileTable) else None
            raise SpecError(f"the section '{name}' is given twice", place)
        return values[0] if values else None


def read_files(files: Sequence[str]) -> TimeloopFiles:
    """Read all files: YAML, and the statistics that Timeloop wrote, which end in `.txt`."""
    contents = TimeloopFiles()
    for file in files:
        text = text_of_file(file)
        if file.endswith(".txt"):
            contents.statistics.append((file, text))
            continue
        nodes = load_nodes(os.path.normpath(file), text, {}, Includes(file, file, Included()))
        places = {key.value: key.source for key, _ in nodes.items}
        for key, value in as_table(nodes).items():
            _place_section(contents, key, value, places.get(key))
    return contents


def _place_section(contents: TimeloopFiles, key: str, value: Any, place: Source | None) -> None:
    if key in CONSTRAINTS:
        targets = value.get("targets", value.get("constraints")) if isinstance(value, FileTable) else value
        if isinstance(value, FileTable):
            value.only(key, "version", "template", "targets", "constraints")
        contents.values.setdefault("constraints", []).append(targets)
    elif key in SECTIONS:
        contents.values.setdefault(key, []).append(value)
    elif key == "energy_reference_table":
        contents.values.setdefault("ERT", []).append(value)
    elif key not in PASSED_OVER and not key.startswith("problem_") and value not in (None, [], {}):
        raise SpecError(f"Timeloop's section '{shown(key)}' is not supported", place)


def as_table(node: YamlNode) -> FileTable:
    """A node that must be a table."""
    value = _plain(node)
    if not isinstance(value, FileTable):
        raise SpecError("expected a table", node.source)
    return value


def _plain(node: YamlNode) -> Any:
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, ListNode):
        return [_plain(item) for item in node.items]
    assert isinstance(node, MapNode)
    entries = {str(key.value).replace("-", "_"): _plain(value) for key, value in node.items}
    return FileTable(entries, node.source, node.tag)


def table_of(value: Any, label: str, at: Source | None = None) -> FileTable:
    """A value that must be a table."""
    if not isinstance(value, FileTable):
        raise SpecError(f"{label} must be a table", at or _place(value))
    return value


def table_in(table: FileTable, key: str, label: str) -> FileTable:
    """A table that may be missing."""
    return table_of(table.get(key) or FileTable({}, table.source), label, table.source)


def list_of(value: Any, label: str, at: Source | None = None) -> list[Any]:
    """A value that must be a list."""
    if not isinstance(value, list):
        raise SpecError(f"{label} must be a list", at or _place(value))
    return value


def tables_in(value: Any, label: str, at: Source | None = None) -> list[FileTable]:
    """A list of tables."""
    return [table_of(item, f"an entry of {label}", at) for item in list_of(value, label, at)]


def name_in(table: FileTable, key: str, label: str) -> Located:
    """A text that must be there."""
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise SpecError(f"{label} has no '{key}'", table.source)
    return value if isinstance(value, Located) else Located(value, table.source)


def names_of(value: Any, label: str, at: Source | None = None) -> list[str]:
    """A list of names, or one name."""
    if value is None:
        return []
    names = [value] if isinstance(value, str) else list_of(value, label, at)
    for name in names:
        if not isinstance(name, str):
            raise SpecError(f"{label} must be a list of names", at)
    return names


def number_of(value: Any, label: str, names: Mapping[str, object], at: Source | None = None) -> int | float:
    """A number, or an expression of known names that gives one."""
    result = evaluate_expression(value, names) if isinstance(value, str) else value
    if isinstance(result, bool) or not isinstance(result, (int, float)) or math.isnan(result):
        raise SpecError(f"{label} must be a number, but is '{shown(value)}'", _place(value) or at)
    return result


def whole_of(value: Any, label: str, names: Mapping[str, object], at: Source | None) -> int:
    """A whole number of at least 1."""
    number = number_of(value, label, names, at)
    if number != number // 1 or not 1 <= number < 2**63:
        raise SpecError(f"{label} must be a whole number of at least 1, but is {number}", _place(value) or at)
    return int(number)


def _place(value: Any) -> Source | None:
    if isinstance(value, Located):
        return value.source
    return value.source if isinstance(value, FileTable) else None
