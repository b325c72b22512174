"""Loading specs from files and from the bundled library; file access ends at what the user named."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from importlib import resources
from pathlib import Path
from typing import Any

from fusiest.errors import SpecError, did_you_mean, shown
from fusiest.frozen import FrozenDict
from fusiest.spec.dataflow import constrained
from fusiest.spec.fields import fields_of
from fusiest.spec.origin import Origin
from fusiest.spec.resultfile import read_document, spec_texts
from fusiest.spec.spec import Spec, check
from fusiest.spec.template import undeclared
from fusiest.spec.variables import VariableValue
from fusiest.spec.yamlfile import Node, ScalarNode, load_nodes, read_text

NETWORKS = (".onnx", ".pt2")
"""Files that are networks."""
SECTIONS = fields_of(Spec)


def bundled() -> dict[str, dict[str, str]]:
    """The library: kind of spec -> name -> what it is (the first sentence of the file's comment)."""
    folder = resources.files("fusiest") / "library"
    return {
        kind: {name: _first_comment(folder / kind / f"{name}.yaml") for name in names}
        for kind, names in bundled_names().items()
    }


def bundled_names() -> dict[str, list[str]]:
    """The names alone: `arches`, `workloads`, `mappings`."""
    folder = resources.files("fusiest") / "library"
    return {
        kind: sorted(e.name.removesuffix(".yaml") for e in (folder / kind).iterdir() if e.name.endswith(".yaml"))
        for kind in ("arches", "workloads", "dataflows", "mappings")
    }


def _first_comment(file: Any) -> str:
    """The first sentence of a file's comment, without the name that it starts with."""
    lines: list[str] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#") or not line.strip("# "):
            break
        lines.append(line.strip("# "))
        if line.endswith((":", ".")):
            break
    return " ".join(lines).split(". ")[0].partition(": ")[2].rstrip(".:")


def _find(name: str) -> tuple[str, str]:
    """The display name and text of a file or a bundled spec; a file goes before a bundled spec of the same name."""
    if not os.path.isfile(name) and "/" not in name and not name.endswith((".yaml", ".yml")):
        for kind, names in bundled_names().items():
            if name in names:
                entry = resources.files("fusiest") / "library" / kind / f"{name}.yaml"
                return f"<{name}>", entry.read_text(encoding="utf-8")
        if not os.path.exists(name):
            known = [bundled_name for names in bundled_names().values() for bundled_name in names]
            raise SpecError(f"there is no file and no bundled spec '{shown(name)}'{did_you_mean(name, known)}")
    text, shorter = read_text(name), os.path.normpath(name)
    # After a link to a folder, '..' leads elsewhere than the shorter name says.
    return shorter if os.path.realpath(shorter) == os.path.realpath(name) else name, text


def load(*files: str | Path | Spec, defines: Mapping[str, object] | None = None, **more_defines: object) -> Spec:
    """Load a spec from files, networks (`.onnx`, `.pt2`), bundled names or other specs; defines fill in the templates.

    A file may also be a saved result or evaluation (`.json`): of its spec and its best mapping it gives what no other file has.

    >>> load("simple", "matmuls", N_EINSUMS=1).info.einsums["Matmul0"].bounds
    {'m': 128, 'n0': 128, 'n1': 128}
    """
    if not files:
        raise SpecError("nothing to load: name a file or a bundled spec")
    defines = {**(defines or {}), **more_defines}
    texts: dict[str, str] = {}
    taken: set[str] = set()
    saved: set[str] = set()
    distinct = _distinct(files)
    for file in distinct:
        if isinstance(file, Spec):
            texts[f"<spec {len(texts) + 1}>"] = file.to_yaml()
        elif file.endswith(NETWORKS):
            from fusiest.networks import network_text

            texts[file], used = network_text(file, defines)
            taken |= used
        elif file.endswith(".json"):
            found = spec_texts(file, read_document(file))
            texts.update(found)
            saved |= found.keys()
        else:
            texts.update([_find(file)])
    spec = load_texts(texts, defines, taken, saved)
    names = tuple(file for file in distinct if isinstance(file, str))
    return spec.came_from(Origin(names, FrozenDict(defines)))


def load_texts(
    texts: Mapping[str, str],
    defines: Mapping[str, object],
    taken: Set[str] = frozenset(),
    saved: Set[str] = frozenset(),
) -> Spec:
    """Load a spec from the texts of files, by file name; `taken` are defines that need no template.

    `saved` are files of which only those sections count that no other file has.
    """
    _check_defines(texts, {name: value for name, value in defines.items() if name not in taken})
    sections: dict[str, list[tuple[ScalarNode, Node]]] = {}
    for file, text in sorted(texts.items(), key=lambda item: item[0] in saved):
        given = frozenset(sections)
        for key, node in load_nodes(file, text, defines).items:
            name = str(key.value)
            if name not in SECTIONS:
                raise SpecError(f"unknown section '{shown(name)}'{did_you_mean(name, SECTIONS)}", key.source)
            if file in saved and (name in given or (name == "renames" and "workload" in given)):
                continue
            sections.setdefault(name, []).append((key, node))
    read = {name: _read(name, given) for name, given in sections.items()}
    if "arch" in read and "dataflow" in read:
        read["arch"] = constrained(read["arch"], read["dataflow"])
    spec = Spec(**read)
    check(spec)
    return spec


def _read(name: str, given: Sequence[tuple[ScalarNode, Node]]) -> Any:
    """A section, from all files that have it."""
    values = [SECTIONS[name].reader.read(node, name) for _, node in given]
    if name == "renames":
        return tuple(entry for value in values for entry in value)
    if name == "variables":
        return _merged_variables(values)
    if len(given) > 1:
        first, second = given[0][0].source, given[1][0].source
        raise SpecError(f"the section '{name}:' is also in {first}; give only one of the two files", second)
    return values[0]


def _distinct(files: Sequence[str | Path | Spec]) -> list[str | Spec]:
    """Each file once, however often and by whatever path it is named."""
    found: dict[object, str | Spec] = {}
    for file in files:
        if isinstance(file, Spec):
            found[id(file)] = file
            continue
        name = os.fspath(file)
        found.setdefault(os.path.realpath(name) if os.path.isfile(name) else name, name)
    return list(found.values())


def _check_defines(texts: Mapping[str, str], defines: Mapping[str, object]) -> None:
    known = {name for file, text in texts.items() for name in undeclared(text, file)} if defines else set()
    for name in defines:
        if name not in known:
            files = ", ".join(texts)
            raise SpecError(f"-D {name}: {files} use no such define{did_you_mean(name, known)}")


def _merged_variables(sections: Iterable[FrozenDict[str, VariableValue]]) -> FrozenDict[str, VariableValue]:
    merged: dict[str, VariableValue] = {}
    for section in sections:
        for name, value in section.items():
            if name in merged and merged[name] != value:
                raise SpecError(f"variable {name} is given twice, as {shown(merged[name])} and as {shown(value)}", name)
            merged[name] = value
    return FrozenDict(merged)
