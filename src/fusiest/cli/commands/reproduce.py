"""`fusiest reproduce`: the paper's experiments."""

from __future__ import annotations

import os
import sys
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fusiest.base.errors import SpecError
from fusiest.cli.arguments import JobsOption, QuietOption, flag, option
from fusiest.cli.completion import one_of
from fusiest.cli.output import echo
from fusiest.experiments.reproduce import ALL, CIM, EXPERIMENTS

if TYPE_CHECKING:
    from fusiest.experiments.reproduce import Study


def reproduce_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help=f"{', '.join(EXPERIMENTS)}, or all", autocompletion=one_of(*EXPERIMENTS, ALL)
        ),
    ],
    quick: Annotated[bool, flag("--quick", "smaller and fewer runs: all within minutes")] = False,
    out: Annotated[str, option("DIR", "where results go, and where a run goes on")] = "reproduced",
    times: Annotated[
        float | None, option("X", "evaluations that a baseline may spend, as a multiple of fusiest's")
    ] = None,
    runs: Annotated[int | None, option("N", "runs per baseline")] = None,
    hours: Annotated[
        float | None, option("H", "start runs of baselines for so long, then write what there is; 0: start none")
    ] = None,
    jobs: JobsOption = None,
    published: Annotated[
        list[str] | None, option("FILE", "cim: files of published values, in place of the bundled ones", "--published")
    ] = None,
    json: Annotated[bool, flag("--json", "cim: print all values, and write no files")] = False,
    quiet: QuietOption = False,
) -> None:
    """Repeat the paper's experiments: tables, figures, and a summary with our numbers beside the paper's.

    Finished pieces are kept in DIR: a run that was stopped goes on where it was.
    """
    from fusiest.mapper import Step
    from fusiest.terminal import ProgressLine

    for word, value in (("times", times), ("runs", runs), ("jobs", jobs)):
        if value is not None and not value > 0:
            raise SpecError(f"{word} must be positive, but is {value}")
    if hours is not None and not hours >= 0:
        raise SpecError(f"hours must not be negative, but is {hours}")
    if (published or json) and name != CIM:
        raise SpecError("--published and --json are options of cim")
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
    with ProgressLine(sys.stderr, quiet) as progress:
        progress(Step("loading the compiled search (compiled once, on first use)"))
        from fusiest.experiments.reproduce import Study, reproduce

        study = Study(Path(out), quick, jobs or os.cpu_count() or 1, times, runs, progress, hours)
        lines = _chips(study, published or [], json) if name == CIM else [str(f) for f in reproduce(name, study)]
    for line in lines:
        echo(line)


def _chips(study: Study, files: list[str], as_json: bool) -> list[str]:
    """Published values of chips: those of files, or else all that come with fusiest."""
    from fusiest.experiments.reproduce import TITLE, bundled_values, cim_output, compare, values_of_file

    values = [value for file in files for value in values_of_file(file)] if files else bundled_values()
    if not as_json:
        from fusiest.report import check_matplotlib

        check_matplotlib()
    compared = compare(values, study.say)
    if as_json:
        return [dumps([value.to_json() for value in compared], indent=1)]
    from fusiest.experiments.reproduce import write

    shown = cim_output(compared)
    return [str(file) for file in write(study, CIM, TITLE, shown)] + ["", shown.summary.split("\n\n")[0]]
