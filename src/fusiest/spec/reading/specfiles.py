"""The files of a spec: those that the user named, bundled ones, and those that a section `include` brings along, each once.

Nothing else is opened: no absolute path, no `..`, no link that leads out of the folder, and no file that includes itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from fusiest.base.errors import SpecError, did_you_mean, shown
from fusiest.spec.language.allowed_names import circle
from fusiest.spec.language.fields import read_fields, read_list, read_text
from fusiest.spec.reading.includes import SUFFIXES, Included, Includes
from fusiest.spec.reading.library import library_files, library_path
from fusiest.spec.reading.template import undeclared
from fusiest.spec.reading.textfile import text_of_file
from fusiest.spec.reading.yamlfile import ScalarNode, YamlNode, load_nodes

INCLUDE = "include"
KINDS = ("arches", "workloads", "dataflows", "mappings")
"""Kinds of bundled specs."""
MOST_FILES = 100
Section = tuple[ScalarNode, YamlNode]


class SpecText(NamedTuple):
    """A file of a spec: its text, and where it is, if it may include others."""

    text: str
    path: str | None = None


def find_file(name: str) -> tuple[str, SpecText]:
    """The display name and text of a file or a bundled spec; a file goes before a bundled spec of the same name."""
    if not os.path.isfile(name):
        bundled = {key: path for kind in reversed(KINDS) for key, path in library_files(kind).items()}
        if name in bundled:
            return f"<{name}>", _of_library(bundled[name])
        if "/" not in name and not os.path.exists(name):
            written = name.removesuffix(".yaml").removesuffix(".yml")
            if written == name or written in bundled:
                raise SpecError(f"there is no file and no bundled spec '{shown(name)}'{did_you_mean(written, bundled)}")
    text, shorter = text_of_file(name), os.path.normpath(name)
    # After a link to a folder, '..' leads elsewhere than the shorter name says.
    return shorter if os.path.realpath(shorter) == os.path.realpath(name) else name, SpecText(text, name)


def _of_library(path: str) -> SpecText:
    entry = library_path(path)
    return SpecText(entry.read_text(encoding="utf-8"), str(entry))


class SpecFiles:
    """The sections of all files, in order: a file, then what it includes."""

    def __init__(self, texts: Mapping[str, str | SpecText], defines: Mapping[str, object]) -> None:
        self.defines, self.included = defines, Included()
        self.sections: dict[str, dict[str, Section]] = {}
        for file, text in texts.items():
            if file not in self.sections:
                self._add(file, SpecText(text) if isinstance(text, str) else text, ())

    def _add(self, file: str, source: SpecText, users: tuple[str, ...]) -> None:
        outside = undeclared(source.text, file) | self.defines.keys()
        nodes = load_nodes(file, source.text, self.defines, Includes(file, source.path, self.included, outside=outside))
        fields = read_fields(nodes, file)
        include = fields.pop(INCLUDE, None)
        self.sections[file] = fields
        for name in _names(include[1]) if include else ():
            included, text = _included(name, file, source.path)
            if included in (*users, file):
                raise SpecError(circle([*users, file], included, "includes"), name)
            if len(self.sections) >= MOST_FILES:
                raise SpecError(f"more than {MOST_FILES} files are included", name)
            if included not in self.sections:
                self._add(included, text, (*users, file))


def _names(node: YamlNode) -> list[str]:
    return [read_text(node, INCLUDE)] if isinstance(node, ScalarNode) else list(read_list(node, INCLUDE, read_text))


def _included(name: str, file: str, path: str | None) -> tuple[str, SpecText]:
    """A file of a section `include`: beside the file that has it, or in the library."""
    folders = name.replace("\\", "/").split("/")
    if ".." in folders or os.path.isabs(name) or (os.path.splitext(name)[1] and not name.endswith(SUFFIXES)):
        raise SpecError(
            f"include: '{shown(name)}' must be a YAML file in the folder of {file}, or in the library", name
        )
    folder = os.path.dirname(path) if path else None
    beside = os.path.join(folder, name) if folder is not None else ""
    if folder is not None and os.path.isfile(beside):
        if os.path.commonpath([os.path.realpath(beside), os.path.realpath(folder)]) != os.path.realpath(folder):
            raise SpecError(f"include: '{shown(name)}' leads out of the folder of {file}", name)
        return os.path.normpath(os.path.join(os.path.dirname(file), name)), SpecText(text_of_file(beside), beside)
    library = {key: place for kind in (*KINDS, "components") for key, place in library_files(kind).items()}
    for key, place in library.items():
        if name in (place, place.removesuffix(".yaml"), key):
            return f"<{key}>", _of_library(place)
    raise SpecError(
        f"include: there is no '{shown(name)}' beside {file} or in the library{did_you_mean(name, library)}", name
    )
