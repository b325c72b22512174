"""Results read back from their files.

Costs in a file are checked: if the model does not confirm them, that is an error.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

from fusiest.base.errors import FusiestError, SpecError, shown
from fusiest.base.frozen import FrozenDict
from fusiest.base.objective import CLOSE, OBJECTIVES, cost_of
from fusiest.looptree import einsums
from fusiest.mapper.options import Options
from fusiest.mapper.results.provenance import GIVEN, Provenance
from fusiest.mapper.results.result import FunnelStep, Improvement, Mapping, Result, Stats, Stop
from fusiest.model import Evaluation, evaluate
from fusiest.spec import (
    EVALUATION,
    RESULT,
    WRITERS,
    Spec,
    SpecOrigin,
    best_mapping,
    list_of,
    load_texts,
    number_of,
    read_document,
    saved_objective,
    text_of,
)


def load_result(path: str | Path) -> Result:
    """A saved result, with all its mappings."""
    file = str(path)
    document = read_document(file)
    if document["format"] != RESULT:
        raise FusiestError(f"{file}: not a result of {WRITERS[RESULT]} but {document['format']}")
    return result_of(file, document)


def result_of(file: str, document: dict[str, Any]) -> Result:
    """The result in a document, with all its mappings. `file`: what messages call it."""
    return _result(file, document, list_of(file, document, "mappings"))


class Chosen(NamedTuple):
    """A result with one of its mappings only."""

    result: Result
    of: int
    """Number of mappings in the file."""


def load_any(path: str | Path) -> Result:
    """A saved result, or a saved evaluation as a result with one mapping, about which nothing is proven."""
    file = str(path)
    document = read_document(file)
    if document["format"] == EVALUATION:
        return _evaluation(file, document)
    return result_of(file, document)


def load_best(path: str | Path, by: str | None) -> Chosen:
    """The mapping of a saved evaluation, or the best one of a saved result; no other is looked at.

    `by`: best by `energy`, `latency` or `edp`; by default by what the search minimized, or `edp` for a front.
    """
    file = str(path)
    document = read_document(file)
    best = best_mapping(file, document, by)
    if document["format"] == EVALUATION:
        return Chosen(_evaluation(file, document), 1)
    return Chosen(_result(file, document, [best]), len(document["mappings"]))


def _result(file: str, document: dict[str, Any], chosen: list[Any]) -> Result:
    spec = _spec(file, document)
    return _with(file, document, spec, [_mapping(file, spec, m) for m in chosen], _provenance(document))


def _with(file: str, document: dict[str, Any], spec: Spec, mappings: list[Mapping], provenance: Provenance) -> Result:
    """What a document says of these mappings."""
    stopped: Stop | None = next((stop for stop in get_args(Stop) if stop == document.get("stopped")), None)
    beyond = (
        number_of(file, document, "beyond") if "beyond" in document else 0.0
    )  # older results have a gap of their own for windows
    optimal, gap = document.get("optimal") is True and not beyond, max(number_of(file, document, "gap"), beyond)
    return Result(
        spec, saved_objective(file, document), mappings, optimal, gap, _stats(file, document.get("stats")), stopped,
        _options(file, document), provenance,
    )  # fmt: skip


def _evaluation(file: str, document: dict[str, Any]) -> Result:
    spec = _spec(file, document)
    mapping = _mapping(file, spec, document)
    provenance = dataclasses.replace(_provenance(document), mapper=GIVEN)
    return given_mapping(dataclasses.replace(spec, mapping=mapping.looptree), mapping.evaluation, provenance)


def given_mapping(spec: Spec, evaluation: Evaluation, provenance: Provenance) -> Result:
    """The spec's own mapping as a result, about which nothing is proven."""
    if spec.mapping is None:
        raise SpecError("no file has a section 'mapping:'")
    mapping = Mapping(spec.mapping, einsums(spec.mapping.nodes), evaluation)
    return Result(
        spec, ("edp",), [mapping], False, 1.0, Stats(), options=Options(objective=("edp",)), provenance=provenance
    )


def mappings_on(spec: Spec, document: dict[str, Any]) -> Iterator[tuple[Mapping, dict[str, float]]]:
    """The mappings of a result on another spec, one by one: evaluated there, with their costs where they were found."""
    for saved in list_of("result", document, "mappings"):
        tree = load_texts({"mapping": text_of("result", saved, "mapping")}, {}).mapping
        if tree is None:
            raise SpecError("a mapping is empty")
        costs = {name: number_of("result", saved, name) for name in ("energy", "latency")}
        yield Mapping(tree, einsums(tree.nodes), evaluate(spec, tree)), costs


