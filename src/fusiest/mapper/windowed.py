"""Mappings with windows: runs of Einsums are fused through their halos wherever that is better than what is known.

For every run and every plan of its windows a spec without windows is searched (`window_specs`). What is found is written back,
evaluated by the model, and put between mappings of the Einsums before and after it. Never worse than without windows, and
valid; whether other windows would be better still is not proven.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fusiest import interrupt
from fusiest.errors import FusiestError, Interrupted, OutOfMemory, SpecError
from fusiest.looptree import Compute, LoopTree, Nested, Node, Sequential, Storage, Toll, einsums
from fusiest.mapper.options import Options
from fusiest.mapper.progress import Progress, Step
from fusiest.mapper.resources import cpu_seconds
from fusiest.mapper.result import Mapping, Result
from fusiest.mapper.search import best_rows
from fusiest.mapper.window_plans import WindowPlan, window_plans, window_runs
from fusiest.mapper.window_specs import FirstCut, rolled, unrolled
from fusiest.model import evaluate
from fusiest.pmapping import NoMapping, allowed_placement, large_enough, pareto_rows, shared_memories
from fusiest.spec import Spec, flatten, part_of

MOST_EINSUMS = 12
"""Of a workload whose runs are all tried."""
Run = Callable[[Spec, Options], Result]


class PartMapping(NamedTuple):
    """A mapping of some Einsums that exchange nothing with others on chip."""

    energy: float
    latency: float
    trees: tuple[LoopTree, ...]
    windows: bool


def check_windows(spec: Spec) -> None:
    """Raise if the workload is too long."""
    count = len(spec.info.einsums)
    if count > MOST_EINSUMS:
        raise SpecError(
            f"windows are tried in workloads of up to {MOST_EINSUMS} Einsums, and this one has {count}; map a part of it, "
            "or leave out --windows"
        )


def with_windows(result: Result, run: Run, say: Progress) -> Result:
    """The result with all that windows make better."""
    spec, options = result.spec, result.options
    begin, cpu = time.perf_counter(), cpu_seconds()
    search = _WindowSearch(spec, options, run, say, begin)
    if any(True for names in window_runs(spec) for _ in window_plans(spec, names)):
        result.optimal, result.gap = False, 1.0  # nothing bounds what other windows could do
    try:
        found = [mapping for part in search.whole() if (mapping := joined_parts(spec, part)) is not None]
        result.mappings = best_of([*result.mappings, *found], options)
    except (KeyboardInterrupt, Interrupted):  # what is known without windows stays known
        result.stopped = "interrupt"
    except (MemoryError, OutOfMemory):
        result.stopped = "memory"
    result.stats.wall_seconds += time.perf_counter() - begin
    result.stats.cpu_seconds += cpu_seconds() - cpu
    return result


@dataclasses.dataclass
class _WindowSearch:
    spec: Spec
    options: Options
    run: Run
    say: Progress
    begin: float

    def whole(self) -> list[PartMapping]:
        """The best ways to put runs with windows and parts without in a row, at least one with windows."""
        names = list(self.spec.info.einsums)
        windowed: dict[tuple[int, int], list[PartMapping]] = {}
        for run in window_runs(self.spec):
            first = names.index(run[0])
            found = self._windowed(run)
            if found:
                windowed[first, first + len(run)] = found
        starts = {0, *(end for _, end in windowed)}
        ends = {len(names), *(start for start, _ in windowed)}
        best: dict[int, list[PartMapping]] = {0: [PartMapping(0.0, 0.0, (), False)]}
        for end in range(1, len(names) + 1):
            options = [(start, parts) for (start, own), parts in windowed.items() if own == end and start in best]
            if end in ends:
                options += [(s, self._plain(names[s:end])) for s in sorted(starts) if s < end and s in best]
            both = [in_a_row(one, two) for start, parts in options for one in best[start] for two in parts]
            if both:
                best[end] = best_parts(both)
        return [part for part in best.get(len(names), []) if part.windows]

    def _windowed(self, run: Sequence[str]) -> list[PartMapping]:
        """What is found for all plans of a run, those over the same rank in as many iterations together."""
        part = part_of(self.spec, run)
        found: list[PartMapping] = []
        plans = window_plans(self.spec, run)
        for (variable, times), alike in itertools.groupby(plans, lambda p: (p.variables[run[-1]], p.times)):
            if self._over():
                break
            self.say(Step(f"windows of {', '.join(run)}: {times} iterations of {variable}"))
            try:
                found += self._planned(list(alike), part)
            except SpecError:  # a name in the architecture means nothing in the part
                break
        return best_parts(found)

    def _planned(self, plans: Sequence[WindowPlan], part: Spec) -> Iterable[PartMapping]:
        """Mappings that were found for one plan, written as those of each that is wanted.

        What keeps tensors is searched as if its first window were like the others; what makes them again has windows that are
        all as long as the first. So either may have what is best for the other.
        """
        wanted = plans[:1] if self.options.windows == "retained" else plans
        searched = (*plans[:1], *plans[-1:]) if self.options.windows == "retained" else plans
        mappings = [mapping for plan in dict.fromkeys(searched) for mapping in self._unrolled(plan)]
        cuts: tuple[FirstCut, ...] = ("outside", "inside", "not")
        for mapping, plan, cut in itertools.product(mappings, wanted, cuts):
            tree = rolled(mapping.looptree, plan, cut)
            cost = evaluated_mapping(part, tree) if tree is not None else None
            if tree is not None and cost is not None:
                yield PartMapping(cost.energy, cost.latency, (tree,), True)

    def _unrolled(self, plan: WindowPlan) -> Iterator[Mapping]:
        """What is found for a plan. Kept tensors need more space than the search knows, so it is asked for all sizes, too."""
        yield from self._found(unrolled(self.spec, plan), self._inner())
        if plan.kept:
            alone = unrolled(self.spec, plan, only_turns=True)
            memories: list[str | None] = [m for m in shared_memories(alone) if m not in large_enough(alone)]
            for memory in (memories or [None])[-1:]:
                yield from self._found(alone, dataclasses.replace(self._inner(), usage=memory))

    def _found(self, spec: Spec, options: Options) -> list[Mapping]:
        try:
            return self.run(spec, options).mappings
        except (NoMapping, SpecError):  # nothing fits, or it is too large to search
            return []

    def _plain(self, run: Sequence[str]) -> list[PartMapping]:
        found = self._found(part_of(self.spec, run), self._inner())
        return [PartMapping(m.energy, m.latency, (m.looptree,), False) for m in found]

    def _inner(self) -> Options:
        """Products of energy and latency do not add up: both are searched then."""
        objective = self.options.objective if self.options.objective != ("edp",) else ("energy", "latency")
        limit = self.options.time_limit
        left = None if limit is None else max(1.0, self.begin + limit - time.perf_counter())
        return dataclasses.replace(self.options, objective=objective, windows="none", time_limit=left)

    def _over(self) -> bool:
        limit = self.options.time_limit
        return interrupt.taken() or (limit is not None and time.perf_counter() > self.begin + limit)


def in_a_row(one: PartMapping, two: PartMapping) -> PartMapping:
    return PartMapping(
        one.energy + two.energy, one.latency + two.latency, one.trees + two.trees, one.windows or two.windows
    )


def best_parts(parts: Sequence[PartMapping]) -> list[PartMapping]:
    """Those that nothing is better than, with windows and without."""
    if not parts:
        return []
    costs = np.array([[part.energy, part.latency] for part in parts])
    return [parts[i] for i in pareto_rows(np.array([part.windows for part in parts], np.int64), costs)]


def evaluated_mapping(spec: Spec, tree: LoopTree) -> Mapping | None:
    """The mapping, if it fits and is right."""
    try:
        cost = evaluate(spec, tree)
    except FusiestError:
        return None
    return None if cost.warnings else Mapping(tree, einsums(tree.nodes), cost)


def joined_parts(spec: Spec, part: PartMapping) -> Mapping | None:
    """One mapping of the whole workload, if the architecture's constraints allow it there."""
    top: dict[tuple[str, bool], list[str]] = {}
    branches: list[tuple[Node, ...]] = []
    for tree in part.trees:
        holders = list(itertools.takewhile(lambda node: _on_top(spec, node), tree.nodes))
        for holder in holders:
            assert isinstance(holder, Storage)
            held = top.setdefault((holder.component, holder.persistent), [])
            held += [t for t in holder.tensors if t not in held]
        branches.append(tree.nodes[len(holders) :])
    nodes: list[Node] = [Storage(tensors=tuple(t), component=c, persistent=p) for (c, p), t in top.items()]
    tail = branches[0] if len(branches) == 1 else (Sequential(nodes=tuple(Nested(nodes=b) for b in branches)),)
    mapping = evaluated_mapping(spec, LoopTree(nodes=(*nodes, *tail)))
    return mapping if mapping is not None and _is_allowed(spec, mapping.looptree) else None


