"""What should be changed? Every size, bandwidth, fanout and energy halved and doubled, and mapped again.

A change that cannot help is not searched: if the design is nowhere better and the mappings cost the same, nothing changes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fusiest.base.errors import SpecError
from fusiest.base.objective import OBJECTIVES
from fusiest.mapper import Result, result_json
from fusiest.model import fused_sets
from fusiest.spec import ComponentCosts, Spec, bind_all, bind_everything
from fusiest.spec import architecture as arch
from fusiest.sweeps.reuse.canonical import run_form
from fusiest.sweeps.runs.attempt import CoverTask, Hands, Outcome, SearchTask

FACTORS = (0.5, 2.0)
FULL, BUSY, IDLE = 0.9, 0.999, 0.1
_SECONDS = 0.5


@dataclass(frozen=True)
class Change:
    """One figure of one component, at so many times its value."""

    what: str
    """The name of the parameter of a sweep: `GlobalBuffer.size`, `MainMemory.throughput_scale`, `PE.X.fanout`, `MAC.energy_scale`."""
    factor: float
    spec: Spec


@dataclass(frozen=True)
class Advice:
    """What a change does: costs over those of the design as it is, less than 1 is better; None where nothing fits any more."""

    what: str
    factor: float
    how: str
    """`searched`, `covered`, or why there is no result."""
    energy: float | None = None
    latency: float | None = None

    def cost(self, aim: str) -> float | None:
        """The cost by an objective, over that of the design as it is."""
        known = self.energy is not None and self.latency is not None
        return OBJECTIVES[aim].score_of(self.energy or 0.0, self.latency or 0.0) if known else None


def changes(spec: Spec) -> Iterator[Change]:
    """Every change of one figure, of those that are given or estimated and make sense."""
    estimated = {part.name: part for part in spec.costs() if part.estimated}
    for node in arch.flatten(spec.require_arch().nodes):
        for factor in FACTORS:
            for figure, fields in _changed(node, factor, estimated.get(str(node.name))):
                try:
                    changed = spec.with_component(str(node.name), **fields)
                    bind_everything(changed)
                except SpecError:
                    continue  # a fanout of half a part, a size that is out of bounds
                yield Change(f"{node.name}.{figure}", factor, changed)


def _changed(
    node: arch.Container, factor: float, estimated: ComponentCosts | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, arch.Memory) and node.size not in (math.inf, "inf"):
        yield "size", {"size": _times(node.size, factor)}
    if isinstance(node, arch.Component) and node.throughput_scale is not None:
        figures = estimated.actions.values() if estimated else ()
        rates = [a.throughput for a in node.actions if a.throughput not in (None, math.inf, "inf")]
        rates += [a.throughput for a in figures if a.throughput < math.inf]
        if rates or any(a.latency not in (None, 0) for a in node.actions):
            yield "throughput_scale", {"throughput_scale": _times(node.throughput_scale, factor)}
        if any(a.energy not in (None, 0) for a in node.actions) or any(a.energy > 0 for a in figures):
            yield "energy_scale", {"energy_scale": _times(node.energy_scale, factor)}
    for i, dimension in enumerate(node.spatial):
        resized = dataclasses.replace(dimension, fanout=_times(dimension.fanout, factor))
        yield f"{dimension.name}.fanout", {"spatial": (*node.spatial[:i], resized, *node.spatial[i + 1 :])}


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, str):
        return f"({value}) * {factor}"
    product = value * factor
    return int(product) if product == int(product) else product


def advise(result: Result, hands: Hands, all_changes: Sequence[Change]) -> Iterator[Advice]:
    """What each change does, as it is known. `result` is that of the design as it is."""
    options = dataclasses.replace(result.options, objective=(result.aim,), jobs=1, time_limit=None)
    form, document = run_form(result.spec, options), result_json(result)
    # What is larger first: its tables serve what is smaller.
    waiting = sorted(all_changes, key=lambda change: -change.factor)
    going: dict[str, Change] = {}
    families: dict[str, str] = {}
    covering: set[str] = set()
    while waiting or going:
        while waiting and hands.idle:
            change = waiting.pop(0)
            key = f"{change.what} {change.factor}"
            going[key] = change
            changed = run_form(change.spec, options)
            families[key] = changed.family
            if result.optimal and form.nowhere_worse(changed):
                covering.add(key)
                hands.submit(key, CoverTask(change.spec, options, document))
            else:
                hands.submit(key, SearchTask(change.spec, options, changed.family))
        for key, outcome in hands.finished(_SECONDS):
            if outcome.status == "open":
                covering.discard(key)
                hands.submit(key, SearchTask(going[key].spec, options, families[key]))
                continue
            change = going.pop(key)
            yield advice_on(change, outcome, result, "covered" if key in covering else "searched")


def advice_on(change: Change, outcome: Outcome, result: Result, how: str) -> Advice:
    """Costs of a change over those of the design as it is, unless gaps leave open which of the two is better."""
    base = result.best(result.aim)
    if outcome.energy is None or outcome.latency is None:
        return Advice(change.what, change.factor, f"{outcome.status}: {outcome.reason}")
    aim = OBJECTIVES[result.aim]
    changed, as_is = aim.score_of(outcome.energy, outcome.latency), aim.score_of(base.energy, base.latency)
    gap = outcome.gap or 0.0
    overlap = changed * (1 - gap) <= as_is and as_is * (1 - result.gap) <= changed
    if overlap and max(gap, result.gap) > 0:
        return Advice(
            change.what, change.factor, f"not compared: gaps overlap ({result.gap:.1%} as it is, {gap:.1%} changed)"
        )
    energy = outcome.energy / base.energy if base.energy else 1.0
    latency = outcome.latency / base.latency if base.latency else 1.0
    return Advice(change.what, change.factor, how, energy, latency)


def ranked(advice: Sequence[Advice], aim: str) -> list[Advice]:
    """What helps most first; what does not fit any more last."""
    return sorted(advice, key=lambda entry: (entry.cost(aim) is None, entry.cost(aim) or 0.0, entry.what, entry.factor))


# --- what binds -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Binding:
    """What of a design binds, and what is idle: shares between 0 and 1."""

    full: dict[str, float]
    """Memories: the most that is in use, over the size."""
    limiting: dict[str, float]
    """Components: the share of the latency that they are the slowest for."""
    busy: dict[str, float]
    """Components: the share of the latency that they are busy for."""


def binding(result: Result) -> Binding:
    """Limits that bind the best mapping."""
    evaluation = result.best(result.aim).evaluation
    sizes: dict[str, float] = {}
    for info in result.spec.info.einsums.values():
        for name, component in bind_all(result.spec, info).items():
            if component.kind == "memory":
                sizes[name] = max(sizes.get(name, 0.0), component.size)
    full = {n: bits / sizes[n] for n, bits in evaluation.peak_occupancy_bits.items() if 0 < sizes.get(n, 0) < math.inf}
    limiting: dict[str, float] = {}
    busy: dict[str, float] = {}
    for einsum in evaluation.einsums.values():
        for name, seconds in einsum.latency_per_component.items():
            busy[name] = busy.get(name, 0.0) + seconds / evaluation.latency if evaluation.latency else 0.0
            if einsum.latency and seconds >= einsum.latency * BUSY:
                limiting[name] = limiting.get(name, 0.0) + einsum.latency / evaluation.latency
    return Binding(full, limiting, busy)


@dataclass(frozen=True)
class WaterfallStep:
    """What fusing one set of Einsums changes, in joules and seconds; the first step is the unfused optimum itself."""

    name: str
    energy: float
    latency: float


def waterfall(unfused: Result, fused: Result) -> list[WaterfallStep]:
    """From the best unfused mapping to the best one, a fused set at a time.

    Costs of a mapping are sums over its Einsums: each set's step is what its Einsums cost now, less what they cost unfused.
    """
    before, after = unfused.best(fused.aim).evaluation, fused.best(fused.aim)
    steps = [WaterfallStep("unfused", before.energy, before.latency)]
    for fused_set in fused_sets(fused.spec, after.looptree):
        einsums_after = [after.evaluation.einsums[name] for name in fused_set.einsums]
        einsums_before = [before.einsums[name] for name in fused_set.einsums]
        energy = sum(e.energy for e in einsums_after) - sum(e.energy for e in einsums_before)
        latency = sum(e.latency for e in einsums_after) - sum(e.latency for e in einsums_before)
        steps.append(WaterfallStep(" + ".join(fused_set.einsums), energy, latency))
    return steps


@dataclass(frozen=True)
class WholeAdvice:
    """All that is said of a design: changes, the most helpful first; what binds; what fusion did."""

    aim: str
    changes: list[Advice]
    binds: Binding
    steps: list[WaterfallStep]
    """Empty if the unfused optimum is not known."""

    def section(self) -> dict[str, Any]:
        """Section of a report."""
        return {
            "aim": self.aim,
            "changes": [[c.what, c.factor, c.cost(self.aim), c.energy, c.latency, c.how] for c in self.changes],
            "full": {n: s for n, s in self.binds.full.items() if s >= FULL},
            "limiting": self.binds.limiting,
            "idle": {n: s for n, s in self.binds.busy.items() if s < IDLE},
            "steps": [[s.name, s.energy, s.latency] for s in self.steps],
        }


def whole_advice(
    result: Result, unfused: Result | str | None, hands: Hands, watch: Callable[[str, int], None]
) -> WholeAdvice:
    """Map again with every change. `watch` hears of each, and how many there are."""
    all_changes, advice = list(changes(result.spec)), []
    for entry in advise(result, hands, all_changes):
        advice.append(entry)
        watch(entry.what, len(all_changes))
    steps = waterfall(unfused, result) if isinstance(unfused, Result) else []
    return WholeAdvice(result.aim, ranked(advice, result.aim), binding(result), steps)
