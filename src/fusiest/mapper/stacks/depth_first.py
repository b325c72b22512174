"""Mappings of a depth-first dataflow: layers in stacks, tile by tile, with each layer's own best nests.

Every size of tiles is built and evaluated by the model, and the best kept. A layer's nest in a tile comes from a search
for the layer alone, with its feature maps on chip.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence

from fusiest.base import interrupt
from fusiest.base.errors import Interrupted, SpecError
from fusiest.base.frozen import FrozenDict
from fusiest.looptree import LoopTree, Nested, Node, Sequential, Storage, Temporal
from fusiest.mapper.options import Options
from fusiest.mapper.part_mappings import (
    NO_PART,
    PartMapping,
    best_of,
    best_parts,
    evaluated_mapping,
    in_a_row,
    joined_parts,
    objective_of_parts,
    off_chip,
    part_mapping,
)
from fusiest.mapper.progress import Progress, Step
from fusiest.mapper.resources import cpu_seconds
from fusiest.mapper.results.result import Result, Stats, Stop
from fusiest.mapper.stacks.layer_nests import LayerNest, LayerNests, Run, WeightPlace
from fusiest.mapper.stacks.stack_plans import StackPlan, image_variables, plans_of_stack
from fusiest.mapper.windows.unrolled import window_loop
from fusiest.mapper.windows.window_plans import window_runs
from fusiest.pmapping import NoMapping
from fusiest.spec import Dataflow, DepthFirst, MemoryConstraints, Spec, constrained, part_of

MOST_LAYERS = 12
"""Most layers of a stack, where the workload may be cut into several."""
WEIGHTS: tuple[WeightPlace, ...] = ("resident", "through", "past")
"""Places of weights; each is tried if no earlier one fits."""


def depth_first(spec: Spec, options: Options, run: Run, say: Progress) -> Result:
    """The best mappings of the spec's depth-first dataflow."""
    flow = spec.dataflow.depth_first if spec.dataflow is not None else None
    assert flow is not None
    if options.usage is not None:
        raise SpecError("a depth-first dataflow is not searched for all sizes of a memory; leave out usage")
    begin, cpu = time.perf_counter(), cpu_seconds()
    search = _StackSearch(spec, flow, options, run, say)
    try:
        parts = search.one_stack() if flow.stacks == "one" else search.any_stacks()
    except KeyboardInterrupt:
        raise Interrupted("interrupted before a mapping was known") from None
    mappings = [mapping for part in parts if (mapping := joined_parts(spec, part, None)) is not None]
    if not mappings:
        raise NoMapping(
            "no tile of this dataflow fits: its layers' feature maps must be held together in a memory on chip"
        )
    stats = Stats(time.perf_counter() - begin, cpu_seconds=cpu_seconds() - cpu, orders="given")
    best = best_of(mappings, options)
    return Result(spec, options.objective, best, False, 1.0, stats, search.stopped, options)


