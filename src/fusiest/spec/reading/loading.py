"""Loading specs from files and from the bundled library; file access ends at what the user named."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from fusiest.base.collector import collector_paused
from fusiest.base.errors import SpecError, did_you_mean, shown, warn
from fusiest.base.frozen import FrozenDict
from fusiest.spec.hardware.dataflow import constrained
from fusiest.spec.hardware.sharing import share_bound
from fusiest.spec.language.fields import fields_of, read_fields
from fusiest.spec.language.renames import filled_in
from fusiest.spec.language.variables import VariableValue
from fusiest.spec.mapping import with_variables
from fusiest.spec.reading.foreign import foreign_hint
from fusiest.spec.reading.library import first_comment, library_files, library_text
from fusiest.spec.reading.origin import SpecOrigin
from fusiest.spec.reading.resultfile import read_document, spec_texts
from fusiest.spec.reading.specfiles import INCLUDE, KINDS, SpecFiles, SpecText, find_file
from fusiest.spec.reading.yamlfile import MapNode, ScalarNode, YamlNode
from fusiest.spec.spec import Spec, check
from fusiest.spec.workload.einsums import EinsumRenames
from fusiest.spec.workload.twice import read_once

NETWORKS = (".onnx", ".pt2")
"""Files that are networks."""
SECTIONS = fields_of(Spec)
NOT_APPLIED = {
    "mapper": {
        "metrics": "--objective", "max_fused_loops": "--max-fused-loops", "time_limit": "--time-limit",
        "max_fused_loops_per_rank_variable": "--max-fused-loops-per-variable", "explore_imperfect_spatial_loops": "--imperfect",
        "explore_imperfect_temporal_loops": "--imperfect",
    },
    "model": {},
    "config": {},
}  # fmt: skip
"""Sections of AccelForge that set what is no part of a spec here, and the options that do."""


def bundled() -> dict[str, dict[str, str]]:
    """The library: kind of spec -> name -> what it is (the first sentence of the file's comment)."""
    return {
        kind: {name: first_comment(library_text(path)) for name, path in library_files(kind).items()} for kind in KINDS
    }


def bundled_names() -> dict[str, list[str]]:
    """The names alone: `arches`, `workloads`, `dataflows`, `mappings`."""
    return {kind: list(library_files(kind)) for kind in KINDS}


@collector_paused()
def load(*files: str | Path | Spec, defines: Mapping[str, object] | None = None, **more_defines: object) -> Spec:
    """Load a spec from files, networks (`.onnx`, `.pt2`), bundled names or other specs; defines fill in the templates.

    A file may also be a saved result or evaluation (`.json`): of its spec and its best mapping it gives what no other file has.

    >>> load("simple", "matmuls", N_EINSUMS=1).info.einsums["Matmul0"].bounds
    {'m': 128, 'n0': 128, 'n1': 128}
    """
    if not files:
        raise SpecError("nothing to load: name a file or a bundled spec")
    defines = {**(defines or {}), **more_defines}
    texts: dict[str, str | SpecText] = {}
    used: set[str] = set()
    saved: set[str] = set()
    distinct = _distinct(files)
    for file in distinct:
        if isinstance(file, Spec):
            texts[f"<spec {len(texts) + 1}>"] = file.to_yaml()
        elif file.endswith(NETWORKS):
            from fusiest.networks import network_text

            texts[file], consumed = network_text(file, defines)
            used |= consumed
        elif file.endswith(".json"):
            embedded = spec_texts(file, read_document(file))
            texts.update(embedded)
            saved |= embedded.keys()
        else:
            texts.update([find_file(file)])
    spec = load_texts(texts, defines, used, saved)
    names = tuple(file for file in distinct if isinstance(file, str))
    values = spec.origin.values if spec.origin is not None else FrozenDict[str, object]()
    return spec.came_from(SpecOrigin(names, FrozenDict(defines), values, tuple(distinct)))


def combined(machine: Spec, work: Spec, checked: bool = False, like: Spec | None = None) -> Spec:
    """One spec's architecture with another's workload, as if the files of both had been loaded together.

    `checked`: the same was made before, and nothing was wrong. `like`: one that was made of nodes which this one may share.
    """
    same_files = machine.origin is not None and work.origin is not None and machine.origin.files == work.origin.files
    spec = Spec(
        arch=machine.arch,
        dataflow=machine.dataflow,
        workload=work.workload,
        component_classes=machine.component_classes,
        renames=work.renames if same_files else filled_in(work.renames, machine.renames),
        variables=_merged_variables([machine.variables, work.variables]),
    ).sharing_info(work)
    if like is not None:
        share_bound(spec, like)
    if not checked:
        check(spec)
    files = tuple(dict.fromkeys(f for s in (machine, work) if s.origin for f in s.origin.files))
    defines = {name: value for s in (machine, work) if s.origin for name, value in s.origin.defines.items()}
    return spec.came_from(SpecOrigin(files, FrozenDict(defines)))


def defines_of(file: str, defines: Mapping[str, object]) -> frozenset[str]:
    """The defines that a file takes: names in its templates, or options of a network."""
    if file.endswith(NETWORKS):
        from fusiest.networks import NETWORK_OPTIONS, open_dimensions

        return open_dimensions(file) | frozenset(NETWORK_OPTIONS)
    if file.endswith(".json"):
        return frozenset()
    return frozenset(SpecFiles(dict([find_file(file)]), defines).included.used)


@collector_paused()
def load_texts(
    texts: Mapping[str, str | SpecText],
    defines: Mapping[str, object],
    used: Set[str] = frozenset(),
    saved: Set[str] = frozenset(),
) -> Spec:
    """Load a spec from the texts of files, by file name; `used` are defines that need no template.

    `saved` are files of which only those sections count that no other file has.
    """
    sections: dict[str, list[tuple[ScalarNode, YamlNode]]] = {}
    beside_arch: YamlNode | None = None
    files = SpecFiles(dict(sorted(texts.items(), key=lambda item: item[0] in saved)), defines)
    for file, fields in files.sections.items():
        before = frozenset(sections)
        if "arch" in fields and "renames" in fields:
            beside_arch = fields["renames"][1]
        for name, (key, node) in fields.items():
            if file in saved and (name in before or (name == "renames" and "workload" in before)):
                continue
            if name in SECTIONS:
                sections.setdefault(name, []).append((key, node))
            else:
                _pass_over(name, key, node, fields)
    _check_defines(texts, [name for name in defines if name not in used], files.included.used)
    read = {name: _read(name, nodes) for name, nodes in sections.items() if name != "renames"}
    if "renames" in sections:
        read["renames"] = _read_renames([node for _, node in sections["renames"]], beside_arch)
    if "arch" in read and "dataflow" in read:
        read["arch"] = constrained(read["arch"], read["dataflow"])
    if "workload" in read:
        read["workload"] = read_once(read["workload"])
    if "mapping" in read:
        read["mapping"] = with_variables(read["mapping"], read.get("workload"))
    origin = SpecOrigin(defines=FrozenDict(defines), values=FrozenDict(files.included.values))
    return check(Spec(**read).came_from(origin))


def _pass_over(name: str, key: ScalarNode, node: YamlNode, beside: Iterable[str]) -> None:
    """A section that is none of a spec: a home for anchors, or settings that are options here."""
    if name == "definitions" or (isinstance(node, MapNode) and node.anchored):
        return
    if name not in NOT_APPLIED:
        sections = [*SECTIONS, INCLUDE, "definitions"]
        hint = foreign_hint(name, beside) or did_you_mean(name, sections)
        raise SpecError(f"unknown section '{shown(name)}'{hint}", key.source)
    for setting, (place, _) in read_fields(node, name).items() if isinstance(node, MapNode) else ():
        option = NOT_APPLIED[name].get(setting)
        warn(f"{name}: {shown(setting)} is not applied" + (f"; say {option}" if option else ""), place.source)


def _read(name: str, written: Sequence[tuple[ScalarNode, YamlNode]]) -> Any:
    """A section, from all files that have it."""
    values = [SECTIONS[name].reader.read(node, name) for _, node in written]
    if name == "component_classes":
        return tuple(entry for value in values for entry in value)
    if name == "variables":
        return _merged_variables(values)
    if len(written) > 1:
        first, second = written[0][0].source, written[1][0].source
        raise SpecError(f"the section '{name}:' is also in {first}; give only one of the two files", second)
    return values[0]


def _read_renames(nodes: Sequence[YamlNode], beside_arch: YamlNode | None) -> tuple[EinsumRenames, ...]:
    """The renames of all files; those of the architecture's file fill in what the others leave out."""
    read = [(node is beside_arch, SECTIONS["renames"].reader.read(node, "renames")) for node in nodes]
    machine, others = (
        tuple(entry for of_arch, entries in read if of_arch == wanted for entry in entries) for wanted in (True, False)
    )
    return filled_in(others, machine)


def _distinct(files: Sequence[str | Path | Spec]) -> list[str | Spec]:
    """Each file once, however often and by whatever path it is named."""
    distinct: dict[object, str | Spec] = {}
    for file in files:
        if isinstance(file, Spec):
            distinct[id(file)] = file
            continue
        name = os.fspath(file)
        distinct.setdefault(os.path.realpath(name) if os.path.isfile(name) else name, name)
    return list(distinct.values())


def _check_defines(files: Iterable[str], defines: Iterable[str], used: Set[str]) -> None:
    for name in defines:
        if name not in used:
            warn(f"-D {name}: {', '.join(files)} use no such define{did_you_mean(name, used)}")


def _merged_variables(sections: Iterable[FrozenDict[str, VariableValue]]) -> FrozenDict[str, VariableValue]:
    merged: dict[str, VariableValue] = {}
    for section in sections:
        for name, value in section.items():
            if name in merged and merged[name] != value:
                raise SpecError(f"variable {name} is given twice, as {shown(merged[name])} and as {shown(value)}", name)
            merged[name] = value
    return FrozenDict(merged)
