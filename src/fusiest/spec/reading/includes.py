"""Files that a spec includes: `include_text`, `include`, `add_to_path`, `find_path` and `path_exists` of its templates.

Only YAML files can be included, by relative paths, from the project that the named file is in: its folder and what is below,
and at most three folders up, never the home folder, the temporary one, or what is above them. Nothing else is opened.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

from jinja2.runtime import Context

from fusiest.base.errors import SpecError, shown
from fusiest.spec.reading.budget import spend
from fusiest.spec.reading.template import Function, marked, undeclared
from fusiest.spec.reading.textfile import text_of_file
from fusiest.spec.reading.yamlfile import YamlNode, load_nodes, measure

MAX_NESTED, MAX_FOLDERS_UP = 10, 3
SUFFIXES = (".yaml", ".yml", ".jinja", ".jinja2")


class Included:
    """What the files of a spec have included so far: nodes by name, names that their templates take, and values of defines."""

    def __init__(self) -> None:
        self.nodes: dict[str, YamlNode] = {}
        self.used: set[str] = set()
        self.values: dict[str, object] = {}


class Includes:
    """What one file may include: paths are relative to its folder and to those that it added. Text without a path may not."""

    def __init__(
        self, file: str, path: str | None, included: Included, outer: Includes | None = None,
        outside: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.file, self.path, self.included = file, os.path.realpath(path) if path else "", included
        self.outside = outside
        """Names that a define can give; what else an included template sees was set by one that includes it."""
        self.depth: int = outer.depth + 1 if outer else 0
        self.root: str = outer.root if outer else project_folder(self.path)
        self.folders: list[str] = [os.path.dirname(self.path), *(outer.folders if outer else ())]

    def functions(self) -> dict[str, Function]:
        """What its template may call."""
        return {
            "include_text": Function(self.include_text, context=True),
            "include": Function(self.include, context=True),
            "add_to_path": Function(self.add_to_path),
            "find_path": Function(lambda path: self.find(path, os.path.exists)),
            "path_exists": Function(lambda path: self.find_or_none(path, os.path.exists) is not None),
        }

    def include_text(self, context: Context, path: str) -> str:
        """The text that another template becomes with the values of this one."""
        inner, text = self._inner(path)
        used, visible = undeclared(text, inner.file), _values(context)
        self.included.used |= used
        inner.outside = self.outside | (used - visible.keys())
        values: dict[str, object] = {}
        became = marked(text, inner.file, visible, inner.functions(), values)
        self.included.values.update({name: value for name, value in values.items() if name in inner.outside})
        return became

    def include(self, context: Context, path: str, key: str = "") -> str:
        """A reference to what is in another file; `.key` may be added to it."""
        inner, text = self._inner(path)
        nodes = load_nodes(inner.file, text, _values(context), inner)
        spend(measure(nodes)[0])
        name = f"included_{len(self.included.nodes)}"
        self.included.nodes[name] = nodes
        return f"!include_loaded {name}" + (f".{key.lstrip('.')}" if key else "")

    def add_to_path(self, path: str) -> str:
        """Look for files to include in this folder, too."""
        self.folders.append(self.find(path, os.path.isdir))
        return ""

    def find(self, path: object, exists: Any) -> str:
        """The file or folder that is meant; an error if there is none."""
        place = self.find_or_none(path, exists)
        if place is None:
            raise SpecError(f"there is no '{shown(path)}' to include beside {self.file} or in a folder that was added")
        return place

    def find_or_none(self, path: object, exists: Any) -> str | None:
        """The file or folder that is meant, if it is there."""
        if not self.path:
            raise SpecError(f"{self.file} is no file, and can include none")
        if not isinstance(path, str) or os.path.isabs(path) or "\0" in path:
            raise SpecError(f"'{shown(path)}' is not the relative path of a file")
        spend(100)
        for folder in self.folders:
            candidate = os.path.realpath(os.path.join(folder, path))
            if os.path.commonpath([candidate, self.root]) == self.root and exists(candidate):
                return candidate
        return None

    def _inner(self, path: object) -> tuple[Includes, str]:
        if self.depth >= MAX_NESTED:
            raise SpecError(f"files include each other more than {MAX_NESTED} deep; does one include itself?")
        place = self.find(path, os.path.isfile)
        if not place.endswith(SUFFIXES):
            raise SpecError(f"'{shown(path)}' is not a YAML file: only those can be included")
        text = text_of_file(place)
        spend(len(text) // 64)
        file = os.path.normpath(
            os.path.join(os.path.dirname(self.file), os.path.relpath(place, os.path.dirname(self.path)))
        )
        return Includes(file, place, self.included, self), text


def project_folder(path: str) -> str:
    """The folder from which a file may include others.

    >>> project_folder("/data/project/specs/arch.yaml")
    '/data'
    """
    folder = os.path.dirname(os.path.realpath(path))
    for _ in range(MAX_FOLDERS_UP):
        above = os.path.dirname(folder)
        taboo = [os.path.realpath(protected) for protected in (os.path.expanduser("~"), tempfile.gettempdir(), os.sep)]
        if os.path.exists(os.path.join(folder, ".git")) or any(
            os.path.commonpath([above, protected]) == above for protected in taboo
        ):
            break
        folder = above
    return folder


def _values(context: Context) -> Mapping[str, object]:
    """The values that an included template sees: those of the template that includes it."""
    values = context.get_all()
    return {
        name: value for name, value in values.items() if not isinstance(value, Function) and not name.startswith("_")
    }
