"""What is before and after runs with windows: the best mappings of these Einsums alone, without windows.

In long workloads that is too much to search again for each run. There it is cut from mappings that are known, between branches:
what crosses a cut goes through the outermost memory, and is held on chip as before. Only what is cut in the end is searched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from fusiest.looptree import LoopTree, Nested, Node, Sequential, Storage, einsums
from fusiest.mapper.result import Mapping
from fusiest.mapper.window_parts import NO_PART, PartMapping, best_parts, evaluated_mapping, in_a_row, part_mapping
from fusiest.mapper.window_plans import LONGEST_WORKLOAD, MOST_EINSUMS
from fusiest.spec import Spec, memory_names, part_of

MOST_REFINED = 3
"""Whole mappings of which cut parts are searched."""


class PlainParts:
    """The best without windows of Einsums from one to another."""

    def __init__(self, spec: Spec, known: Sequence[LoopTree], search: Callable[[Spec], list[Mapping]]) -> None:
        """`known`: mappings to be cut; if there are none, every part is searched."""
        self.spec, self.known, self.search = spec, known, search
        self.names = list(spec.info.einsums)
        self.parts: dict[tuple[int, int], list[PartMapping]] = {}
        self.cut: set[LoopTree] = set()
        self.searched: dict[tuple[int, int], list[PartMapping]] = {}

    def between(self, start: int, end: int) -> list[PartMapping]:
        """Those that nothing is better than."""
        span = start, end
        if span not in self.parts:
            cut = [part for tree in self.known for part in self._cut(tree, start, end)]
            self.parts[span] = best_parts(cut) if self.known else self._searched(start, end)
        return self.parts[span]

    def refine(self, wholes: Sequence[PartMapping]) -> bool:
        """Search what was cut for the first of these mappings, if it is not too long; whether there was any."""
        trees = dict.fromkeys(tree for whole in wholes[:MOST_REFINED] for tree in whole.trees if tree in self.cut)
        short = [names for tree in trees if len(names := einsums(tree.nodes)) <= LONGEST_WORKLOAD]
        for names in short:
            start = min(map(self.names.index, names))
            span = start, start + len(names)
            self.parts[span] = best_parts([*self.between(*span), *self._searched(*span)])
        return bool(short)

    def _cut(self, tree: LoopTree, start: int, end: int) -> Iterator[PartMapping]:
        """As a known mapping has it. What it does in the same loops with others, if that is little, is searched."""
        places = [k for k in range(start, end + 1) if _is_between_branches(tree, frozenset(self.names[:k]))]
        first, last = (places[0], places[-1]) if places else (end, end)
        if first - start > MOST_EINSUMS or end - last > MOST_EINSUMS:
            return
        middle = [NO_PART]
        if last > first:
            names = self.names[first:last]
            mapping = evaluated_mapping(part_of(self.spec, names), _cut_tree(self.spec, tree, frozenset(names)))
            middle = [] if mapping is None else [part_mapping(mapping, windows=False)]
            self.cut |= {inner for part in middle for inner in part.trees}
        if middle:
            for before, after in itertools.product(self._searched(start, first), self._searched(last, end)):
                yield in_a_row(in_a_row(before, middle[0]), after)

    def _searched(self, start: int, end: int) -> list[PartMapping]:
        span = start, end
        if span not in self.searched:
            mappings = self.search(part_of(self.spec, self.names[start:end])) if start < end else []
            parts = [part_mapping(mapping, windows=False) for mapping in mappings]
            self.searched[span] = parts if start < end else [NO_PART]
        return self.searched[span]


def mappings_to_cut(mappings: Sequence[Mapping]) -> list[LoopTree]:
    """The best mappings by energy, latency and both."""
    keys: tuple[Callable[[Mapping], float], ...] = (lambda m: m.energy, lambda m: m.latency, lambda m: m.edp)
    return list(dict.fromkeys(min(mappings, key=key).looptree for key in keys)) if mappings else []


def _branches(tree: LoopTree) -> tuple[tuple[Storage, ...], tuple[tuple[Node, ...], ...]]:
    """Holders on top, and what is below them: parts that have nothing in common."""
    holders: list[Storage] = []
    for node in tree.nodes:
        if not isinstance(node, Storage):
            break
        holders.append(node)
    below = tree.nodes[len(holders) :]
    split = len(below) == 1 and isinstance(below[0], Sequential)
    return tuple(holders), tuple(b.nodes for b in below[0].nodes) if split else (below,)  # type: ignore[union-attr]


def _is_between_branches(tree: LoopTree, names: frozenset[str]) -> bool:
    """Whether each branch has only such Einsums, or none of them."""
    return all(len(names & set(inside)) in (0, len(inside)) for inside in map(einsums, _branches(tree)[1]))


def _cut_tree(spec: Spec, tree: LoopTree, names: frozenset[str]) -> LoopTree:
    """The branches of these Einsums alone."""
    holders, branches = _branches(tree)
    chosen = [branch for branch in branches if names & set(einsums(branch))]
    used = {t for name in names for t in spec.info.einsums[name].accesses}
    outermost = memory_names(spec.require_arch())[0]
    held = (replace(holder, tensors=tuple(t for t in holder.tensors if t in used)) for holder in holders)
    top = [holder for holder in held if holder.tensors]
    off_chip = {t for holder in top if holder.component == outermost for t in holder.tensors}
    crossing = tuple(sorted(t for t in used - off_chip if not set(spec.info.users[t]) <= names))
    if crossing:
        top.insert(0, Storage(tensors=crossing, component=outermost))
    tail = chosen[0] if len(chosen) == 1 else (Sequential(nodes=tuple(Nested(nodes=b) for b in chosen)),)
    return LoopTree(nodes=(*top, *tail))
