"""The sweep file: which designs, which workloads, what is asked for. Read with lines, so that errors can name them."""

from __future__ import annotations

import ast
import hashlib
import json
import keyword
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fusiest.base.errors import Located, Source, SpecError, did_you_mean, shown
from fusiest.base.frozen import FrozenDict
from fusiest.base.objective import OBJECTIVES
from fusiest.mapper import Options
from fusiest.spec import (
    KINDS,
    NETWORKS,
    ListNode,
    MapNode,
    ScalarNode,
    YamlNode,
    describe,
    known_fields,
    library_files,
    load_nodes,
    parse_expression,
    parse_nodes,
    project_folder,
    read_bool,
    read_expression,
    read_int,
    read_list,
    read_text,
    text_of_file,
)
from fusiest.sweeps.file.parameters import FreeParameter, TiedParameter, read_parameter

FIELDS = ("arch", "workloads", "parameters", "where", "objective", "best", "sample", "orders", "max_fused_loops",
          "max_fused_loops_per_variable", "exchange", "imperfect", "windows")  # fmt: skip
FIGURES = (*OBJECTIVES, "area")
"""Figures of a design; all but the area also of a workload on it."""
COLUMNS = ("design", "area", "workload", "n_instances", "how", "status", *OBJECTIVES, "gap", "windows", "cpu_seconds",
           "reason")  # fmt: skip
"""Columns of a table of answers; parameters come after the first."""
SAMPLES = ("grid", "random", "optuna")
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.USub, ast.UAdd)


@dataclass(frozen=True)
class SweptWorkload:
    """A workload, how much it counts, and how often it runs."""

    label: str
    file: str
    defines: FrozenDict[str, Any] = field(default_factory=FrozenDict)
    weight: float = 1.0
    n_instances: int = 1


@dataclass(frozen=True)
class Wanted:
    """What is asked for: the least of an expression under conditions, or all designs that are best in several figures."""

    minimize: str | None = None
    subject_to: tuple[str, ...] = ()
    pareto: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """In a few words."""
        conditions = f" subject to {', '.join(self.subject_to)}" if self.subject_to else ""
        return (f"least {self.minimize}" if self.minimize else f"Pareto of {', '.join(self.pareto)}") + conditions


@dataclass(frozen=True)
class Sample:
    """Which designs of the grid: all, or so many, at random or as Optuna chooses them."""

    kind: str = "grid"
    count: int = 0
    seed: int = 0


@dataclass(frozen=True)
class SweepFile:
    """A sweep as it was asked for."""

    name: str
    arch: str
    workloads: tuple[SweptWorkload, ...]
    parameters: tuple[FreeParameter | TiedParameter, ...] = ()
    where: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)
    best: Wanted | None = None
    sample: Sample = field(default_factory=Sample)
    usual_windows: bool = True
    """Windows are looked for as `fusiest map` does if nothing is said."""
    identity: str = ""
    """What a store calls it: where its file is, or what it says if it has none."""


def load_sweep(path: str) -> SweepFile:
    """Read a sweep file. The files that it names are in its project, as those that a spec includes."""
    root = load_nodes(path, text_of_file(path), {})
    sections = known_fields(root, "the file", ["sweep"])
    if "sweep" not in sections:
        raise SpecError(f"{path}: no section 'sweep:'")
    return _sweep(path, sections["sweep"], _InProject(path))


def make_sweep(fields: Mapping[str, object], name: str = "sweep") -> SweepFile:
    """Make a sweep from Python: fields as the file has them. Files are named by the caller, wherever they are."""
    try:
        text = json.dumps({"sweep": fields})
    except (TypeError, ValueError) as error:
        raise SpecError(f"a sweep is made of numbers, text, lists and dicts: {error}") from None
    root = parse_nodes(text, [Source(name, 0)])
    assert isinstance(root, MapNode)
    return _sweep(name, root.items[0][1], _Anywhere(hashlib.sha256(text.encode()).hexdigest()))


class _Anywhere:
    """Files that the caller named."""

    def __init__(self, identity: str) -> None:
        self.identity = identity

    def find(self, name: str) -> str:
        return str(name)


class _InProject:
    """Files beside the sweep file, in its project, or in the library."""

    def __init__(self, path: str) -> None:
        self.folder, self.root = os.path.dirname(os.path.abspath(path)), project_folder(path)
        self.identity = os.path.realpath(path)

    def find(self, name: str) -> str:
        path, bundled = os.path.join(self.folder, name), [n for kind in KINDS for n in library_files(kind)]
        if not os.path.exists(path) and name in bundled:
            return str(name)
        inside = os.path.commonpath([os.path.realpath(path), self.root]) == self.root
        if os.path.isabs(name) or not inside:
            raise SpecError(f"'{shown(name)}' is not a relative path in the project of this file", name)
        if not os.path.exists(path):
            near = did_you_mean(name, bundled) if len(name) < 100 else ""
            raise SpecError(f"there is no file and no bundled spec '{shown(name)}'{near}", name)
        return os.path.relpath(path)


