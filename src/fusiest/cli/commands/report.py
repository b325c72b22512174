"""`fusiest report`: pages of results that were saved before."""

from __future__ import annotations

import os
import sys
from typing import Annotated

from fusiest.base.errors import SpecError
from fusiest.cli.arguments import (
    STDOUT,
    ChartsOption,
    NoUnfusedOption,
    QuietOption,
    check_outputs,
    option,
    saved_results,
)
from fusiest.cli.output import Deliveries, echo
from fusiest.cli.report_files import Pictures


def report_command(
    results: Annotated[list[str], saved_results("RESULT.json", "results of map --json or evaluate --json")],
    out: Annotated[
        str | None,
        option(
            "FILE.html", "where the page of one result goes; - is stdout; default: beside the result, as RESULT.html"
        ),
    ] = None,
    charts: ChartsOption = None,
    no_unfused: NoUnfusedOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write the page of a saved result, with all figures and charts; of several, a page each."""
    from fusiest.mapper import load_any
    from fusiest.terminal import ProgressLine

    for name, value in (("out", out), ("charts", charts)):
        if value is not None and len(results) > 1:
            raise SpecError(f"--{name} is for one result; compare shows several on one page")
    pages = {file: out or f"{os.path.splitext(file)[0]}.html" for file in results}
    for page in pages.values():
        check_outputs(results, out=page)
        Pictures(page, charts, not no_unfused).check()
    with Deliveries(*pages.values(), charts) as deliveries, ProgressLine(sys.stderr, quiet) as progress:
        for file, page in pages.items():
            with deliveries.delivery():
                result = load_any(file)
                title = " on ".join(result.provenance.files[1::-1]) or os.path.basename(file)
                defines = ", ".join(f"{name}={value}" for name, value in result.provenance.defines.items())
                Pictures(page, charts, not no_unfused).write(result, title, defines, progress, deliveries)
    for page in pages.values():
        if page != STDOUT:
            echo(page)
