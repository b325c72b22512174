"""Runs a sweep: plans all runs, takes what is known, hands out the rest, and keeps every answer as soon as it is there."""

from __future__ import annotations

import dataclasses
import datetime
import math
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fusiest.base.errors import SpecError
from fusiest.mapper import Options
from fusiest.sweeps.file.design_specs import Chips
from fusiest.sweeps.file.designs import Design, Designs, RuledOut
from fusiest.sweeps.file.sweepfile import SweepFile, SweptWorkload
from fusiest.sweeps.reuse.canonical import RunForm, options_digest, run_form, varied_rates
from fusiest.sweeps.reuse.covering import Proofs, in_order
from fusiest.sweeps.reuse.design_bounds import LeastCosts, optimal_costs
from fusiest.sweeps.reuse.hopeless_designs import Pruner
from fusiest.sweeps.reuse.prospects import Prospects
from fusiest.sweeps.reuse.windowing import least_of_run, run_options
from fusiest.sweeps.runs.attempt import CoverTask, Hands, Outcome, SearchTask
from fusiest.sweeps.store.store import COVERED, DONE, RunRow, Store, packed, packed_figures, unpacked_figures
from fusiest.sweeps.views.answers import Answer, Counts, Reuse

_LOOK_UP_SECONDS = 0.5
_SAY_SECONDS = 2.0
_BLOCKED = 64
"""Runs of a family that are looked at for one that need not wait."""
_FORESEEN = 5_000
"""Runs of a family among which one is looked for that a new proof should cover."""
_AHEAD = 16
"""Runs of a family that come next, among which sizes are looked for that one search may answer for."""
PRUNED = "pruned"


@dataclass
class Plan:
    """Runs that are still to be done: who asked for each."""

    askers: dict[str, list[tuple[int, SweptWorkload]]] = field(default_factory=dict)
    forms: dict[str, RunForm] = field(default_factory=dict)
    options: dict[str, Options] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    least: dict[str, LeastCosts] = field(default_factory=dict)
    """What each run takes at least, if bounds are of use."""
    keys: dict[tuple[int, str], str] = field(default_factory=dict)
    """The run of each design and workload, if bounds are of use."""
    rates: dict[str, frozenset[str]] = field(default_factory=dict)
    """By family, components of which there are many throughputs: tables are made for all of them."""