def _sweep(name: str, node: YamlNode, files: _Anywhere | _InProject) -> SweepFile:
    fields = known_fields(node, "sweep", FIELDS)
    for required in ("arch", "workloads"):
        if required not in fields:
            raise SpecError(f"sweep needs the field '{required}'", node.source)
    parameters = fields.get("parameters")
    if parameters is not None and not isinstance(parameters, MapNode):
        raise SpecError(f"parameters must be a table, but is {describe(parameters)}", parameters.source)
    return SweepFile(
        name=name,
        arch=files.find(read_text(fields["arch"], "arch")),
        workloads=_workloads(fields["workloads"], files),
        parameters=tuple(
            read_parameter(_parameter_name(key), value)
            for key, value in (parameters.items if parameters is not None else ())
        ),
        where=_conditions(fields.get("where"), "where"),
        options=_options(fields),
        best=_best(fields["best"]) if "best" in fields else None,
        sample=_sample(fields["sample"]) if "sample" in fields else Sample(),
        usual_windows="windows" not in fields,
        identity=files.identity,
    )


def _parameter_name(key: ScalarNode) -> Located:
    if key.value in (*FIGURES, *COLUMNS):
        raise SpecError(
            f"parameter {key.value}: figures and columns of tables are named so; give it another name", key.source
        )
    return Located(str(key.value), key.source)


def _conditions(node: YamlNode | None, what: str) -> tuple[str, ...]:
    if node is None:
        return ()
    texts = read_list(node, what, read_expression) if isinstance(node, ListNode) else (read_expression(node, what),)
    for text in texts:
        if _is_number(parse_expression(text)):
            raise SpecError(f"{what}: '{shown(text)}' is neither true nor false", text)
    return texts


def _is_number(tree: ast.expr) -> bool:
    """Whether an expression is one for certain: a number or text as it is, arithmetic, or a figure."""
    if isinstance(tree, ast.Constant):
        return not isinstance(tree.value, bool)
    name = tree.value if isinstance(tree, ast.Attribute) else tree
    return isinstance(getattr(tree, "op", None), _ARITHMETIC) or (isinstance(name, ast.Name) and name.id in FIGURES)


def is_condition(text: str) -> bool:
    """Whether an expression is true or false, or text, and no number for certain."""
    tree = parse_expression(text)
    words = isinstance(tree, ast.Constant) and isinstance(tree.value, (bool, str))
    return words or isinstance(tree, (ast.Compare, ast.BoolOp)) or isinstance(getattr(tree, "op", None), ast.Not)


def _options(fields: Mapping[str, YamlNode]) -> Options:
    chosen: dict[str, Any] = {}
    if "objective" in fields:
        node = fields["objective"]
        texts = read_list(node, "objective", read_text) if isinstance(node, ListNode) else ()
        chosen["objective"] = texts or tuple(word.strip() for word in read_text(node, "objective").split(","))
    for name in ("orders", "exchange", "windows"):
        if name in fields:
            chosen[name] = str(read_text(fields[name], name))
    if "max_fused_loops" in fields:
        node = fields["max_fused_loops"]
        zero = isinstance(node, ScalarNode) and node.value == 0 and not isinstance(node.value, bool)
        chosen["max_fused_loops"] = 0 if zero else read_int(node, "max_fused_loops")
    if "max_fused_loops_per_variable" in fields:
        name = "max_fused_loops_per_variable"
        chosen[name] = read_int(fields[name], name)
    if "imperfect" in fields:
        chosen["imperfect"] = read_bool(fields["imperfect"], "imperfect")
    for name, value in chosen.items():
        try:
            Options(**{name: value})
        except SpecError as error:
            raise SpecError(error.message, fields[name].source) from None
    return Options(**chosen)


def _workloads(node: YamlNode, files: _Anywhere | _InProject) -> tuple[SweptWorkload, ...]:
    items = node.items if isinstance(node, ListNode) else (node,)
    if not items:
        raise SpecError("workloads: there is none", node.source)
    workloads: list[SweptWorkload] = []
    for item in items:
        workload = _workload(item, files)
        labels = [w.label for w in workloads]
        if workload.label in labels:
            if isinstance(item, MapNode) and any(key.value == "name" for key, _ in item.items):
                raise SpecError(f"two workloads are named {workload.label}", item.source)
            number = next(n for n in range(2, len(labels) + 3) if f"{workload.label}_{n}" not in labels)
            workload = replace(workload, label=f"{workload.label}_{number}")
        workloads.append(workload)
    return tuple(workloads)