def result_on(spec: Spec, document: dict[str, Any], provenance: Provenance) -> Result:
    """A result whose mappings are optimal on this spec, too, at the same costs, as a result of its own."""
    mappings = []
    for mapping, costs in mappings_on(spec, document):
        for name, cost in costs.items():
            if not math.isclose(getattr(mapping, name), cost, rel_tol=CLOSE):
                raise FusiestError(f"its result says {name} {cost}, but the mapping costs {getattr(mapping, name)}")
        mappings.append(mapping)
    return _with("result", document, spec, mappings, provenance)


def _spec(file: str, document: dict[str, Any]) -> Spec:
    spec = load_texts({f"{file} (spec)": text_of(file, document, "spec")}, {})
    if spec.workload is None or spec.arch is None:
        raise SpecError(f"{file}: its spec lacks an architecture or a workload")
    provenance = _provenance(document)
    return spec.came_from(SpecOrigin(provenance.files, provenance.defines))


def _mapping(file: str, spec: Spec, saved: Any) -> Mapping:
    """One mapping, evaluated again."""
    for name in ("energy", "latency"):
        number_of(file, saved, name)
    tree = load_texts({f"{file} (mapping)": text_of(file, saved, "mapping")}, {}).mapping
    if tree is None:
        raise SpecError(f"{file}: a mapping in it is empty")
    evaluation = evaluate(spec, tree)
    for name in (name for name in OBJECTIVES if name in saved):
        said = number_of(file, saved, name)
        if not math.isclose(cost_of(evaluation, name), said, rel_tol=CLOSE):
            raise FusiestError(
                f"{file}: says {name} {said}, but the mapping in it costs {cost_of(evaluation, name)}; "
                "it was changed, or written by another version: make it again"
            )
    return Mapping(tree, einsums(tree.nodes), evaluation)


def _options(file: str, document: dict[str, Any]) -> Options:
    """Options as the file has them; those that it lacks, as in files of older versions, are the defaults."""
    saved = document.get("options")
    names = {f.name for f in dataclasses.fields(Options)} - {"objective"}
    options = {name: value for name, value in saved.items() if name in names} if isinstance(saved, dict) else {}
    try:
        return Options(objective=saved_objective(file, document), **options)
    except (SpecError, TypeError, ValueError) as error:
        raise FusiestError(f"{file}: 'options': {error}") from None


def _provenance(document: dict[str, Any]) -> Provenance:
    defines = document.get("defines")
    return Provenance(
        version=_words(document.get("version")),
        created=_words(document.get("created")),
        files=_all_words(document.get("files")),
        defines=FrozenDict({shown(key): _value(v) for key, v in defines.items()} if isinstance(defines, dict) else {}),
        command=_all_words(document.get("command")),
        mapper=_words(document.get("mapper")) or "fusiest",
    )


def _words(value: object) -> str:
    return shown(value) if isinstance(value, str) else ""


def _all_words(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _value(value: Any) -> object:
    """Convert a value to an immutable one."""
    if isinstance(value, dict):
        return FrozenDict({str(key): _value(item) for key, item in value.items()})
    return tuple(_value(item) for item in value) if isinstance(value, list) else value


def _stats(file: str, saved: object) -> Stats:
    """Statistics of the search, as far as the file has them in the expected form."""
    if not isinstance(saved, dict):
        return Stats()
    given: dict[str, Any] = {}
    for f in dataclasses.fields(Stats):
        value, default = saved.get(f.name), getattr(_NO_STATS, f.name)
        if f.name in ("funnel", "history"):
            kind: type[Any] = FunnelStep if f.name == "funnel" else Improvement
            given[f.name] = [_row(file, f.name, kind, row) for row in value] if isinstance(value, list) else []
        elif f.name == "evaluations":
            given[f.name] = number_of(file, saved, f.name) if value is not None else None
        elif isinstance(default, dict) and isinstance(value, dict):
            given[f.name] = {str(key): int(number_of(file, value, key)) for key in value}
        elif isinstance(default, list) and isinstance(value, list):
            given[f.name] = [int(number_of(file, {"joined": n}, "joined")) for n in value]
        elif isinstance(default, str) and isinstance(value, str):
            given[f.name] = shown(value)
        elif isinstance(default, (int, float)) and value is not None:
            given[f.name] = type(default)(number_of(file, saved, f.name))
    return Stats(**given)


_NO_STATS = Stats()


def _row(file: str, name: str, kind: type[Any], row: object) -> Any:
    """One line of a table in the statistics."""
    if not isinstance(row, dict):
        raise FusiestError(f"{file}: '{name}' must be a list of tables")
    values = {f.name: number_of(file, row, f.name) for f in dataclasses.fields(kind)}
    return kind(**{n: int(v) if kind is FunnelStep else v for n, v in values.items()})
