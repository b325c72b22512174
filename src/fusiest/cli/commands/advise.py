"""`fusiest advise`: what to change in an architecture."""

from __future__ import annotations

import sys
from typing import Annotated

from fusiest.base import interrupt
from fusiest.base.errors import SpecError
from fusiest.base.objective import OBJECTIVES
from fusiest.cli import arguments as args
from fusiest.cli.output import present
from fusiest.cli.report_files import advice_of


def advise_command(
    arch: args.ArchArgument,
    workload: args.WorkloadArgument = None,
    define: args.DefineOption = None,
    objective: Annotated[str, args.choice(" ".join(OBJECTIVES), metavar="WHAT", help=", ".join(OBJECTIVES))] = "edp",
    jobs: args.JobsOption = None,
    quiet: args.QuietOption = False,
) -> None:
    """Say what binds, and what halving and doubling every size, bandwidth, fanout and energy does."""
    from fusiest.mapper import Options, Step
    from fusiest.spec import load
    from fusiest.terminal import ProgressLine, advice_parts

    files = args.given_files(arch, workload)
    spec = load(*files, defines=args.read_defines(define))
    args.require(spec, files, "arch", "workload")
    if objective not in OBJECTIVES:
        raise SpecError(f"objective '{objective}' is none of {', '.join(OBJECTIVES)}")
    options = Options(objective=(objective,), jobs=jobs)
    with ProgressLine(sys.stderr, quiet) as progress, interrupt.deferred():
        progress(Step("loading the compiled search (compiled once, on first use)"))
        from fusiest.mapper import run
        from fusiest.report import unfused_optimum

        result = run(spec, options, progress)
        advice = advice_of(result, unfused_optimum(spec, options, progress), progress)
    present(advice_parts(advice.changes, advice.binds, advice.steps, objective))
