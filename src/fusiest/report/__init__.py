"""Reports: a result as one HTML page, and its charts as files for papers.

Data flows one way: result → `Subject` → plain data and charts → page or figures. Nothing here searches or evaluates
anything by itself, but for the unfused optimum that a result is compared with.
"""

from __future__ import annotations

from fusiest.mapper.result import Result
from fusiest.report.data import Subject, page_data, views
from fusiest.report.page import asset, packed, page, plotly_source
from fusiest.report.unfused import Progress, unfused_optimum

__all__ = ["Subject", "plotly_source", "report_html", "subject_of"]


def subject_of(result: Result, title: str = "", note: str = "", progress: Progress | None = None) -> Subject:
    """A result, and the unfused optimum to compare it with, which is searched for here."""
    unfused = unfused_optimum(result.spec, result.options, progress)
    return Subject(result, unfused, title or "Mapping report", note)


def report_html(subject: Subject) -> str:
    """The page."""
    from fusiest import __version__

    data = {**page_data(subject, __version__), "views": [packed(view) for view in views(subject)]}
    return page(subject.title, asset("body.html"), data)
