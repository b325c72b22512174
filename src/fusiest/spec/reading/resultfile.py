"""Saved results and evaluations as files, and the specs in them. They are untrusted: whatever is wrong ends in one line."""

from __future__ import annotations

from typing import Any

from fusiest.base.errors import FusiestError, shown
from fusiest.base.jsontext import read_json
from fusiest.base.objective import OBJECTIVES, aim_of
from fusiest.spec.reading.textfile import text_of_file

RESULT, EVALUATION = "fusiest-result/1", "fusiest-evaluation/1"
WRITERS = {RESULT: "fusiest map --json", EVALUATION: "fusiest evaluate --json"}
MAX_RESULT_BYTES = 500_000_000
MAX_RESULT_VALUES = 20_000_000


def read_document(file: str) -> dict[str, Any]:
    """The JSON of a result or an evaluation."""
    text = text_of_file(file, MAX_RESULT_BYTES)
    try:
        document = read_json(text, MAX_RESULT_VALUES)
    except ValueError as error:
        raise FusiestError(f"{file}: not JSON: {error}") from None
    kind = document.get("format") if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in WRITERS:
        instead = f" but {shown(kind)}" if isinstance(kind, str) else ""
        raise FusiestError(f"{file}: not a result of {' or '.join(WRITERS.values())}{instead}")
    assert isinstance(document, dict)
    return document


def spec_texts(file: str, document: dict[str, Any]) -> dict[str, str]:
    """The spec and the best mapping of a result, or of an evaluation its mapping, as texts of files."""
    return {
        f"{file} (spec)": text_of(file, document, "spec"),
        f"{file} (mapping)": text_of(file, best_mapping(file, document), "mapping"),
    }


def best_mapping(file: str, document: dict[str, Any], by: str | None = None) -> dict[str, Any]:
    """The mapping that is best by an objective; by default by what was minimized, or `edp` for a front."""
    if document["format"] == EVALUATION:
        return document
    name = known_objective(by) if by is not None else aim_of(saved_objective(file, document))
    mappings = list_of(file, document, "mappings")

    def costs(mapping: Any) -> tuple[float, float, float]:
        energy, latency = (number_of(file, mapping, cost) for cost in ("energy", "latency"))
        return OBJECTIVES[name].score_of(energy, latency), energy, latency

    best: dict[str, Any] = min(mappings, key=costs)
    return best


def saved_objective(file: str, document: dict[str, Any]) -> tuple[str, ...]:
    """What a result minimizes."""
    return tuple(known_objective(name, file) for name in list_of(file, document, "objective"))


def known_objective(name: object, file: str = "") -> str:
    """An objective; whatever else is said there is not repeated as it is, since it may be anything."""
    if not isinstance(name, str) or name not in OBJECTIVES:
        raise FusiestError(f"{file}{': ' if file else ''}{shown(repr(name))} is none of {', '.join(OBJECTIVES)}")
    return str(name)


def list_of(file: str, table: dict[str, Any], name: str) -> list[Any]:
    value = table.get(name)
    if not isinstance(value, list) or not value:
        raise FusiestError(f"{file}: '{name}' must be a list that is not empty")
    return value


def text_of(file: str, table: dict[str, Any], name: str) -> str:
    value = table.get(name)
    if not isinstance(value, str):
        raise FusiestError(f"{file}: '{name}' is missing or no text; make it again with this version of fusiest")
    return value


def number_of(file: str, table: Any, name: str) -> float:
    value = table.get(name) if isinstance(table, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e308:
        raise FusiestError(f"{file}: '{name}' is missing or no finite number")
    return float(value)
