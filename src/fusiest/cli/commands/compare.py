"""`fusiest compare`: results side by side."""

from __future__ import annotations

from typing import Annotated

from fusiest.base.errors import SpecError
from fusiest.base.objective import OBJECTIVES
from fusiest.cli.arguments import STDOUT, check_outputs, choice, option, saved_results
from fusiest.cli.output import present, write_output


def compare_command(
    results: Annotated[
        list[str],
        saved_results(
            "A.json B.json",
            "results of map --json and evaluate --json, as many as there are; the others are compared with the first",
        ),
    ],
    by: Annotated[
        str | None,
        choice(
            " ".join(OBJECTIVES),
            metavar="WHAT",
            help=f"which mapping of a front: best by {', '.join(OBJECTIVES)} (default: what was minimized, or edp)",
        ),
    ] = None,
    report: Annotated[
        str | None, option("FILE.html", "also write the comparison as a page with charts; - is stdout")
    ] = None,
) -> None:
    """Compare results: costs, fused sets, LoopTrees, specs."""
    from fusiest.comparison import Comparison, read_result
    from fusiest.terminal import comparison_parts

    if len(results) < 2:
        raise SpecError(f"{results[0]}: with what is it to be compared? name another result")
    check_outputs(results, report=report)
    comparison = Comparison(tuple(read_result(file, by) for file in results))
    if report is not None:
        from fusiest.report import comparison_html

        write_output(report, comparison_html(comparison))
    if report != STDOUT:
        present(comparison_parts(comparison))
