"""Specs and LoopTrees back to YAML: `load(dump(spec)) == spec`."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from fusiest.base.frozen import FrozenDict
from fusiest.looptree import nodes as looptree
from fusiest.spec.hardware import architecture as arch
from fusiest.spec.language.affine import Affine, Constraint
from fusiest.spec.language.fields import tag_of
from fusiest.spec.spec import Spec
from fusiest.spec.workload.einsums import EinsumRenames

_PLAIN = re.compile(r"[A-Za-z_][\w.]*\Z")
# What YAML does not allow as it is, or reads as the end of a line, or a template would take for its own.
_ESCAPED = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]|\\{(?=[{%#])")
_WORDS = frozenset(["true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL", "inf", "nan"])
_TAGGED = (*get_args(arch.ArchitectureNode), *get_args(looptree.Node), looptree.Nested)
_FLOW = (looptree.Temporal, looptree.Spatial, looptree.Storage, looptree.Toll, looptree.Compute)


def dump(spec: Spec) -> str:
    """YAML text that loads to an equal spec.

    >>> from fusiest.spec.reading.loading import load
    >>> print(dump(load("matvecs")).splitlines()[0])
    workload:
    """
    sections: dict[str, Any] = {}
    for name in ("arch", "dataflow", "workload", "mapping"):
        if getattr(spec, name) is not None:
            sections[name] = getattr(spec, name)
    if spec.renames:
        sections["renames"] = {"einsums": spec.renames}
    if spec.variables:
        sections["variables"] = spec.variables
    if spec.component_classes:
        sections["component_classes"] = spec.component_classes
    return "\n".join(_block(sections, 0)) + "\n"


def dump_mapping(tree: looptree.LoopTree) -> str:
    """A LoopTree as the `mapping:` section of a spec."""
    return "\n".join(_block({"mapping": tree}, 0)) + "\n"


def _fields(value: Any) -> Mapping[Any, Any]:
    """An object's fields as they are written in YAML, defaults left out."""
    if isinstance(value, Mapping):
        return value
    written = {}
    for f in dataclasses.fields(value):
        item = getattr(value, f.name)
        default = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        if item is not None and (item != default or isinstance(value, EinsumRenames)):
            written[f.name] = item
    return written


def _scalar(value: Any) -> str:
    if isinstance(value, (Affine, Constraint)):
        value = str(value) if isinstance(value, Affine) else value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    text = str(value)
    return text if _PLAIN.match(text) and text not in _WORDS else _quoted(text)


def _quoted(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", json.dumps(text, ensure_ascii=False))


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, int, float, Affine, Constraint))


def _flow(value: Any) -> str:
    if _is_scalar(value):
        return _scalar(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return "{" + ", ".join(f"{_scalar(key)}: {_flow(item)}" for key, item in _fields(value).items()) + "}"


def _is_flat(value: Any) -> bool:
    """Short enough for one line: no nested objects."""
    if isinstance(value, tuple):
        return all(_is_scalar(item) for item in value)
    return isinstance(value, FrozenDict) and all(_is_scalar(item) for item in value.values())


def _block(value: Any, indent: int) -> Iterator[str]:
    pad = "  " * indent
    if isinstance(value, tuple):
        for item in value:
            tag = f" {tag_of(type(item))}" if isinstance(item, _TAGGED) else ""
            if _is_scalar(item) or _is_flat(item) or isinstance(item, _FLOW) or not _fields(item):
                yield f"{pad}-{tag} {_flow(item)}"
            else:
                lines = list(_block(item, indent + 1))
                if tag:
                    yield f"{pad}-{tag}"
                else:
                    lines[0] = f"{pad}- {lines[0].lstrip()}"
                yield from lines
        return
    for key, item in _fields(value).items():
        if _is_scalar(item) or _is_flat(item) or not (item if isinstance(item, tuple) else _fields(item)):
            yield f"{pad}{_scalar(key)}: {_flow(item)}"
        else:
            yield f"{pad}{_scalar(key)}:"
            yield from _block(item, indent + (0 if isinstance(item, tuple) else 1))
