"""Reports: a result as one HTML page, and its charts as files for papers.

Data flows one way: result → `Subject` → plain data and charts → page or files. Nothing here searches or evaluates
anything, but for the unfused optimum that a result is compared with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from fusiest.mapper import Mapping, Progress, Result
from fusiest.report.charts.chart import Bars, Chart, Cloud, Points, Series
from fusiest.report.charts.figures import check_matplotlib, plain_style, write_charts
from fusiest.report.charts.palette import COMPONENTS, SERIES, SETS
from fusiest.report.comparison_page import comparison_html
from fusiest.report.data.unfused import unfused_optimum
from fusiest.report.data.whole import Subject, all_charts, page_data, views
from fusiest.report.layers import layer_tables
from fusiest.report.notebook import evaluation_html, result_html, warnings_html
from fusiest.report.page import LIBRARIES, asset, packed, page
from fusiest.report.reasons import Reasons, difference, reasons

__all__ = ["COMPONENTS", "SERIES", "SETS", "Bars", "Chart", "Cloud", "Points", "Reasons", "Series", "Subject", "asset",
           "check_matplotlib", "comparison_html", "difference", "evaluation_html", "layer_tables", "page", "plain_style",
           "reasons", "report_html", "result_html", "save_charts", "subject_of", "unfused_optimum", "warnings_html",
           "write_charts"]  # fmt: skip


def subject_of(
    result: Result, title: str = "", note: str = "", progress: Progress | None = None, unfused: bool = True
) -> Subject:
    """A result, and the unfused optimum to compare it with, which is searched for here.

    Not if it is not wanted, or if there is no intermediate tensor, so that nothing can be fused.
    """
    options = dataclasses.replace(result.options, objective=result.objective)
    info = result.spec.info
    fusable = unfused and any(set(info.users[tensor]) - set(makers) for tensor, makers in info.producers.items())
    unfused_result = unfused_optimum(result.spec, options, progress) if fusable else None
    return Subject(result, unfused_result, title or "Mapping report", note)


def report_html(subject: Subject) -> str:
    """The page."""
    from fusiest import __version__

    data = {**page_data(subject, __version__), "views": [packed(view) for view in views(subject)]}
    return page(
        subject.title,
        asset("body.html"),
        data,
        ("tree.js", "nav.js", "mapped.js", "componentcosts.js", "layers.js", "changes.js", "report.js"),
        tuple(LIBRARIES),
    )


def save_charts(
    subject: Subject, folder: str | Path, mapping: Mapping | None = None, formats: Sequence[str] = ("svg", "png")
) -> list[Path]:
    """Every chart of the page as files."""
    chosen = mapping if mapping is not None else subject.result.best(subject.result.aim)
    return write_charts(all_charts(subject, chosen), folder, formats)
