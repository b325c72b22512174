"""`fusiest sweep`: many designs, each with the best mapping of every workload."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fusiest.base import interrupt
from fusiest.base.errors import Interrupted, Source, SpecError, check_known
from fusiest.base.files import make_folder, write_atomically
from fusiest.base.objective import OBJECTIVES
from fusiest.cli.arguments import JobsOption, QuietOption, ReportOption, check_outputs, choice, flag, option, read_size
from fusiest.cli.completion import complete
from fusiest.cli.output import Deliveries, echo, present, write_output

if TYPE_CHECKING:
    from fusiest.sweeps import Sweep, SweepFile
    from fusiest.terminal import ProgressLine

REUSES = ("known", "covered", "tables", "bounds")
ALL = "all"
PARQUET = ".parquet"
TABLES = (".csv", ".json", PARQUET)
_PARQUET_NEEDS = ("pandas", "pyarrow")
_WITHOUT_FILE = "the sweep"


def sweep_command(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE | ARCH WORKLOAD…",
            help="a sweep file; or an architecture and workloads, with the parameters as -D",
            autocompletion=complete("arches", "workloads"),
            show_default=False,
        ),
    ],
    define: Annotated[
        list[str] | None, option("NAME=V1,V2,…", "a parameter and its values, in place of a sweep file", "-D")
    ] = None,
    objective: Annotated[
        str | None,
        choice(
            f"{' '.join(OBJECTIVES)} energy,latency",
            metavar="WHAT",
            help=f"{', '.join(OBJECTIVES)} or energy,latency; in place of a sweep file (default: edp)",
        ),
    ] = None,
    store: Annotated[str | None, option("DIR", "where runs are kept; default: the file's name with .runs")] = None,
    jobs: JobsOption = None,
    cluster: Annotated[
        str | None, option("ADDRESS|FILE", "a Dask scheduler (tcp://…), or a cluster file, in place of --jobs")
    ] = None,
    time_limit: Annotated[float | None, option("SECONDS", "per run")] = None,
    memory_limit: Annotated[
        str | None, option("SIZE", "per run, such as 8G or 500M; default: its share of the machine's memory")
    ] = None,
    retry: Annotated[str | None, choice("failed", help="do runs again that failed")] = None,
    no_reuse: Annotated[
        str | None, option("KINDS", "search although it is not needed: known, covered, tables, bounds")
    ] = None,
    best: Annotated[str | None, option("WHAT", "the least of this; in place of what the file asks for")] = None,
    dry_run: Annotated[bool, flag("--dry-run", "say what there is to do, and do nothing")] = False,
    status: Annotated[bool, flag("--status", "how far it is, also from another terminal")] = False,
    table: Annotated[str | None, option("FILE.csv|.json|.parquet", "write a row per design and workload")] = None,
    report: ReportOption = None,
    reports: Annotated[
        str, option("N|all", "designs whose mappings' reports are written beside the page, the best first")
    ] = "8",
    quiet: QuietOption = False,
) -> None:
    """Map workloads onto many designs of a chip; what is known or follows from another design is not searched."""
    from fusiest.sweeps import Reuse, Running, Store, Sweep
    from fusiest.terminal import status_parts

    with _told_of_options():
        file, folder = _sweep_file(files, define, objective, best), store or default_store(files)
    if status:
        with Store(folder, create=False) as runs:
            present(status_parts(runs.said(file.identity)))
        return
    _check(table, retry, jobs, time_limit)
    check_outputs(files, table=table, report=report)
    most = _most_reports(reports)
    if jobs is not None and cluster is not None:
        raise SpecError("--jobs and --cluster: a run is done here or there; give one of them")
    gibibytes = _gibibytes(memory_limit) if memory_limit is not None else None
    running = Running(folder, jobs, cluster, time_limit, gibibytes, retry == "failed", Reuse(**_reuse(no_reuse)))
    with _told_of_options(), Sweep(file, running) as sweep:
        if dry_run:
            _say_plan(sweep)
            return
        _run(sweep, quiet)
        _deliver(sweep, table, report, most)


@contextlib.contextmanager
def _told_of_options() -> Iterator[None]:
    """What is wrong with a parameter is said of its option, where there is no file."""
    try:
        yield
    except SpecError as error:
        if error.source is None or error.source.file != _WITHOUT_FILE:
            raise
        raise SpecError(re.sub(r"^parameter ", "-D ", error.message)) from None


def default_store(files: list[str]) -> str:
    """Where runs are kept if nobody says.

    >>> default_store(["sweeps/edge.yaml"]), default_store(["simple", "matmuls"])
    ('edge.runs', 'simple.runs')
    """
    return os.path.splitext(os.path.basename(files[0]))[0] + ".runs"


def _sweep_file(files: list[str], define: list[str] | None, objective: str | None, best: str | None) -> SweepFile:
    from fusiest.spec import repeated
    from fusiest.sweeps import load_sweep, make_sweep, wanted

    if len(files) == 1:
        for option, value in (("-D", define), ("--objective", objective)):
            if value is not None:
                raise SpecError(
                    f"{option} wants an architecture and workloads; {files[0]} alone is taken for a sweep file"
                )
        file = load_sweep(files[0])
    else:
        parameters = [_parameter(text) for text in define or []]
        if twice := repeated(name for name, _ in parameters):
            raise SpecError(f"-D {twice} is given twice; its values go into one, with commas")
        file = make_sweep(
            {"arch": files[0], "workloads": files[1:], "parameters": dict(parameters), "objective": objective or "edp"},
            _WITHOUT_FILE,
        )
    return dataclasses.replace(file, best=wanted(best)) if best is not None else file


def _parameter(text: str) -> tuple[str, list[Any]]:
    from fusiest.spec import ScalarNode, parse_nodes

    name, equals, values = text.partition("=")
    if not equals or not all(word.isidentifier() for word in name.split(".")):
        raise SpecError(f"-D {text}: expected NAME=VALUE,VALUE,…")
    parsed = []
    for value in values.split(","):
        node = parse_nodes(value, [Source(f"-D {name}", 1)]) if value.strip() else None
        if not isinstance(node, ScalarNode):
            raise SpecError(f"-D {text}: a value must be a number, true, false or text")
        parsed.append(str(node.value) if isinstance(node.value, str) else node.value)
    return name, parsed


def _reuse(no_reuse: str | None) -> dict[str, bool]:
    off = [kind.strip() for kind in no_reuse.split(",")] if no_reuse else []
    for kind in off:
        check_known(kind, REUSES, f"--no-reuse {kind}: none of {', '.join(REUSES)}")
    return {kind: kind not in off for kind in REUSES}


def _check(table: str | None, retry: str | None, *numbers: float | None) -> None:
    if retry not in (None, "failed"):
        raise SpecError(f"--retry {retry}: only 'failed' runs can be done again")
    if table is not None and os.path.splitext(table)[1] not in TABLES:
        raise SpecError(f"--table {table}: the name must end in {', '.join(TABLES)}")
    if table is not None and table.endswith(PARQUET) and not all(map(importlib.util.find_spec, _PARQUET_NEEDS)):
        raise SpecError(f"{table}: Parquet files need pandas and pyarrow: pip install 'fusiest[parquet]'")
    for name, value in zip(("jobs", "time-limit"), numbers, strict=True):
        if value is not None and not value > 0:
            raise SpecError(f"--{name} must be positive, but is {value}")


def _gibibytes(size: str) -> float:
    """Read a size in GiB. Units are those of `fusiest map`; a number alone is GiB.

    >>> _gibibytes("512M"), _gibibytes("1.5")
    (0.5, 1.5)
    """
    return read_size(f"{size}G" if size.strip()[-1:].isdigit() else size) / 2**30


def _run(sweep: Sweep, quiet: bool) -> None:
    from fusiest.terminal import ProgressLine

    try:
        with ProgressLine(sys.stderr, quiet) as progress:
            sweep.watch = lambda: _progress(sweep, progress)
            sweep.run()
    except KeyboardInterrupt:
        counts = sweep.counts
        sweep.close_hands()
        sweep.driver.tell(now=True)
        raise Interrupted(
            f"interrupted: {counts.finished:,} of {counts.total:,} runs have answers, which are kept; the same command goes on"
        ) from None


def _progress(sweep: Sweep, progress: ProgressLine) -> None:
    from fusiest.mapper import Step

    counts = sweep.counts
    if sweep.driver.begin is None:
        progress(Step("planning", f"{counts.total:,} runs, {counts.known:,} known"))
    else:
        progress(Step("sweep", str(counts), counts.finished, counts.total, "runs"))


def _say_plan(sweep: Sweep) -> None:
    driver = sweep.driver
    if sweep.file.sample.kind == "optuna":
        echo(f"{len(sweep):,} designs, which Optuna chooses by what those before cost")
        return
    designs, failed = 0, Counter[str]()
    for answer in driver.planned():
        designs += answer is None
        if answer is not None and answer.how == "failed":
            failed[f"{answer.row.status}: {answer.row.reason}"] += 1
    counts = driver.counts
    if not counts.total:
        raise driver.designs.nothing_left(driver.out)
    echo(_many(designs, "design") + (f" ({driver.out.words()})" if sweep.file.where else ""))
    to_do = len(driver.plan.forms)
    echo(
        f"{_many(counts.total, 'run')}: {counts.known:,} known, {counts.failed:,} failed, {to_do:,} different ones to do"
    )
    for why, count in failed.most_common(3):
        echo(f"{_many(count, 'run')}, {why}")
    families = {form.family for form in driver.plan.forms.values()}
    if to_do:
        words = "1 family, inside" if len(families) == 1 else f"{len(families):,} families, inside each"
        echo(f"in {words} of which the proof of one run may cover others")
    if to_do and driver.prospects is not None:
        echo(f"bounds leave {driver.left_by_bounds():,} of them, by what is known before a search")


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("s" if count != 1 else "")


def _most_reports(text: str) -> int | None:
    if text == ALL:
        return None
    if not text.isdecimal():
        raise SpecError(f"--reports {text}: expected a number of designs, or '{ALL}'")
    return int(text)


def _deliver(sweep: Sweep, table: str | None, report: str | None, most: int | None) -> None:
    from fusiest.sweeps import headings
    from fusiest.terminal import sweep_parts

    with interrupt.deferred(), Deliveries(table, report) as deliveries:
        designs, name = sweep.designs(), headings(sweep.file.workloads)
        with deliveries.delivery():
            present(sweep_parts(sweep.counts, sweep.answers, designs, sweep.best(), sweep.wanted.words, name))
            if words := sweep.without_windows():
                echo(words)
        if table is not None:
            with deliveries.delivery(table):
                _write_table(sweep, table)
        if report is not None:
            with deliveries.delivery(report):
                _write_report(sweep, report, most)


def _write_report(sweep: Sweep, file: str, most: int | None) -> None:
    """The page, and beside it a folder with the reports of the mappings of so many designs, or of all."""
    from fusiest.sweeps import in_view, sweep_html

    folder = os.path.splitext(file)[0] + "_reports"
    links: dict[int, dict[str, str]] = {}
    for entry in in_view(sweep)[:most]:
        interrupt.check()
        make_folder(folder)
        for workload in sweep.file.workloads:
            name = f"{entry.design.number}_{workload.label}.html"
            title = f"{workload.label} on design {entry.design.number}: {entry.design}"
            sweep.result(entry.design, workload.label).report(os.path.join(folder, name), title, unfused=False)
            links.setdefault(entry.design.number, {})[workload.label] = f"{os.path.basename(folder)}/{name}"
    write_output(file, sweep_html(sweep, f"{sweep.file.name}: {sweep.file.arch}", links))


def _write_table(sweep: Sweep, file: str) -> None:
    rows = sweep.table()
    if file.endswith(PARQUET):
        write_atomically(file, rows.to_frame().to_parquet())
    elif file.endswith(".json"):
        records = [dict(zip(rows.columns, row, strict=True)) for row in rows.rows]
        write_output(file, json.dumps(records, indent=1) + "\n")
    else:
        write_output(file, rows.to_csv())
