"""Whether a store is true: each row against the result that it sums up, and each result against the cost model."""

from __future__ import annotations

import math

from fusiest.base.errors import FusiestError
from fusiest.base.objective import CLOSE, aim_of
from fusiest.mapper import result_of
from fusiest.spec import list_of, number_of, saved_objective
from fusiest.sweeps.reuse.canonical import run_form
from fusiest.sweeps.store.store import COVERED, DONE, RunRow, Store, unpacked_figures


def row_complaint(store: Store, row: RunRow) -> str:
    """What is wrong with a row, by its own result or that of the run which covers it; empty if nothing is."""
    if not row.found:
        return "done, but without a result" if row.status in (DONE, COVERED) else ""
    if (row.status == COVERED) != bool(row.source):
        return "covered by no run" if row.status == COVERED else f"{row.status}, but covered by another run"
    searched = store.get(row.source) if row.source else row
    if searched is None:
        return f"covered by {row.source[:12]}, which is not here"
    if row.source and (searched.source or not searched.proven):
        return f"covered by {row.source[:12]}, which is not proven"
    document = store.document(searched)
    if document is None:
        return f"its result {searched.object[:12]} is missing or damaged"
    try:
        return _compared(row, document)
    except FusiestError as error:
        return str(error)


def _compared(row: RunRow, document: dict[str, object]) -> str:
    """A row with energy and latency, and its result."""
    assert row.costs is not None
    name, mappings = "its result", list_of("its result", document, "mappings")
    costs = [(number_of(name, mapping, "energy"), number_of(name, mapping, "latency")) for mapping in mappings]
    aim = aim_of(saved_objective(name, document))

    def by(pair: tuple[float, float]) -> float:
        return {"energy": pair[0], "latency": pair[1]}.get(aim, pair[0] * pair[1])

    best = [pair for pair in costs if by(pair) <= by(min(costs, key=by)) * (1 + CLOSE)]
    if not any(_alike(row.costs, pair) for pair in best):
        return f"it says {row.energy} J and {row.latency} s, but its result {best[0][0]} J and {best[0][1]} s"
    gap = max(number_of(name, document, "gap"), number_of(name, document, "beyond") if "beyond" in document else 0.0)
    if not math.isclose(row.gap or 0.0, gap, rel_tol=CLOSE, abs_tol=CLOSE):
        return f"it says a gap of {row.gap}, but its result {gap}"
    if row.proven and (document.get("optimal") is not True or document.get("stopped") is not None):
        return "it is called proven, but its result is not"
    return ""


def _alike(costs: tuple[float, float], others: tuple[float, float]) -> bool:
    return all(math.isclose(a, b, rel_tol=CLOSE, abs_tol=0.0) for a, b in zip(costs, others, strict=True))


def result_complaint(store: Store, row: RunRow) -> str:
    """What is wrong with the result of a searched run: every mapping is evaluated again. Empty if nothing is."""
    document = store.document(row) if row.found and not row.source else None
    if document is None:
        return ""
    try:
        result = result_of("its result", document)
        form = run_form(result.spec, result.options)
    except FusiestError as error:
        return str(error)
    if (form.hash, form.family, form.figures) != (row.hash, row.family, unpacked_figures(row.figures)):
        return "its result is of another design, or of another version: do the run again"
    return ""


def complaint(store: Store, row: RunRow) -> str:
    """What is wrong with a run; empty if nothing is."""
    return row_complaint(store, row) or result_complaint(store, row)