def _workload(node: YamlNode, files: _Anywhere | _InProject) -> SweptWorkload:
    if not isinstance(node, MapNode):
        file = read_text(node, "a workload")
        return SweptWorkload(label_of(file), files.find(file))
    fields = known_fields(node, "a workload", ("file", "name", "defines", "weight", "n_instances"))
    if "file" not in fields:
        raise SpecError("a workload needs the field 'file'", node.source)
    file = read_text(fields["file"], "file")
    label = label_of(file)
    if "name" in fields:
        label = read_text(fields["name"], "name")
        if not label.isidentifier() or keyword.iskeyword(label):
            raise SpecError(f"the name '{shown(label)}' of a workload must be letters, digits and '_'", label)
    return SweptWorkload(
        str(label),
        files.find(file),
        _defines(fields["defines"]) if "defines" in fields else FrozenDict(),
        _weight(fields["weight"]) if "weight" in fields else 1.0,
        read_int(fields["n_instances"], "n_instances") if "n_instances" in fields else 1,
    )


def label_of(file: str) -> str:
    """What a workload is called: its file's name, with letters, digits and `_` alone.

    >>> label_of("nets/resnet50.onnx"), label_of("gpt3_6.7B")
    ('resnet50', 'gpt3_6_7B')
    """
    name = os.path.basename(file)
    stem, suffix = os.path.splitext(name)
    is_known = suffix in (".yaml", ".yml", ".json", *NETWORKS)
    label = re.sub(r"\W", "_", stem if is_known else name, flags=re.ASCII)
    return label if not label[:1].isdigit() else f"_{label}"


def _defines(node: YamlNode) -> FrozenDict[str, Any]:
    if not isinstance(node, MapNode):
        raise SpecError(f"defines must be a table, but is {describe(node)}", node.source)
    defines: dict[str, Any] = {}
    for key, value in node.items:
        if not isinstance(value, ScalarNode):
            raise SpecError(f"define {key.value} must be a number, true, false or text", value.source)
        defines[Located(str(key.value), key.source)] = value.value
    return FrozenDict(defines)


def _weight(node: YamlNode) -> float:
    value = node.value if isinstance(node, ScalarNode) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise SpecError(f"weight must be a positive number, but is {describe(node)}", node.source)
    return float(value)


def _best(node: YamlNode) -> Wanted:
    if isinstance(node, ScalarNode):
        return Wanted(minimize=read_expression(node, "best"))
    fields = known_fields(node, "best", ("minimize", "subject to", "pareto"))
    if ("minimize" in fields) == ("pareto" in fields):
        raise SpecError("best needs either minimize or pareto", node.source)
    subject = _conditions(fields.get("subject to"), "subject to")
    if "minimize" in fields:
        return Wanted(read_expression(fields["minimize"], "minimize"), subject)
    names = read_list(fields["pareto"], "pareto", read_text)
    if not names:
        raise SpecError("pareto names no figure", fields["pareto"].source)
    check_figures(names)
    return Wanted(None, subject, tuple(map(str, names)))


def check_figures(names: Sequence[str]) -> None:
    """Raise if one of these is no figure of a design."""
    for name in names:
        if name not in FIGURES:
            raise SpecError(f"'{shown(name)}' is no figure of a design{did_you_mean(name, FIGURES)}", name)


def wanted(best: str | Mapping[str, object] | None) -> Wanted | None:
    """What is asked for, from Python or the command line."""
    if best is None or isinstance(best, Wanted):
        return best
    if isinstance(best, str):
        parse_expression(best)
        return Wanted(minimize=best)
    return make_sweep({"arch": "-", "workloads": ["-"], "best": best}).best


def _sample(node: YamlNode) -> Sample:
    fields = known_fields(node, "sample", (*SAMPLES, "seed"))
    kinds = [kind for kind in SAMPLES if kind in fields]
    if len(kinds) != 1:
        raise SpecError(f"sample needs one of {', '.join(SAMPLES)}", node.source)
    seed = 0
    if "seed" in fields:
        value = fields["seed"].value if isinstance(fields["seed"], ScalarNode) else None
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise SpecError(f"seed must be a whole number, but is {describe(fields['seed'])}", fields["seed"].source)
        seed = value
    if kinds == ["grid"]:
        if read_text(fields["grid"], "grid") != "all":
            raise SpecError("grid: all is the only one", fields["grid"].source)
        return Sample()
    return Sample(kinds[0], read_int(fields[kinds[0]], kinds[0]), seed)