class _StackSearch:
    """The search for the best stacks."""

    def __init__(self, spec: Spec, flow: DepthFirst, options: Options, run: Run, say: Progress) -> None:
        self.spec, self.flow, self.options, self.run, self.say = spec, flow, options, run, say
        self.images = image_variables(spec)
        self.nests = LayerNests(spec, options, run, self.images)
        self.stopped: Stop | None = None
        self.end = None if options.time_limit is None else time.perf_counter() + options.time_limit

    def one_stack(self) -> list[PartMapping]:
        """All layers in one stack."""
        names = tuple(self.spec.info.einsums)
        if names not in set(window_runs(self.spec)) or not all(self.images.values()):
            raise NoMapping(
                "these Einsums cannot be one stack: it takes several, none of them a copy, of which only the last makes anything "
                "that is used elsewhere, and rows or columns in each that are read through windows"
            )
        return self._stack(names)

    def any_stacks(self) -> list[PartMapping]:
        """Find the best ways to cut the workload, in the order given, into stacks and single layers."""
        names = list(self.spec.info.einsums)
        best: dict[int, list[PartMapping]] = {0: [NO_PART]}
        runs = set(window_runs(self.spec))
        for end in range(1, len(names) + 1):
            joined: list[PartMapping] = []
            for start in range(max(0, end - MOST_LAYERS), end):
                run = tuple(names[start:end])
                if start not in best or (len(run) > 1 and run not in runs):
                    continue
                parts = self._stack(run) if len(run) > 1 else self._single(run)
                joined += [in_a_row(before, after) for before in best[start] for after in parts]
            if joined:
                best[end] = best_parts(joined)
        return best.get(len(names), [])

    def _single(self, run: Sequence[str]) -> list[PartMapping]:
        """Map a layer on its own, from the outermost memory to the outermost memory."""
        part = part_of(self.spec, run)
        everything = MemoryConstraints(memory="outermost", tensors=FrozenDict({"keep": "All"}))
        part = dataclasses.replace(part, arch=constrained(part.require_arch(), Dataflow(memories=(everything,))))
        options = dataclasses.replace(
            self.options, objective=objective_of_parts(self.options), windows="none", time_limit=None, jobs=1
        )
        try:
            mappings = self.run(part, options).mappings
        except NoMapping:
            return []
        return [part_mapping(m, windows=False) for m in mappings]

    def _stack(self, run: Sequence[str]) -> list[PartMapping]:
        """Find the best tiles of a stack."""
        part = part_of(self.spec, run)
        mappings: list[PartMapping] = []
        for plan in plans_of_stack(self.spec, run, self.flow, self.images):
            if self._over():
                break
            tiles = " x ".join(str(loop.plan.tiles[run[-1]].length) for loop in plan.loops) or "all"
            self.say(Step(f"stack of {', '.join(run)}: tiles of {tiles}"))
            for memory in self.nests.memories:
                mappings += self._planned(part, plan, memory)
        return best_parts(mappings)

    def _planned(self, part: Spec, plan: StackPlan, memory: str) -> list[PartMapping]:
        """Map a plan with weights that stay, if they fit, else with weights that are fetched for each tile."""
        inside = plan.inside(self.spec)  # whole tiles of these are held, those of others may sink
        for name in plan.einsums:
            held = [t for t in self.spec.info.einsums[name].accesses if t in inside]
            if not self.nests.have_room(name, plan.extents(name), memory, held):
                return []
        for weights in WEIGHTS:
            nests = [self.nests.find(name, plan.extents(name), memory, weights) for name in plan.einsums]
            if not all(nests):
                continue
            mappings = []
            for aim in self.nests.aims:
                tree = stack_tree(self.spec, plan, memory, [by_aim[aim] for by_aim in nests])
                cost = evaluated_mapping(part, tree)
                if cost is not None:
                    mappings.append(part_mapping(cost, windows=True))
            if mappings:
                return mappings
        return []

    def _over(self) -> bool:
        if interrupt.taken():
            self.stopped = "interrupt"
        elif self.end is not None and time.perf_counter() > self.end:
            self.stopped = "time limit"
        return self.stopped is not None


def stack_tree(spec: Spec, plan: StackPlan, memory: str, nests: Sequence[LayerNest]) -> LoopTree:
    """Write the stack's LoopTree.

    Weights that stay come first, then loops over tiles with feature maps above and below, then a branch for each layer.
    """
    inside = plan.inside(spec)
    nodes: list[Node] = list(off_chip(spec, plan.einsums, inside))
    resident = dict(pair for nest in nests for pair in nest.resident)
    nodes += [Storage(tensors=(t,), component=m) for t, m in resident.items()]
    for index, loop in enumerate(plan.loops):
        nodes += _held(plan, index, inside, memory)
        nodes.append(window_loop(loop.plan))
    count = len(plan.loops)
    nodes += [Storage(tensors=(t,), component=memory) for t in plan.above if plan.above[t] == count and t in inside]
    branches = []
    for name, nest in zip(plan.einsums, nests, strict=True):
        info = spec.info.einsums[name]
        held = [t for t in info.accesses if plan.above.get(t) == count and t not in inside]
        held.sort(key=lambda t: t != info.output)  # an input's space sinks past loops right below it
        first = [Storage(tensors=(t,), component=memory) for t in held]
        branches.append(Nested(nodes=(*first, *_cut_first(plan, name), *nest.nodes)))
    return LoopTree(nodes=(*nodes, Sequential(nodes=tuple(branches))))


def _held(plan: StackPlan, index: int, inside: set[str], memory: str) -> list[Storage]:
    """Feature maps that are held right above a loop.

    One from outside is last: its space sinks past that loop only then.
    """
    held = [t for t, above in plan.above.items() if above == index]
    return [Storage(tensors=(t,), component=memory) for t in sorted(held, key=lambda t: t not in inside)]


def _cut_first(plan: StackPlan, einsum: str) -> Iterator[Temporal]:
    """Loops that cut a first window that is longer than the others into pieces of their length."""
    for loop in plan.loops:
        tiling = loop.plan.tiling(einsum)
        if tiling.first > tiling.tile:
            yield Temporal(rank_variable=loop.plan.variables[einsum], tile_shape=tiling.tile)
