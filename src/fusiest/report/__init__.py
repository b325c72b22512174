"""Reports: a result as one HTML page, and its charts as files for papers.

Data flows one way: result → `Subject` → plain data and charts → page or files. Nothing here searches or evaluates
anything, but for the unfused optimum that a result is compared with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from fusiest.mapper.progress import Progress
from fusiest.mapper.result import Mapping, Result
from fusiest.report.data import Subject, all_charts, page_data, views
from fusiest.report.figures import write_charts
from fusiest.report.page import LIBRARIES, asset, packed, page
from fusiest.report.unfused import unfused_optimum

__all__ = ["Subject", "page", "report_html", "save_charts", "subject_of", "write_charts"]


def subject_of(
    result: Result, title: str = "", note: str = "", progress: Progress | None = None, unfused: bool = True
) -> Subject:
    """A result, and the unfused optimum to compare it with, which is searched for here.

    Not if it is not wanted, or if there is no intermediate tensor, so that nothing can be fused.
    """
    options = dataclasses.replace(result.options, objective=result.objective)
    info = result.spec.info
    fusable = unfused and any(set(info.users[tensor]) - set(makers) for tensor, makers in info.producers.items())
    other = unfused_optimum(result.spec, options, progress) if fusable else None
    return Subject(result, other, title or "Mapping report", note)


def report_html(subject: Subject) -> str:
    """The page."""
    from fusiest import __version__

    data = {**page_data(subject, __version__), "views": [packed(view) for view in views(subject)]}
    return page(
        subject.title,
        asset("body.html"),
        data,
        ("tree.js", "nav.js", "mapped.js", "componentcosts.js", "report.js"),
        tuple(LIBRARIES),
    )


def save_charts(
    subject: Subject, folder: str | Path, mapping: Mapping | None = None, formats: Sequence[str] = ("svg", "png")
) -> list[Path]:
    """Every chart of the page as files."""
    chosen = mapping if mapping is not None else subject.result.best(subject.result.aim)
    return write_charts(all_charts(subject, chosen), folder, formats)
