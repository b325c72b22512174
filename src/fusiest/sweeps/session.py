"""A sweep as Python has it: lazy, gone through as answers come, and asked for tables, fronts and results at any time."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fusiest.base import interrupt
from fusiest.base.errors import FusiestError, SpecError, did_you_mean
from fusiest.base.frames import DataTable
from fusiest.base.objective import OBJECTIVES, aim_of
from fusiest.mapper import Result
from fusiest.sweeps.file.designs import Design
from fusiest.sweeps.file.guided import run_guided
from fusiest.sweeps.file.parameters import Figure, with_unit
from fusiest.sweeps.file.sweepfile import COLUMNS, SweepFile, SweptWorkload, Wanted, load_sweep, make_sweep, wanted
from fusiest.sweeps.reuse.design_bounds import above
from fusiest.sweeps.reuse.windowing import run_options, windows_of
from fusiest.sweeps.runs.children import Children
from fusiest.sweeps.runs.cluster import ClusterHands
from fusiest.sweeps.runs.dask_worker import RunLimits
from fusiest.sweeps.runs.driver import Driver, run_all
from fusiest.sweeps.store.store import RunRow, Store
from fusiest.sweeps.store.verify import row_complaint
from fusiest.sweeps.views.answers import Answer, Counts, Reuse
from fusiest.sweeps.views.best_designs import (
    DesignFigures,
    best_designs,
    check_values,
    check_wanted,
    design_figures,
    front_of,
)


@dataclasses.dataclass(frozen=True)
class Running:
    """How to run: where answers are kept, in how many processes, and what each run may take."""

    store: str | Path | None = None
    """None: a folder that is gone afterwards."""
    jobs: int | None = None
    cluster: str | None = None
    """A Dask scheduler's address, or a cluster file, in place of processes here."""
    time_limit: float | None = None
    """Seconds per run."""
    memory_limit: float | None = None
    """GiB per run."""
    retry: bool = False
    """Do runs again that failed."""
    reuse: Reuse = dataclasses.field(default_factory=Reuse)


