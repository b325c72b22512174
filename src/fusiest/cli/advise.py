"""`fusiest advise`: what to change in an architecture."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from fusiest import interrupt
from fusiest.cli.arguments import ArchArgument, DefineOption, WorkloadArgument, given, read_defines, require
from fusiest.cli.completion import one_of
from fusiest.cli.output import present
from fusiest.errors import SpecError


def advise_command(
    arch: ArchArgument,
    workload: WorkloadArgument = None,
    define: DefineOption = None,
    objective: Annotated[
        str,
        typer.Option(metavar="WHAT", help="energy, latency or edp", autocompletion=one_of("energy", "latency", "edp")),
    ] = "edp",
    jobs: Annotated[int | None, typer.Option(metavar="N", help="processes; default: one per core")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
) -> None:
    """Say what binds, and what halving and doubling every size, bandwidth, fanout and energy does."""
    from fusiest.mapper import Step
    from fusiest.spec import load
    from fusiest.terminal import ProgressLine, advice_parts

    files = given(arch, workload)
    spec = load(*files, defines=read_defines(define))
    require(spec, files, "arch", "workload")
    if objective not in ("energy", "latency", "edp"):
        raise SpecError(f"objective '{objective}' is none of energy, latency, edp")
    with ProgressLine(sys.stderr, quiet) as progress, interrupt.deferred():
        progress(Step("loading the compiled search (compiled once, on first use)"))
        from fusiest.mapper import Options, run
        from fusiest.report import unfused_optimum
        from fusiest.sweeps import Children, advise, binding, changes, ranked, waterfall

        options = Options(objective=(objective,), jobs=jobs)
        result = run(spec, options, progress)
        unfused = unfused_optimum(spec, options, progress)
        total, found = sum(1 for _ in changes(spec)), []
        with Children(jobs or os.cpu_count() or 1) as hands:
            for one in advise(result, hands):
                interrupt.check()
                found.append(one)
                progress(Step("changes", one.what, len(found), total, "changes"))
    steps = waterfall(unfused, result) if not isinstance(unfused, str) else []
    present(advice_parts(ranked(found, objective), binding(result), steps, objective))
