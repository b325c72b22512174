"""One run in a store: what `fusiest map --store` takes from it and leaves there."""

from __future__ import annotations

from pathlib import Path

from fusiest.base.errors import FusiestError, SpecError
from fusiest.mapper import Options, Result, made_now, result_json, result_on
from fusiest.spec import Spec
from fusiest.sweeps.reuse.canonical import run_form
from fusiest.sweeps.store.store import DONE, RunRow, Store, packed, packed_figures
from fusiest.sweeps.store.verify import row_complaint


def stored_result(spec: Spec, options: Options, folder: str | Path) -> Result | None:
    """The proven result of this spec, if the store has it; its mappings are evaluated again."""
    if spec.dataflow is not None and spec.dataflow.depth_first is not None:
        raise SpecError("--store keeps proven results alone, which those of a depth-first dataflow are not")
    with Store(folder) as store:
        row = store.get(run_form(spec, options).hash)
        usable = row is not None and row.proven and not row_complaint(store, row)
        document = store.document(row) if row is not None and usable else None
    try:
        return result_on(spec, document, made_now(spec)) if document is not None else None
    except FusiestError:  # the store is not true: the run is done again
        return None


def keep_result(result: Result, folder: str | Path) -> None:
    """Keep a result that is proven and was searched for."""
    if not result.optimal or result.stopped is not None or not result.searched:
        return
    form = run_form(result.spec, result.options)
    best, stats = result.best(result.aim), result.stats
    with Store(folder) as store:
        if store.get(form.hash) is not None:
            return
        row = RunRow(
            form.hash, form.family, DONE, "", best.energy, best.latency, 0.0, None, stats.cpu_seconds, stats.wall_seconds,
            stats.peak_rss_bytes, "", "", packed_figures(form.figures), result.provenance.version, result.provenance.created,
        )  # fmt: skip
        store.put(row, packed(result_json(result)))
