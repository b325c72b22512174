"""The files that come with fusiest: specs by name, and component classes of published parts."""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING

from fusiest.base.errors import SpecError
from fusiest.base.frozen import FrozenDict
from fusiest.spec.hardware.component_classes import WrittenClass, compiled
from fusiest.spec.language.fields import read_list, read_tagless
from fusiest.spec.reading.yamlfile import load_nodes

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from fusiest.components import ComponentClass


@functools.cache
def library_files(folder: str) -> FrozenDict[str, str]:
    """The library's files of a folder, also those one folder further in: name -> path below `library`.

    >>> "simple" in library_files("arches")
    True
    """
    root = resources.files("fusiest") / "library" / folder
    files: dict[str, str] = {}
    for entry in root.iterdir() if root.is_dir() else ():
        paths = [f"{entry.name}/{e.name}" for e in entry.iterdir()] if entry.is_dir() else [entry.name]
        files |= {path.removesuffix(".yaml"): f"{folder}/{path}" for path in paths if path.endswith(".yaml")}
    return FrozenDict(sorted(files.items()))


def library_path(path: str) -> Traversable:
    """A file of the library."""
    return (resources.files("fusiest") / "library").joinpath(*path.split("/"))


def library_text(path: str) -> str:
    """The text of a file of the library."""
    return library_path(path).read_text(encoding="utf-8")


def first_comment(text: str) -> str:
    """The first sentence of a file's comment, without the name that it starts with."""
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#") or not line.strip("# "):
            break
        lines.append(line.strip("# "))
        if line.endswith((":", ".")):
            break
    return " ".join(lines).split(". ")[0].partition(": ")[2].rstrip(".:")


def library_classes() -> list[ComponentClass]:
    """The component classes of the library's files; a file's first comment says whose parts they are."""
    classes: list[ComponentClass] = []
    for name, path in library_files("components").items():
        text = library_text(path)
        for key, node in load_nodes(f"<components/{name}>", text, {}).items:
            if key.value != "component_classes":
                raise SpecError(f"a file of components has no section '{key.value}'", key.source)
            written = read_list(node, "component_classes", lambda n, what: read_tagless(n, WrittenClass, what))
            classes += compiled(written, group=first_comment(text) or name).values()
    return classes
