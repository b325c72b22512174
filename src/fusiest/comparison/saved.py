"""Results read back from their JSON form. The file is untrusted: whatever is wrong with it ends in one line.

The spec in the file is loaded as any spec, and each mapping that is used is evaluated again: figures that the model does
not confirm are not shown.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from fusiest.errors import FusiestError, SpecError
from fusiest.looptree.nodes import LoopTree
from fusiest.mapper.options import OBJECTIVES
from fusiest.model.evaluate import Evaluation, evaluate
from fusiest.spec.load import load_texts
from fusiest.spec.spec import Spec
from fusiest.spec.yamlfile import read_text

FORMAT = "fusiest-result/1"


@dataclass(frozen=True)
class Saved:
    """One mapping of a result, with what is known about the search that found it."""

    file: str
    spec: Spec
    looptree: LoopTree
    evaluation: Evaluation
    objective: tuple[str, ...]
    mappings: int
    optimal: bool
    gap: float


def read_result(file: str, by: str | None = None) -> Saved:
    """The mapping of a result that is best by `by`: `energy`, `latency` or `edp`.

    By default, what the search minimized, or `edp` for a front.
    """
    document = _document(file)
    objective = tuple(_known(name, file) for name in _list(file, document, "objective"))
    by = _known(by or (objective[0] if len(objective) == 1 else "edp"))
    mappings = _list(file, document, "mappings")
    best = min(mappings, key=lambda m: (_number(file, m, by), _number(file, m, "energy"), _number(file, m, "latency")))
    texts = {f"{file} (spec)": _text(file, document, "spec"), f"{file} (mapping)": _text(file, best, "mapping")}
    spec = load_texts(texts, {})
    if spec.mapping is None or spec.workload is None or spec.arch is None:
        raise SpecError(f"{file}: its spec lacks an architecture or a workload, or its mapping is empty")
    found = evaluate(spec)
    for name in OBJECTIVES:
        if not math.isclose(getattr(found, name), _number(file, best, name), rel_tol=1e-9):
            raise FusiestError(
                f"{file}: says {name} {_number(file, best, name)}, but the mapping in it costs {getattr(found, name)}; "
                "it was changed, or written by another version: map again"
            )
    gap = _number(file, document, "gap")
    return Saved(file, spec, spec.mapping, found, objective, len(mappings), document.get("optimal") is True, gap)


def _document(file: str) -> dict[str, Any]:
    text = read_text(file)
    try:
        document = json.loads(text)
    except RecursionError:
        raise FusiestError(f"{file}: not JSON that fusiest wrote: nested too deeply") from None
    except ValueError as error:
        raise FusiestError(f"{file}: not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        kind = document.get("format") if isinstance(document, dict) else None
        other = f" but {kind}" if isinstance(kind, str) else ""
        raise FusiestError(f"{file}: not a result of fusiest map --json ({FORMAT}){other}")
    return document


def _known(name: object, file: str = "") -> str:
    """An objective; whatever else is said there is not repeated as it is, since it may be anything."""
    if name not in OBJECTIVES:
        raise FusiestError(f"{file}{': ' if file else ''}{name!r} is none of {', '.join(OBJECTIVES)}")
    return str(name)


def _list(file: str, table: dict[str, Any], name: str) -> list[Any]:
    value = table.get(name)
    if not isinstance(value, list) or not value:
        raise FusiestError(f"{file}: '{name}' must be a list that is not empty")
    return value


def _text(file: str, table: dict[str, Any], name: str) -> str:
    value = table.get(name)
    if not isinstance(value, str):
        raise FusiestError(f"{file}: '{name}' is missing or no text; map again with this version of fusiest")
    return value


def _number(file: str, table: Any, name: str) -> float:
    value = table.get(name) if isinstance(table, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e308:
        raise FusiestError(f"{file}: '{name}' is missing or no finite number")
    return float(value)