class Driver:
    """One sweep over one store."""

    def __init__(
        self,
        sweep: SweepFile,
        store: Store,
        options: Options | None = None,
        retry: bool = False,
        reuse: Reuse | None = None,
    ) -> None:
        """`options`: the sweep's, with a time limit per run. `retry`: do runs again that failed."""
        self.sweep, self.store, self.retry, self.reuse = sweep, store, retry, reuse or Reuse()
        self.options = dataclasses.replace(options or sweep.options, jobs=1)
        self._options_digest = options_digest(self.options, sweep.usual_windows)
        self.chips = Chips(sweep)
        self.designs = Designs(sweep, self.chips.area)
        self.counts, self.out, self.plan, self.proofs = Counts(), RuledOut(), Plan(), Proofs()
        self.trying: dict[str, list[RunForm]] = {}
        self.lengths: dict[str, float] = {}
        """Processor seconds of the latest search of each family."""
        pruner = Pruner(sweep.best) if sweep.best is not None and self.reuse.bounds else None
        self.prospects = Prospects(pruner, sweep.workloads, self.chips.area) if pruner and pruner.useful else None
        self.told_at = 0.0
        self.begin: float | None = None

    @property
    def name(self) -> str:
        """What the store calls this sweep."""
        return self.sweep.identity

    # --- planning ---------------------------------------------------------------------------------------------------

    def planned(self) -> Iterator[Answer | None]:
        """Go through all designs: what is known comes at once, the rest is noted. None after each design."""
        for design in self.designs.going(self.out):
            for workload in self.sweep.workloads:
                self.counts.total += 1
                answer = self._known_answer(design, workload)
                if answer is not None:
                    self._count(answer)
                    yield answer
            yield None
        self.store.answer(self.plan.requests)
        self.plan.requests.clear()

    def _known_answer(self, design: Design, workload: SweptWorkload) -> Answer | None:
        request = self.chips.request(design, workload, self._options_digest)
        row = self.store.requested(request) if request is not None and self.reuse.known else None
        if row is not None and self._counts_as_known(row):
            return self._answer(design, workload, row, "known")
        try:
            spec = self.chips.spec(design, workload)
            options = run_options(spec, self.options, self.sweep.usual_windows)
            form = run_form(spec, options)
        except SpecError as error:
            row = RunRow("", "", "bad design", str(error), cpu_seconds=0.0)
            return self._answer(design, workload, row, "failed")
        row = self.store.get(form.hash) if self.reuse.known else None
        if request is not None:
            self.plan.requests.append((request, form.hash))
        if row is not None and self._counts_as_known(row):
            return self._answer(design, workload, row, "known")
        self.plan.askers.setdefault(form.hash, []).append((design.number, workload))
        self.plan.forms[form.hash], self.plan.options[form.hash] = form, options
        if self.prospects is not None:
            if form.hash not in self.plan.least:
                self.plan.least[form.hash] = least_of_run(spec, options)
            self.prospects.expect(design, workload, self.plan.least[form.hash])
            self.plan.keys[design.number, workload.label] = form.hash
        return None

    def left_by_bounds(self) -> int:
        """Number of planned runs of designs that bounds have not ruled out."""
        assert self.prospects is not None
        reasons = ([self.prospects.reason(number) for number, _ in askers] for askers in self.plan.askers.values())
        return sum(None in of_run for of_run in reasons)

    def _counts_as_known(self, row: RunRow) -> bool:
        if row.status in (DONE, COVERED):
            return not self.store.lost(row)
        if self.retry:
            return False
        if row.status == "time limit":
            return self.options.time_limit is not None and (row.time_limit or 0) >= self.options.time_limit
        return True

    def _answer(self, design: Design, workload: SweptWorkload, row: RunRow, how: str) -> Answer:
        return Answer(design, workload, row, how if row.found or how == PRUNED else "failed")

    # --- doing ------------------------------------------------------------------------------------------------------

    def answers(self, hands: Hands, watch: Callable[[], None] = lambda: None) -> Iterator[Answer]:
        """Do what the plan has, as it is done. `watch` is called now and then: it may raise to stop."""
        waiting = self._waiting()
        if self.reuse.tables and self.prospects is None and self.options.time_limit is None:
            self.plan.rates = varied_rates(self.plan.forms.values())
        self.begin, before = time.monotonic(), self.counts.finished
        if self.reuse.covered:
            for family in waiting:
                self._recall(family)
        while any(waiting.values()) or hands.running:
            yield from self._hand_out(waiting, hands)
            self.counts.running = hands.running
            fresh = self.counts.finished - before
            if fresh:
                seconds_each = (time.monotonic() - self.begin) / fresh
                self.counts.seconds_left = seconds_each * (self.counts.total - self.counts.finished)
            self.tell()
            watch()
            for key, outcome in hands.finished(_LOOK_UP_SECONDS):
                yield from self._finished(key, outcome, hands, waiting)
            self.store.settle(later=True)
        self.store.settle()
        self.counts.running = 0
        self.tell(now=True)

    def _waiting(self) -> dict[str, list[str]]:
        waiting: dict[str, list[str]] = {}
        for form in in_order(form for key, form in self.plan.forms.items() if key in self.plan.askers):
            waiting.setdefault(form.family, []).append(form.hash)
        if self.prospects is not None:
            # Best first; of equally good ones, what may cover others.
            scores = {key: min(self.prospects.score(n) for n, _ in askers) for key, askers in self.plan.askers.items()}
            for keys in waiting.values():
                keys.sort(key=lambda key: scores[key])
            waiting = dict(sorted(waiting.items(), key=lambda item: scores[item[1][0]]))
        return waiting

    def _recall(self, family: str) -> None:
        """Proofs of earlier sweeps."""
        for row in self.store.rows(family):
            if row.proven and row.object and not self.store.lost(row):
                self._prove(RunForm(row.hash, family, unpacked_figures(row.figures)), row)

    def _prove(self, form: RunForm, row: RunRow) -> None:
        assert row.energy is not None
        assert row.latency is not None
        self.proofs.add(form, optimal_costs(row.energy, row.latency, self.options.objective))

    def _hand_out(self, waiting: dict[str, list[str]], hands: Hands) -> Iterator[Answer]:
        while hands.idle:
            key = self._next(waiting)
            if key is None:
                return
            pruned = list(self._pruned(key))
            if pruned:
                yield from pruned
                continue
            row = self.store.get(key) if self.reuse.known else None
            if row is not None and self._counts_as_known(row):  # another process has done it meanwhile
                yield from self._told(key, row, "known")
                continue
            form = self.plan.forms[key]
            between = self.proofs.between(form) if self.reuse.covered else None
            source = self.store.get(between) if between is not None else None
            if source is not None:
                yield from self._answered(key, Outcome(COVERED, "", source.energy, source.latency, 0.0), source.hash)
                continue
            self.trying[key] = self.proofs.candidates(form) if self.reuse.covered else []
            self._begin(key, hands, waiting)

    def _pruned(self, key: str, ties: bool = False) -> Iterator[Answer]:
        """Answers that need no search, because no design that asks for this run can be what the file asks for.

        `ties`: nor can one be better than what is known.
        """
        if self.prospects is None:
            return
        askers = self.plan.askers[key]
        for number, _ in askers:
            self._bound(number)
        reasons = [self.prospects.reason(number, ties) for number, _ in askers]
        if None in reasons:
            return
        form = self.plan.forms[key]
        for (number, workload), reason in zip(self.plan.askers.pop(key), reasons, strict=True):
            row = RunRow(key, form.family, PRUNED, str(reason))
            answer = Answer(self.designs.design(number), workload, row, PRUNED)
            self._count(answer)
            yield answer

    def _bound(self, number: int) -> None:
        """Take proofs in: a design costs no less than one that is nowhere worse."""
        assert self.prospects is not None
        design = self.designs.design(number)
        for workload in self.sweep.workloads:
            key = self.plan.keys.get((number, workload.label), "")
            if key in self.plan.askers:
                least = self.proofs.least(self.plan.forms[key], self.plan.least[key])
                self.prospects.expect(design, workload, least)

    def _next(self, waiting: dict[str, list[str]]) -> str | None:
        """A run that nothing under way may cover: of the family with the longest runs, or of one that is not known yet.

        Where it is known what is asked for, families take turns: the most promising runs count.
        """
        families = list(waiting)
        if self.prospects is None:
            families.sort(key=lambda family: -self.lengths.get(family, math.inf))
        for family in families:
            keys = waiting[family]
            for i, key in enumerate(keys[:_BLOCKED]):
                form = self.plan.forms[key]
                if self.reuse.covered and self._may_be_covered(form):
                    continue
                del keys[i]
                waiting[family] = waiting.pop(family)
                if not keys:
                    del waiting[family]
                return key
        return None

    def _may_be_covered(self, form: RunForm) -> bool:
        """Whether a run under way may turn out to cover this one, or to be covered like this one."""
        for key, candidates in self.trying.items():
            other = self.plan.forms[key]
            if other.nowhere_worse(form) or (candidates and form.nowhere_worse(other)):
                return True
        return False

    def _begin(self, key: str, hands: Hands, waiting: dict[str, list[str]]) -> None:
        """Try the next proof that may cover this run, or search."""
        number, workload = self.plan.askers[key][0]
        spec, options = self.chips.packed(self.designs.design(number), workload), self.plan.options[key]
        while self.trying[key]:
            row = self.store.get(self.trying[key][0].hash)
            document = self.store.document(row) if row is not None else None
            if document is not None:
                hands.submit(key, CoverTask(spec, options, document))
                return
            self.trying[key].pop(0)
        form = self.plan.forms[key]
        if not self.reuse.tables:
            hands.submit(key, SearchTask(spec, options))
            return
        others = [self.plan.forms[other] for other in waiting.get(form.family, ())[:_AHEAD]]
        watch = form.size_to_watch(others) if self.prospects is None else ""
        rates = self.plan.rates.get(form.family, frozenset())
        hands.submit(key, SearchTask(spec, options, form.family, watch, form, rates))

    def _finished(self, key: str, outcome: Outcome, hands: Hands, waiting: dict[str, list[str]]) -> Iterator[Answer]:
        self.counts.cpu_seconds += outcome.cpu_seconds
        candidates = self.trying[key]
        source = candidates[0].hash if candidates else ""
        if source and outcome.status != COVERED:
            candidates.pop(0)
            pruned = list(self._pruned(key, ties=True)) if not candidates else []
            if pruned:
                del self.trying[key]
                yield from pruned
            else:
                self._begin(key, hands, waiting)
            return
        del self.trying[key]
        if source:
            self.proofs.cover(source, self.plan.forms[key])
        elif outcome.needed and self.reuse.covered and self.prospects is None:
            form = self.plan.forms[key]
            least = form.with_sizes(outcome.needed)
            self.proofs.need(form, least)
            self._foresee(least, form, waiting)
        yield from self._answered(key, outcome, source)

    def _foresee(self, least: RunForm, form: RunForm, waiting: dict[str, list[str]]) -> None:
        """The last run that a proof should cover is tried next: if it does, all between need not be."""
        keys = waiting.get(form.family, [])
        for key in reversed(keys[:_FORESEEN]):
            other = self.plan.forms[key]
            if form.nowhere_worse(other) and other.nowhere_worse(least):
                keys.remove(key)
                keys.insert(0, key)
                return

    def _answered(self, key: str, outcome: Outcome, source: str) -> Iterator[Answer]:
        yield from self._told(key, self._kept_row(key, outcome, source), "covered" if source else "searched")

    def _told(self, key: str, row: RunRow, how: str) -> Iterator[Answer]:
        """A run's answer, to all who asked for it."""
        for i, (number, workload) in enumerate(self.plan.askers.pop(key)):
            answer = self._answer(self.designs.design(number), workload, row, how if i == 0 else "known")
            self._count(answer)
            yield answer

    def _kept_row(self, key: str, outcome: Outcome, source: str) -> RunRow:
        from fusiest import __version__

        form = self.plan.forms[key]
        if not source:
            self.lengths[form.family] = outcome.cpu_seconds
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        document = outcome.document or None
        if outcome.status in ("internal error", "killed"):
            number, workload = self.plan.askers[key][0]
            document = packed({"spec": self.chips.spec(self.designs.design(number), workload).to_yaml()})
        row = RunRow(
            key, form.family, outcome.status, outcome.reason, outcome.energy, outcome.latency, outcome.gap,
            self.options.time_limit if outcome.status == "time limit" else None, outcome.cpu_seconds, outcome.wall_seconds,
            outcome.peak_bytes, source, outcome.object, packed_figures(form.figures), __version__, now,
        )  # fmt: skip
        row = self.store.put(row, document)
        if row.proven and not source:
            self._prove(form, row)
        return row

    # --- saying -----------------------------------------------------------------------------------------------------

    def _count(self, answer: Answer) -> None:
        kind = answer.how
        setattr(self.counts, kind, getattr(self.counts, kind) + 1)
        if self.prospects is not None and answer.row.energy is not None and answer.row.latency is not None:
            self.prospects.learn(answer.design, answer.workload, answer.row.energy, answer.row.latency)
        if kind == "known":
            self.counts.saved_seconds += answer.row.cpu_seconds

    def tell(self, now: bool = False) -> None:
        """Leave word in the store."""
        if now or time.monotonic() - self.told_at > _SAY_SECONDS:
            self.told_at = time.monotonic()
            process = {"host": socket.gethostname(), "pid": os.getpid(), "time": time.time()}
            self.store.say(self.name, {**dataclasses.asdict(self.counts), **process})


def run_all(
    driver: Driver, hands: Hands, watch: Callable[[], None] = lambda: None, anything: bool = True
) -> Iterator[Answer]:
    """Plan and do everything. `anything`: it is an error if there is nothing."""
    for answer in driver.planned():
        watch()
        if answer is not None:
            yield answer
    if anything and not driver.counts.total:
        raise driver.designs.nothing_left(driver.out)
    yield from driver.answers(hands, watch)
