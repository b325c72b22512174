"""Mappings of parts of a workload that exchange nothing on chip, and how they are put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

import numpy as np

from fusiest.base.errors import FusiestError
from fusiest.joining import in_turn, merge_storage
from fusiest.looptree import LoopTree, Node, Storage, einsums
from fusiest.mapper.candidates import best_rows
from fusiest.mapper.options import Options
from fusiest.mapper.results.result import Mapping
from fusiest.model import evaluate
from fusiest.pmapping import is_allowed, pareto_rows
from fusiest.spec import Spec, memory_names


class PartMapping(NamedTuple):
    """A mapping of some Einsums that exchange nothing with others on chip."""

    energy: float
    latency: float
    trees: tuple[LoopTree, ...]
    """LoopTrees of its parts, in order."""
    windows: bool
    """Whether some part has windows."""


NO_PART = PartMapping(0.0, 0.0, (), False)
"""The mapping of no Einsums, which costs nothing."""


def part_mapping(mapping: Mapping, windows: bool) -> PartMapping:
    """A mapping of a part."""
    return PartMapping(mapping.energy, mapping.latency, (mapping.looptree,), windows)


def objective_of_parts(options: Options) -> tuple[str, ...]:
    """The objective for parts. Products of energy and latency do not add up, so both are searched then."""
    return ("energy", "latency") if options.minimized.is_product else options.objective


def in_a_row(first: PartMapping, second: PartMapping) -> PartMapping:
    """Put one part after the other."""
    return PartMapping(
        first.energy + second.energy,
        first.latency + second.latency,
        first.trees + second.trees,
        first.windows or second.windows,
    )


def best_of(mappings: Sequence[Mapping], options: Options) -> list[Mapping]:
    """The mappings asked for: the best one, or the front, sorted by energy."""
    if not mappings:
        return []
    costs = np.array([[m.energy, m.latency] for m in mappings])
    if len(options.objective) > 1:
        chosen = pareto_rows(np.zeros(len(mappings), np.int64), costs)
    else:
        chosen = best_rows(options.minimized, costs[:, 0], costs[:, 1])[:1]
    return sorted((mappings[int(i)] for i in chosen), key=lambda m: (m.energy, m.latency))


def best_parts(parts: Sequence[PartMapping]) -> list[PartMapping]:
    """Parts that no other dominates, with windows and without."""
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


def allowed_mapping(spec: Spec, tree: LoopTree, imperfect: bool | None) -> Mapping | None:
    """The mapping, if it fits, is right, and obeys the architecture's constraints (see `is_allowed`)."""
    mapping = evaluated_mapping(spec, tree)
    return mapping if mapping is not None and is_allowed(spec, tree, imperfect) else None


def joined_parts(spec: Spec, part: PartMapping, imperfect: bool | None) -> Mapping | None:
    """One mapping of the whole workload, if the architecture's constraints allow it there."""
    top: list[Storage] = []
    branches: list[tuple[Node, ...]] = []
    outermost = memory_names(spec.require_arch())[0]
    for tree in part.trees:
        for count, node in enumerate(tree.nodes):
            if not isinstance(node, Storage) or node.component != outermost:
                branches.append(tree.nodes[count:])
                break
            top.append(node)
    return allowed_mapping(spec, LoopTree(nodes=(*merge_storage(top), *in_turn(branches))), imperfect)


def off_chip(spec: Spec, run: Sequence[str], inside: Set[str]) -> Iterator[Storage]:
    """Storage nodes of the outermost memory for all tensors of a chain of Einsums, but for those exchanged `inside` it."""
    outermost = memory_names(spec.require_arch())[0]
    infos = [spec.info.einsums[name] for name in run]
    held = [(t, t in info.persistent) for info in infos for t in info.accesses]
    for persistent in dict.fromkeys(lasts for _, lasts in held):
        tensors = tuple(dict.fromkeys(t for t, lasts in held if lasts == persistent and t not in inside))
        if tensors:
            yield Storage(tensors=tensors, component=outermost, persistent=persistent)
