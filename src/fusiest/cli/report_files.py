"""What `--report` and `--charts` write, and what they need, which is checked before the search begins."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusiest.base import interrupt
from fusiest.base.errors import SpecError
from fusiest.base.files import check_folder, check_writable
from fusiest.cli.arguments import STDOUT
from fusiest.cli.output import write_output

if TYPE_CHECKING:
    from fusiest.cli.output import Deliveries
    from fusiest.mapper import Progress, Result
    from fusiest.sweeps import WholeAdvice


def advice_of(result: Result, unfused: Result | str | None, progress: Progress) -> WholeAdvice:
    """What changes of the architecture do: each is mapped again, in child processes."""
    from fusiest.mapper import Step
    from fusiest.sweeps import Children, whole_advice

    finished = itertools.count(1)

    def watch(change: str, total: int) -> None:
        interrupt.check()
        progress(Step("changes", change, next(finished), total, "changes"))

    with Children(result.options.processes) as hands:
        return whole_advice(result, unfused, hands, watch)


@dataclass(frozen=True)
class Pictures:
    """What is to be drawn: a page, a folder of charts; and whether the unfused optimum is to be in them."""

    report: str | None = None
    charts: str | None = None
    unfused: bool = True
    advise: bool = False
    """Whether the page says what changes of the architecture do."""

    def __bool__(self) -> bool:
        return self.report is not None or self.charts is not None

    def check(self) -> None:
        """Raise if what is asked for cannot be made: better now than after a long search."""
        if self.advise and self.report is None:
            raise SpecError("--advise is a section of the report; give --report, or say 'fusiest advise'")
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
        if self.advise and result.stopped is None:
            advice = advice_of(result, subject.unfused, progress)
            subject = dataclasses.replace(subject, changes=advice.section())
        if self.report is not None:
            progress(Step("report: writing the page"))
            with deliveries.delivery(self.report):
                write_output(self.report, report_html(subject))
        if self.charts is not None:
            progress(Step("report: drawing charts"))
            with deliveries.delivery(self.charts):
                save_charts(subject, self.charts)
