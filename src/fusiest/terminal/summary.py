"""Results in a screenful: what was found, what is fused, what limits each Einsum, where the energy goes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.text import Text

from fusiest.base.objective import OBJECTIVES, cost_of
from fusiest.looptree import LoopTree, draw_text, iterations, loop_words
from fusiest.mapper import Mapping, Result, Stop
from fusiest.model import (
    Evaluation,
    SharedLoops,
    area_by_component,
    efficiency,
    fused_sets,
    leak_power_by_component,
    shared_loops,
)
from fusiest.show import bits, si
from fusiest.spec import Spec, bind_all, memory_names
from fusiest.terminal.component_table import area
from fusiest.terminal.grid import Grid, Part, grid

MOST_POINTS = 12
MOST_CONSUMERS = 5
_STOPPED: dict[Stop, str] = {"time limit": "time is up", "interrupt": "interrupted", "memory": "out of memory"}
UNFINISHED = "uses tensors before they are finished"


def result_parts(result: Result, tree: bool = False) -> list[Part]:
    """Every optimal mapping in a line, then the best one in full; with its LoopTree, if wanted."""
    best = result.best(result.aim)
    parts: list[Part] = [_headline(result)]
    if len(result.mappings) > 1:
        parts += ["", _front(result.mappings, best, result.options.usage)]
    if tree:
        bounds = {name: dict(info.bounds) for name, info in result.spec.info.einsums.items()}
        parts += ["", draw_text(best.looptree, bounds)]
    return [*parts, "", *evaluation_parts(result.spec, best.looptree, best.evaluation)]


def _headline(result: Result) -> Text:
    count = len(result.mappings)
    text = Text()
    if result.caution:
        text.append(f"{result.caution}\n", "bold red")
    text.append(f"{count:,} mapping{'s' if count != 1 else ''}, ")
    if result.stopped is not None:
        text.append(f"{_STOPPED[result.stopped]}, ", "bold yellow")
    text.append(result.proof, "bold green" if result.optimal else "bold yellow")
    text.append(f"  ({result.stats.wall_seconds:.2f} s, {sum(result.stats.pmappings.values()):,} pmappings)", "dim")
    if result.stats.orders.startswith("given ("):
        text.append(f"\nOrder of Einsums: {result.stats.orders}", "yellow")
    if result.searched:
        text.append(f"\n{'Optimal among' if result.optimal else 'Searched'}: {'; '.join(result.domain)}", "dim")
    return text


def _front(mappings: Sequence[Mapping], best: Mapping, memory: str | None) -> Grid:
    """The front, at most a dozen points of it: both ends, the best and others evenly between; with a memory's usage."""
    heads = (f">{objective.short}" for objective in OBJECTIVES.values())
    table = grid("?>", *heads, *([f">{memory}"] if memory is not None else []), "?<")
    for i in chosen_points(len(mappings), next(i for i, m in enumerate(mappings) if m is best)):
        m = mappings[i]
        usage = [bits(m.evaluation.peak_occupancy_bits.get(memory, 0))] if memory is not None else []
        marks = ["shown below"] * (m is best) + [UNFINISHED] * bool(m.evaluation.warnings)
        costs = (si(cost_of(m, name), objective.unit) for name, objective in OBJECTIVES.items())
        table.add(str(i + 1), *costs, *usage, ", ".join(marks), style="bold" if m is best else "")
    return table


def chosen_points(count: int, best: int) -> list[int]:
    """
    >>> chosen_points(100, 50)
    [0, 10, 20, 30, 40, 50, 59, 69, 79, 89, 99]
    >>> chosen_points(3, 1)
    [0, 1, 2]
    """
    if count <= MOST_POINTS:
        return list(range(count))
    even = {round(i * (count - 1) / (MOST_POINTS - 2)) for i in range(MOST_POINTS - 1)}
    return sorted(even | {best})


def evaluation_parts(spec: Spec, tree: LoopTree, evaluation: Evaluation) -> list[Part]:
    """Totals, fused sets, a line per Einsum with its bottleneck, the largest consumers of energy, space."""
    return [
        _totals(spec, evaluation),
        "",
        *_fusion(spec, tree),
        "",
        _einsums(evaluation),
        "",
        _consumers(evaluation),
        "",
        _memories(spec, evaluation),
    ]


