"""Sweeps: which chip? Designs, one after the other, each with the best mapping of every workload; nothing is computed twice."""

from typing import TYPE_CHECKING

from fusiest.base.doors import lazy

if TYPE_CHECKING:
    from fusiest.sweeps.file.designs import Design
    from fusiest.sweeps.file.sweepfile import SweepFile, Wanted, load_sweep, make_sweep, wanted
    from fusiest.sweeps.runs.children import Children
    from fusiest.sweeps.runs.single import keep_result, stored_result
    from fusiest.sweeps.session import Running, Sweep, sweep
    from fusiest.sweeps.store.store import RunRow, Store
    from fusiest.sweeps.store.upkeep import check_store, collect_garbage, export_store, merge_stores
    from fusiest.sweeps.views.advice import (
        FULL,
        IDLE,
        Advice,
        Binding,
        WaterfallStep,
        WholeAdvice,
        advise,
        binding,
        changes,
        ranked,
        waterfall,
        whole_advice,
    )
    from fusiest.sweeps.views.answers import Answer, Counts, Reuse, unproven_words
    from fusiest.sweeps.views.best_designs import DesignFigures, headings
    from fusiest.sweeps.views.sweep_page import in_view, sweep_html

__all__ = [
    "FULL", "IDLE", "Advice", "Answer", "Binding", "Children", "Counts", "Design", "DesignFigures", "Reuse",
    "RunRow", "Running", "Store", "Sweep", "SweepFile", "Wanted", "WaterfallStep", "WholeAdvice", "advise",
    "binding", "changes", "check_store", "collect_garbage", "export_store", "headings", "in_view", "keep_result",
    "load_sweep", "make_sweep", "merge_stores", "ranked", "stored_result", "sweep", "sweep_html", "unproven_words",
    "wanted", "waterfall", "whole_advice",
]  # fmt: skip

if not TYPE_CHECKING:  # a child process needs little of it
    __getattr__, __dir__ = lazy(__name__)