class Sweep:
    """A sweep and its answers. Nothing is done before it is asked for.

    >>> s = sweep(arch="simple", workloads=["matmuls"], parameters={"GlobalBufferSize": [8192, 65536]}, objective="edp")
    >>> len(s)
    2
    """

    def __init__(self, file: SweepFile, running: Running | None = None) -> None:
        self.file, self.running = file, running or Running()
        if self.running.jobs is not None and self.running.jobs < 1:
            raise SpecError(f"jobs must be at least 1, but is {self.running.jobs}")
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        folder = self.running.store
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="fusiest-sweep-")
            folder = self._temporary.name
        self.store = Store(folder)
        self._areas: dict[int, Figure] = {}
        try:
            self.driver = self._new_driver()
            if file.best is not None:
                self._check_wanted(file.best)
        except BaseException:
            self.store.close()
            raise
        self.answers: list[Answer] = []
        self._answers: dict[tuple[int, str], Answer] = {}
        """By a design's number and a workload's label."""
        self._confirmed_keys: set[tuple[int, str]] = set()
        self._going: Iterator[Answer] | None = None
        self.watch: Callable[[], None] = lambda: None
        """Called now and then while the sweep runs."""

    def _new_driver(self) -> Driver:
        options = dataclasses.replace(self.file.options, time_limit=self.running.time_limit)
        return Driver(self.file, self.store, options, self.running.retry, self.running.reuse)

    def __len__(self) -> int:
        """Designs in the grid or the sample, before `where`."""
        size, sample = len(self.driver.designs.grid), self.file.sample
        return size if sample.kind == "grid" else min(size, sample.count)

    def __repr__(self) -> str:
        return f"<Sweep: {len(self):,} designs, {len(self.file.workloads)} workloads; {self.counts}>"

    @property
    def counts(self) -> Counts:
        """How far it is."""
        return self.driver.counts

    # --- going through ----------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Answer]:
        """Answers: those that there are, then others as they come."""
        i = 0
        while True:
            while i < len(self.answers):
                yield self.answers[i]
                i += 1
            if self._next() is None:
                return

    def _next(self) -> Answer | None:
        if self._going is None:
            self._going = self._run()
        try:
            answer = next(self._going)
        except StopIteration:
            return None
        self.answers.append(answer)
        self._answers[answer.design.number, answer.workload.label] = answer
        return answer

    def _run(self) -> Iterator[Answer]:
        with self._hands() as hands:
            if self.file.sample.kind == "optuna":
                yield from run_guided(self.driver, hands, self.wanted, self._watched)
            else:
                yield from run_all(self.driver, hands, self._watched)

    def _hands(self) -> Children | ClusterHands:
        memory = int(self.running.memory_limit * 2**30) if self.running.memory_limit else None
        if self.running.cluster is not None:
            return ClusterHands(self.running.cluster, RunLimits(self.running.time_limit, memory), self.store.folder)
        jobs = self.running.jobs or os.cpu_count() or 1
        return Children(jobs, self.running.time_limit, memory)

    def _watched(self) -> None:
        interrupt.check()
        self.watch()

    def run(self) -> Sweep:
        """Do all that is left. Ctrl-C stops it; what is done is kept, and `resume` goes on."""
        with interrupt.deferred():
            for _ in self:
                pass
        return self

    def resume(self) -> Sweep:
        """Begin again from the store: what was finished is known."""
        self.close_hands()
        self.driver, self.answers, self._going = self._new_driver(), [], None
        self._answers, self._confirmed_keys = {}, set()
        return self.run()

    def close_hands(self) -> None:
        """End what is under way."""
        if self._going is not None and hasattr(self._going, "close"):
            self._going.close()
        self._going = iter(())

    def close(self) -> None:
        """End what is under way, and close the store."""
        self.close_hands()
        self.store.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Sweep:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- asking -----------------------------------------------------------------------------------------------------

    def table(self) -> DataTable:
        """A row per design and workload: parameters, area, what became of it, and its costs.

        Energy (joules), latency (seconds) and EDP are those of one run of the workload, which runs `n_instances` times.
        """
        order = {label: i for i, label in enumerate(self._labels())}
        answers = sorted(self._all_answers(), key=lambda a: (a.design.number, order[a.workload.label]))
        columns: list[tuple[str, Sequence[object]]] = [(COLUMNS[0], [a.design.number for a in answers])]
        for name in self.driver.designs.grid.names:
            columns.append(with_unit(name, [a.design.values[name] for a in answers]))
        rows = [self._figures_of(answer) for answer in answers]
        columns += [(name, [row[i] for row in rows]) for i, name in enumerate(COLUMNS[1:])]
        return DataTable(tuple(name for name, _ in columns), list(zip(*(values for _, values in columns), strict=True)))

    def _figures_of(self, answer: Answer) -> tuple[object, ...]:
        """A row of the table, without design and parameters."""
        row, workload = answer.row, answer.workload
        known = row.energy is not None and row.latency is not None
        costs = above(row.energy or 0.0, row.latency or 0.0).values() if known else [None] * len(OBJECTIVES)
        area = float(self.area(answer.design)) if row.family else None
        windows = self.windows(answer.design, workload) if row.family else ""
        return (area, workload.label, workload.n_instances, answer.how, row.status, *costs, row.gap,
                windows, row.cpu_seconds, row.reason)  # fmt: skip

    def _all_answers(self) -> list[Answer]:
        self.run() if self._going is None else None
        return self.answers

    def to_frame(self) -> Any:
        """`table` as a pandas DataFrame."""
        return self.table().to_frame()

    def area(self, design: Design) -> Figure:
        """Square metres of a design."""
        if design.number not in self._areas:
            self._areas[design.number] = self.driver.chips.area(design)
        return self._areas[design.number]

    def designs(self) -> list[DesignFigures]:
        """Designs on which every workload has a mapping, with their figures."""
        rows: dict[int, dict[str, RunRow]] = {}
        by_number: dict[int, Design] = {}
        for answer in self._all_answers():
            by_number[answer.design.number] = answer.design
            rows.setdefault(answer.design.number, {})[answer.workload.label] = answer.row
        figures = []
        for number in sorted(rows):
            costs = {label: pair for label, row in rows[number].items() if (pair := row.costs) is not None}
            if len(costs) == len(self.file.workloads):
                area = self.area(by_number[number])
                figures.append(design_figures(by_number[number], area, costs, self.file.workloads))
        return figures

    def front(self, *names: str) -> list[DesignFigures]:
        """Designs that no other dominates in these figures: energy, latency, edp, area."""
        return self._confirmed(front_of(self.designs(), names or ("energy", "latency", "area")))

    def best(self, minimize: str | None = None, subject_to: Sequence[str] = ()) -> list[DesignFigures]:
        """The best design, as a list of one or none; what the file asks for if nothing is said."""
        want = self.wanted if minimize is None else Wanted(minimize, tuple(subject_to))
        self._check_wanted(want)
        return self._confirmed(best_designs(self.designs(), want))

    def _confirmed(self, designs: list[DesignFigures]) -> list[DesignFigures]:
        """These designs, once what the store says of each is confirmed: its mapping is evaluated on the design."""
        for figures in designs:
            for workload in self.file.workloads:
                key = figures.design.number, workload.label
                answer = self._answers[key]
                if answer.how != "searched" and key not in self._confirmed_keys:
                    self._confirm(answer)
                    self._confirmed_keys.add(key)
        return designs

    def _confirm(self, answer: Answer) -> None:
        wrong = row_complaint(self.store, answer.row)
        try:
            if not wrong:
                self.result(answer.design, answer.workload.label)
        except FusiestError as error:
            wrong = str(error)
        if wrong:
            raise FusiestError(
                f"{self.store.folder}: run {answer.row.hash[:12]} ({answer.workload.label} on {answer.design}): {wrong}; "
                f"'fusiest store gc {self.store.folder}' removes such runs, --no-reuse known does all runs again"
            )

    def _check_wanted(self, want: Wanted) -> None:
        check_wanted(want, self.driver.designs.grid.names, self._labels())
        design = self.driver.designs.design(0)
        try:
            area = self.area(design)
        except SpecError:  # a bad design is a row; where there are others, they are told what is best
            return
        check_values(want, design, area, self.file.workloads)

    @property
    def wanted(self) -> Wanted:
        """What the file asks for; else the least of what the searches minimized."""
        return self.file.best or Wanted(aim_of(self.file.options.objective))

    def windows(self, design: Design, workload: SweptWorkload) -> str:
        """Which windows were looked for: `none`, `retained` or `all`; nothing where no Einsum reads through a halo."""
        spec = self.driver.chips.spec(design, workload)
        return windows_of(spec, run_options(spec, self.driver.options, self.file.usual_windows))

    def without_windows(self) -> str:
        """Which workloads have convolutions that might cost less if they were fused through their halos, which was not looked for."""
        first = next((answer.design for answer in self.answers if answer.row.family), None)
        labels = [w.label for w in self.file.workloads if first is not None and self.windows(first, w) == "none"]
        return f"{', '.join(labels)}: without windows" if labels else ""

    def result(self, design: Design | int | Mapping[str, object], workload: str | None = None) -> Result:
        """The result of one run, as `fusiest.map` gives it: each of its mappings is evaluated on that design."""
        from fusiest.mapper import made_now, result_on

        on_design, work = self._design(design), self._workload(workload)
        self._all_answers()
        answer = self._answers.get((on_design.number, work.label))
        if answer is None:
            raise FusiestError(f"there is no answer for {work.label} on {on_design}")
        document = self.store.document(answer.row) if answer.row.found else None
        if document is None:
            damaged = f"it is damaged; 'fusiest store gc {self.store.folder}' removes it, and the same command goes on"
            why = damaged if answer.row.found else f"{answer.row.status} {answer.row.reason}"
            raise FusiestError(f"there is no result for {work.label} on {on_design}: {why}")
        spec = self.driver.chips.spec(on_design, work)
        return result_on(spec, document, made_now(spec))

    def _labels(self) -> list[str]:
        return [w.label for w in self.file.workloads]

    def _workload(self, label: str | None) -> SweptWorkload:
        labels = self._labels()
        if label is None and len(labels) == 1:
            return self.file.workloads[0]
        if label not in labels:
            raise SpecError(f"there is no workload {label}{did_you_mean(str(label), labels)}")
        return self.file.workloads[labels.index(label)]

    def _design(self, design: Design | int | Mapping[str, object]) -> Design:
        if isinstance(design, Design):
            return design
        if isinstance(design, int):
            count = len(self.driver.designs.grid)
            if not 0 <= design < count:
                raise FusiestError(f"there is no design {design}: they are numbered from 0 to {count - 1}")
            return self.driver.designs.design(design)
        fits = {a.design.number: a.design for a in self._all_answers()
                if all(a.design.values.get(name) == value for name, value in design.items())}  # fmt: skip
        if len(fits) != 1:
            raise FusiestError(f"{len(fits)} designs have {', '.join(f'{n}={v}' for n, v in design.items())}")
        return next(iter(fits.values()))


def sweep(file: str | Path | None = None, *, reuse: Reuse | None = None, **fields: Any) -> Sweep:
    """A sweep from a file, or from fields as the file has them: `arch`, `workloads`, `parameters`, `where`, ….

    How it is run are fields, too: `store`, `jobs`, `cluster`, `time_limit` (seconds per run),
    `memory_limit` (GiB per run), `retry`.
    It is lazy: iterate over it for answers as they come, or ask for `.table()`, `.front(…)`, `.best(…)`, `.result(…)`.
    """
    how = {option.name: fields.pop(option.name) for option in dataclasses.fields(Running) if option.name in fields}
    running = Running(**how, reuse=reuse or Reuse())
    if file is not None:
        best = fields.pop("best", None)
        if fields:
            raise SpecError(f"a sweep is given by a file or by fields, not both: {', '.join(fields)}")
        sweep_file = load_sweep(os.fspath(file))
        want = wanted(best) if best is not None else sweep_file.best
        return Sweep(dataclasses.replace(sweep_file, best=want), running)
    return Sweep(make_sweep(fields), running)
