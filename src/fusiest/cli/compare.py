"""`fusiest compare`: two results side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from fusiest.cli.arguments import check_outputs
from fusiest.cli.completion import json_files, one_of
from fusiest.cli.output import present
from fusiest.files import write_atomically


def compare_command(
    a: Annotated[str, typer.Argument(metavar="A.json", help="a result of map --json", autocompletion=json_files)],
    b: Annotated[str, typer.Argument(metavar="B.json", help="another one", autocompletion=json_files)],
    by: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="which mapping of a front: best by energy, latency or edp (default: what was minimized, or edp)",
            autocompletion=one_of("energy", "latency", "edp"),
        ),
    ] = None,
    report: Annotated[
        str | None, typer.Option(metavar="FILE.html", help="also write the comparison as a page with charts")
    ] = None,
) -> None:
    """Compare two results: costs, fused sets, LoopTrees, specs."""
    from fusiest.comparison.compare import Comparison
    from fusiest.comparison.saved import read_result
    from fusiest.terminal.comparison import comparison_parts

    check_outputs((a, b), report=report)
    comparison = Comparison(read_result(a, by), read_result(b, by))
    if report is not None:
        from fusiest.report.comparison import comparison_html

        write_atomically(report, comparison_html(comparison))
    present(comparison_parts(comparison))
