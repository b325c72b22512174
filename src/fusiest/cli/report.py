"""What `--report` and `--charts` write, and what they need, which is checked before the search begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusiest.cli.arguments import STDOUT
from fusiest.cli.output import write_output
from fusiest.files import check_folder, check_writable

if TYPE_CHECKING:
    from fusiest.cli.output import Deliveries
    from fusiest.mapper import Progress, Result


@dataclass(frozen=True)
class Pictures:
    """What is to be drawn: a page, a folder of charts; and whether the unfused optimum is to be in them."""

    report: str | None = None
    charts: str | None = None
    unfused: bool = True

    def __bool__(self) -> bool:
        return self.report is not None or self.charts is not None

    def check(self) -> None:
        """Raise if what is asked for cannot be made: better now than after a long search."""
        if self.report not in (None, STDOUT):
            check_writable(self.report)
        if self.charts is not None:
            from fusiest.report import check_matplotlib

            check_matplotlib()
            check_folder(self.charts)

    def write(self, result: Result, title: str, note: str, progress: Progress, deliveries: Deliveries) -> None:
        """The unfused optimum is searched for here, unless the first search was ended."""
        from fusiest.mapper import Step
        from fusiest.report import report_html, save_charts, subject_of

        unfused = self.unfused and result.stopped not in ("interrupt", "memory")
        if unfused:
            progress(Step("report: the unfused optimum, to compare with"))
        subject = subject_of(result, title, note, progress, unfused)
        if self.report is not None:
            progress(Step("report: writing the page"))
            with deliveries.one(self.report):
                write_output(self.report, report_html(subject))
        if self.charts is not None:
            progress(Step("report: drawing charts"))
            with deliveries.one(self.charts):
                save_charts(subject, self.charts)
