"""What `--report` and `--charts` write, and what they need, which is checked before the search begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusiest.files import check_folder, check_writable, write_atomically

if TYPE_CHECKING:
    from fusiest.cli.output import Deliveries
    from fusiest.mapper.progress import Progress
    from fusiest.mapper.result import Result


def check_report(report: str | None, charts: str | None) -> None:
    """Raise if what is asked for cannot be made: better now than after a long search."""
    from fusiest.report.figures import check_matplotlib

    if report is not None:
        check_writable(report)
    if charts is not None:
        check_matplotlib()
        check_folder(charts)


def write_report(
    result: Result,
    title: str,
    defines: list[str],
    report: str | None,
    charts: str | None,
    progress: Progress,
    deliveries: Deliveries,
) -> None:
    """Both start from the unfused optimum, which is searched for here."""
    from fusiest.mapper.progress import Step
    from fusiest.report import report_html, save_charts, subject_of

    progress(Step("report: the unfused optimum, to compare with"))
    subject = subject_of(result, title, ", ".join(defines), progress)
    if report is not None:
        progress(Step("report: writing the page"))
        with deliveries.one():
            write_atomically(report, report_html(subject))
    if charts is not None:
        progress(Step("report: drawing charts"))
        with deliveries.one():
            save_charts(subject, charts)