def _totals(spec: Spec, evaluation: Evaluation) -> Grid:
    table = grid("<", "<", "?<", header=False)
    shares = f"dynamic {si(evaluation.dynamic_energy, 'J')}, leakage {si(evaluation.leak_energy, 'J')}"
    table.add(Text("energy"), Text(si(evaluation.energy, "J"), "bold"), Text(shares, "dim"))
    for name, objective in OBJECTIVES.items():
        if name != "energy":
            table.add(objective.short, Text(si(cost_of(evaluation, name), objective.unit), "bold"))
    size, leaks = sum(area_by_component(spec).values()), sum(leak_power_by_component(spec).values())
    figures = efficiency(spec, evaluation, size)
    rates = [si(1e12 * figures["tops"], "op/s")] if figures["tops"] is not None else []
    units = {"tops_per_watt": "TOPS/W", "tops_per_mm2": "TOPS/mm²"}
    rates += [f"{figures[name]:.4g} {unit}" for name, unit in units.items() if figures[name] is not None]
    count = Text(si(figures["operations"] or 0, "op"), "bold")
    table.add("operations", count, Text(", ".join([*rates, "a MAC is two"]), "dim"))
    if size:
        table.add("area", Text(area(size), "bold"), Text(f"leaks {si(leaks, 'W')}" if leaks else "", "dim"))
    if evaluation.warnings:
        table.add("warnings", Text(str(len(evaluation.warnings)), "bold yellow"), Text(UNFINISHED, "yellow"))
    return table


def _fusion(spec: Spec, tree: LoopTree) -> list[Part]:
    """A line per fused set, with what its Einsums pass on and the loops under which they take turns; then all others."""
    sets = fused_sets(spec, tree)
    parts: list[Part] = [Text("fused sets" if any(len(s.einsums) > 1 for s in sets) else "nothing is fused", "bold")]
    under = [(_loop_words(spec, shared), shared.einsums) for shared in shared_loops(tree)]
    for fused in (s for s in sets if len(s.einsums) > 1):
        parts.append(Text("  " + " ".join(fused.einsums), "cyan"))
        for memory in dict.fromkeys(fused.tensors.values()):
            parts.append(f"    in {memory}: " + " ".join(t for t, m in fused.tensors.items() if m == memory))
        parts += [f"    {loops}: {' '.join(names)}" for loops, names in under if set(names) <= set(fused.einsums)]
    alone = [s.einsums[0] for s in sets if len(s.einsums) == 1]
    return [*parts, "not fused: " + " ".join(alone)] if 0 < len(alone) < len(sets) else parts


def _loop_words(spec: Spec, shared: SharedLoops) -> str:
    bounds = {name: info.bounds for name, info in spec.info.einsums.items()}
    words = []
    for i, loop in enumerate(shared.loops):
        above = (*shared.above, *shared.loops[:i])
        words.append(loop_words(loop, iterations(loop, above, shared.einsums, bounds)))
    return ", ".join(words)


def _einsums(evaluation: Evaluation) -> Grid:
    table = grid("<Einsum", ">energy", "?>", ">latency", "?>", "<limited by")
    for name, e in evaluation.einsums.items():
        table.add(
            Text(name, "cyan"), si(e.energy, "J"), _share(e.energy, evaluation.energy), si(e.latency, "s"),
            _share(e.latency, evaluation.latency), e.bottleneck or "–",
        )  # fmt: skip
    return table


def consumers(evaluation: Evaluation) -> list[tuple[str, float]]:
    """Joules by component and tensor (or `compute`, or `leakage`) over all Einsums, the largest first."""
    sums: dict[str, float] = {}
    for e in evaluation.einsums.values():
        for (component, tensor, action), joules in e.energies.items():
            spender = tensor or ("leakage" if action == "leak" else action)
            sums[f"{component} {spender}"] = sums.get(f"{component} {spender}", 0.0) + joules
    return sorted(sums.items(), key=lambda item: -item[1])


def _consumers(evaluation: Evaluation) -> Grid:
    table = grid("<most energy", ">", "?>")
    for name, joules in consumers(evaluation)[:MOST_CONSUMERS]:
        table.add(name, si(joules, "J"), _share(joules, evaluation.energy))
    return table


def _memories(spec: Spec, evaluation: Evaluation) -> Grid:
    table = grid("<memory", ">at most", ">of", "?>")
    bound = [bind_all(spec, spec.info.einsums[name]) for name in evaluation.einsums]
    for memory in memory_names(spec.require_arch()):
        peak = evaluation.peak_occupancy_bits.get(memory)
        size = max(components[memory].size for components in bound)
        full = _share(peak, size) if peak is not None and size < math.inf else ""
        held = "unused" if peak is None else bits(peak, beside=size if size < math.inf else 0)
        table.add(memory, held, "unlimited" if size == math.inf else bits(size, beside=peak or 0), full)
    return table


def _share(part: float, whole: float) -> Text:
    return Text(f"{part / whole:.1%}" if whole else "", "dim")