def _on_top(spec: Spec, node: Node) -> bool:
    """Whether it is a holder of the outermost memory."""
    return isinstance(node, Storage) and node.component == next(iter(flatten(spec.require_arch().nodes))).name


def _is_allowed(spec: Spec, tree: LoopTree) -> bool:
    """Whether every memory holds for each Einsum what it must and may."""
    for path in tree.paths():
        leaf = path[-1]
        assert isinstance(leaf, Compute)
        own = spec.info.einsums[leaf.einsum].accesses
        held: dict[str, frozenset[str]] = {}
        for node in path:
            if isinstance(node, Storage | Toll):
                name = str(node.component)
                held[name] = held.get(name, frozenset()) | frozenset(str(t) for t in node.tensors if t in own)
        if not allowed_placement(spec, leaf.einsum, leaf.component, held):
            return False
    return True


def best_of(mappings: Sequence[Mapping], options: Options) -> list[Mapping]:
    """What was asked for: the best mapping, or the front, sorted by energy."""
    if not mappings:
        return []
    costs = np.array([[m.energy, m.latency] for m in mappings])
    if len(options.objective) > 1:
        chosen = pareto_rows(np.zeros(len(mappings), np.int64), costs)
    else:
        chosen = best_rows(options.minimized, costs[:, 0], costs[:, 1])[:1]
    return sorted((mappings[int(i)] for i in chosen), key=lambda m: (m.energy, m.latency))
