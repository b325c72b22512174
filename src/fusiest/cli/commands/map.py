"""`fusiest map`: search, write, print."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from fusiest.base import interrupt
from fusiest.base.errors import Interrupted, OutOfMemory, SpecError
from fusiest.cli import arguments as args
from fusiest.cli.completion import complete
from fusiest.cli.output import Deliveries, command_line, note, present, warn
from fusiest.cli.report_files import Pictures

if TYPE_CHECKING:
    from fusiest.experiments.baselines import BaselineOptions
    from fusiest.mapper import Options, Progress, Result
    from fusiest.spec import Spec

LONG_SECONDS = 10
"""For exploring: then it is said which settings make it long."""
NOTES_SECONDS, NOTES_SHARE = 1.0, 0.1
"""For notes on a finished search: seconds, and the share of a time limit."""


class MapOutputs(NamedTuple):
    """The files that are asked for."""

    json: str | None
    csv: str | None
    csv_layers: str | None
    mapping: str | None
    report: str | None
    profile: str | None


@args.with_options
def map_command(
    arch: args.ArchArgument,
    workload: args.WorkloadArgument = None,
    define: args.DefineOption = None,
    dataflow: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="constraints on the architecture: transfusion, flat, unfused, fused-layer, defines-recompute, defines-h-cached, "
            "defines-cached, or a file",
            autocompletion=complete("dataflows"),
        ),
    ] = None,
    chosen: Any = None,
    mapper: Annotated[
        str | None,
        args.choice(
            "fusiest set tileflow tileflow-mcts timeloop",
            metavar="NAME",
            help="fusiest (the default), or a baseline to compare with: set, tileflow, tileflow-mcts, timeloop",
        ),
    ] = None,
    seed: Annotated[
        int | None, args.option("N", "of a baseline's random numbers, 0 if not given; only with --mapper")
    ] = None,
    budget: Annotated[
        float | None,
        args.option(
            "EVALUATIONS",
            "pmappings that a baseline may evaluate; default: as many as fusiest does, which needs no budget itself; "
            "only with --mapper",
        ),
    ] = None,
    store: Annotated[
        str | None, args.option("DIR", "take the result from this store if it is known, else keep it there")
    ] = None,
    json_file: args.JsonOption = None,
    csv_file: args.CsvOption = None,
    csv_layers: args.CsvLayersOption = None,
    mapping: Annotated[str | None, args.option("FILE", "write the best mapping as YAML; - is stdout")] = None,
    report: args.ReportOption = None,
    charts: args.ChartsOption = None,
    no_unfused: args.NoUnfusedOption = False,
    advise: Annotated[
        bool, args.flag("--advise", "the report also says what halving and doubling every figure does: many searches")
    ] = False,
    tree: Annotated[bool, args.flag("--tree", "also print the best mapping's LoopTree")] = False,
    profile: Annotated[
        str | None, args.option("FILE", "write where the time went, as CSV: a row per step; - is stdout")
    ] = None,
    quiet: args.QuietOption = False,
) -> None:
    """Find every energy-latency-optimal fused mapping."""
    from fusiest.experiments.baselines import BaselineOptions
    from fusiest.mapper import Profile
    from fusiest.spec import load
    from fusiest.terminal import ProgressLine, result_parts

    files = args.given_files(arch, workload)
    spec = load(*files, *args.given_files(dataflow), defines=args.read_defines(define))
    args.require(spec, files, "arch", "workload")
    if dataflow is not None:
        args.require(spec, (dataflow,), "dataflow")
    by_fusiest = mapper in (None, "fusiest")
    options = _options(chosen, by_fusiest)
    if mapper is None and (seed is not None or budget is not None):
        raise SpecError(f"--{'seed' if seed is not None else 'budget'} is for a baseline; give --mapper")
    if advise and (options.usage is not None or not by_fusiest):
        raise SpecError("--advise maps again with every change; it does not go with --usage or --mapper")
    if store is not None and not by_fusiest:
        raise SpecError("--store keeps results of fusiest alone, not of a baseline")
    baseline = BaselineOptions(mapper or "fusiest", seed or 0, budget)
    outputs = MapOutputs(json_file, csv_file, csv_layers, mapping, report, profile)
    args.check_outputs((*files, *args.given_files(dataflow)), **outputs._asdict())
    pictures = Pictures(report, charts, not no_unfused, advise)
    pictures.check()
    with ProgressLine(sys.stderr, quiet) as line:
        progress = Profile(line)
        result = _stored(spec, options, store) or _searched(spec, options, baseline, progress)
        times = progress.to_csv()
    if store is not None:
        from fusiest.sweeps import keep_result

        keep_result(result, store)
    provenance = dataclasses.replace(result.provenance, command=command_line())
    result = dataclasses.replace(result, provenance=provenance)
    with Deliveries(*outputs, charts) as deliveries:
        with interrupt.deferred():
            if args.STDOUT not in outputs:
                with deliveries.delivery():
                    present(result_parts(result, tree))
            _deliver(result, outputs, times, deliveries)
            if interrupt.taken():
                result = dataclasses.replace(result, stopped="interrupt")
        if pictures:
            with deliveries.delivery(), ProgressLine(sys.stderr, quiet) as line:
                pictures.write(result, " on ".join(reversed(files)), ", ".join(define or []), line, deliveries)
    if result.interrupted:
        sys.exit(interrupt.EXIT_STATUS)
    if result.stopped == "memory":
        sys.exit(OutOfMemory.exit_status)


def _options(chosen: dict[str, Any], by_fusiest: bool) -> Options:
    from fusiest.mapper import Options, usual_windows

    usual = usual_windows(chosen["usage"], chosen["exchange"]) if by_fusiest else "none"
    size = chosen["memory_limit"]
    read = {
        "objective": tuple(chosen["objective"].split(",")),
        "windows": chosen["windows"] or usual,
        "memory_limit": args.read_size(size) if size is not None else None,
    }
    return Options(**{**chosen, **read})


def _stored(spec: Spec, options: Options, store: str | None) -> Result | None:
    """The result that a store has of this."""
    if store is None:
        return None
    from fusiest.sweeps import stored_result

    return stored_result(spec, options, store)


def _searched(spec: Spec, options: Options, baseline: BaselineOptions, progress: Progress) -> Result:
    """What is known when the search ends, also by Ctrl-C."""
    from fusiest.mapper import Step

    # Numba would otherwise set up colorama, where installed, which writes an escape code when the program ends.
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
    try:
        loading = Step("loading the compiled search (compiled once, on first use)")
        progress(loading)
        with interrupt.deferred():  # Numba's modules must not be interrupted while they are loaded
            from fusiest.mapper import run
        progress(loading)
        if baseline.mapper == "fusiest":
            return dataclasses.replace(run(spec, _in_time(options), progress), options=options)
        with interrupt.deferred():
            from fusiest.experiments.baselines import run_baseline
        return run_baseline(spec, options, baseline, progress)
    except KeyboardInterrupt:
        raise Interrupted("interrupted before a mapping was known") from None


def _in_time(options: Options) -> Options:
    """Options with the rest of the time limit."""
    if options.time_limit is None:
        return options
    return dataclasses.replace(options, time_limit=interrupt.program_seconds_left(options.time_limit))


@contextlib.contextmanager
def _in_notes_time(options: Options) -> Iterator[None]:
    """A block of notes on a finished search, which is left where it takes long: a tenth of the time limit after it, at most a second."""
    limit = options.time_limit if options.time_limit is not None else math.inf
    seconds = min(NOTES_SECONDS, NOTES_SHARE * limit, limit * (1 + NOTES_SHARE) - interrupt.program_seconds())
    with contextlib.suppress(interrupt.OutOfTime), interrupt.limited(time.perf_counter() + seconds):
        yield


def _deliver(result: Result, outputs: MapOutputs, times: str, deliveries: Deliveries) -> None:
    """Files that take moments."""
    from fusiest.mapper import json_text
    from fusiest.pmapping import search_notes, spatial_notes
    from fusiest.spec import dump_mapping, size_notes

    best = result.best(result.aim)
    note(size_notes(result.spec))
    with _in_notes_time(result.options):
        note(search_notes(result.spec, result.options.imperfect))
        if result.stopped or result.stats.exploring_seconds > LONG_SECONDS:
            note(spatial_notes(result.spec))
    warn(map(str, best.evaluation.warnings))  # the mapping is in no file: its names would point into the workload
    deliveries.write(outputs.json, lambda: json_text(result.to_json()))
    deliveries.write(outputs.csv, lambda: result.table().to_csv())
    deliveries.write(outputs.csv_layers, lambda: result.table("einsum").to_csv())
    deliveries.write(outputs.mapping, lambda: dump_mapping(best.looptree))
    deliveries.write(outputs.profile, lambda: times)
