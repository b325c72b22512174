"""Parts before and after chains with windows: the best mappings of these Einsums alone, without windows.

In long workloads a search for each chain would take too long. There, parts are cut from known mappings, between
branches: tensors that cross a cut go through the outermost memory, and are held on chip as before. Only the cut parts
of the final mapping are searched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from fusiest.base.objective import OBJECTIVES, cost_of
from fusiest.joining import in_turn
from fusiest.looptree import LoopTree, Node, Sequential, Storage, einsums
from fusiest.mapper.part_mappings import NO_PART, PartMapping, best_parts, evaluated_mapping, in_a_row, part_mapping
from fusiest.mapper.results.result import Mapping
from fusiest.mapper.windows.window_plans import MOST_EINSUMS
from fusiest.model import elements
from fusiest.pmapping import Floats, least_of_reading
from fusiest.spec import Spec, memory_names, part_of

MOST_REFINED = 1
"""Whole mappings whose cut parts are searched."""


class PlainParts:
    """The best mappings without windows of ranges of Einsums."""

    def __init__(self, spec: Spec, known: Sequence[Mapping], search: Callable[[Spec], list[Mapping]]) -> None:
        """`known`: mappings to be cut; if there are none, every part is searched."""
        self.spec, self.known, self.search = spec, known, search
        self.names = list(spec.info.einsums)
        self.costs = [CutCosts(spec, mapping) for mapping in known]
        self.parts: dict[tuple[int, int], list[PartMapping]] = {}
        self.cut: set[LoopTree] = set()
        self.searched: dict[tuple[int, int], list[PartMapping]] = {}

    def between(self, start: int, end: int) -> list[PartMapping]:
        """Mappings of a range of Einsums that no other dominates."""
        span = start, end
        if span not in self.parts:
            cut = [part for mapping in self.known for part in self._cut(mapping.looptree, start, end)]
            self.parts[span] = best_parts(cut) if self.known else self._searched(start, end)
        return self.parts[span]

    def estimates(self, start: int, end: int) -> list[tuple[float, float]]:
        """Estimated costs of a range of Einsums, from each known mapping."""
        return [costs.between(start, end) for costs in self.costs]

    def refine(self, wholes: Sequence[PartMapping]) -> bool:
        """Search the parts that were cut for the first of these mappings; returns whether there were any."""
        trees = dict.fromkeys(tree for whole in wholes[:MOST_REFINED] for tree in whole.trees if tree in self.cut)
        for names in (einsums(tree.nodes) for tree in trees):
            start = min(map(self.names.index, names))
            span = start, start + len(names)
            self.parts[span] = best_parts([*self.between(*span), *self._searched(*span)])
        return bool(trees)

    def _cut(self, tree: LoopTree, start: int, end: int) -> Iterator[PartMapping]:
        """Cut a range of Einsums out of a known mapping. A few Einsums that share loops with others there are searched."""
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


class CutCosts:
    """Estimated costs of parts of a known mapping, Einsum by Einsum.

    Tensors that cross the ends of a part are written to the outermost memory, and read.
    """

    def __init__(self, spec: Spec, mapping: Mapping) -> None:
        self.spec, self.names = spec, list(spec.info.einsums)
        self.outermost = memory_names(spec.require_arch())[0]
        self.einsums = [mapping.evaluation.einsums[name] for name in self.names]
        self.sums = np.cumsum([(0.0, 0.0), *((einsum.energy, einsum.latency) for einsum in self.einsums)], axis=0)
        holders = {node for path in mapping.looptree.paths() for node in path if isinstance(node, Storage)}
        off_chip = {t for holder in holders if holder.component == self.outermost for t in holder.tensors}
        number = {name: i for i, name in enumerate(self.names)}
        makers = {t: max(number[m] for m in makers) for t, makers in spec.info.producers.items() if t not in off_chip}
        self.exchanged = [(t, made, sorted(number[u] for u in spec.info.users[t])) for t, made in makers.items()]
        """On chip: who makes them, and who uses them."""
        self.added: dict[tuple[int, bool], Floats] = {}

    def between(self, start: int, end: int) -> tuple[float, float]:
        """Energy and latency of a range of Einsums."""
        energy, latency = self.sums[end] - self.sums[start] + self._added(start, True) + self._added(end, False)
        return float(energy), float(latency)

    def _added(self, cut: int, reads: bool) -> Floats:
        """Costs that a cut adds to the part after it, or to the part before."""
        if (cut, reads) not in self.added:
            added = np.zeros(2)
            for tensor, made, users in self.exchanged:
                if made < cut <= users[-1]:
                    mover = next(user for user in users if user >= cut) if reads else made
                    added += self._moving(tensor, mover)
            self.added[cut, reads] = added
        return self.added[cut, reads]

    def _moving(self, tensor: str, mover: int) -> Floats:
        """Cost of reading all values that an Einsum uses of a tensor; writing is assumed to cost as much."""
        info = self.spec.info.einsums[self.names[mover]]
        values = elements(info.accesses[tensor], info.bounds)
        energy, seconds = least_of_reading(self.spec, info.name, tensor)
        costs = self.einsums[mover]
        busy = costs.latency_per_component.get(self.outermost, 0.0) + values * seconds
        return np.array([values * energy, max(0.0, busy - costs.latency)])


def mappings_to_cut(mappings: Sequence[Mapping]) -> list[Mapping]:
    """The best mappings by each objective."""
    every = (min(mappings, key=lambda m: cost_of(m, name)) for name in OBJECTIVES) if mappings else ()
    return list({id(best): best for best in every}.values())


def _branches(tree: LoopTree) -> tuple[tuple[Storage, ...], tuple[tuple[Node, ...], ...]]:
    """Storage nodes on top, and the branches below them, which share nothing."""
    holders: list[Storage] = []
    for node in tree.nodes:
        if not isinstance(node, Storage):
            break
        holders.append(node)
    below = tree.nodes[len(holders) :]
    split = len(below) == 1 and isinstance(below[0], Sequential)
    return tuple(holders), tuple(b.nodes for b in below[0].nodes) if split else (below,)  # type: ignore[union-attr]


def _is_between_branches(tree: LoopTree, names: frozenset[str]) -> bool:
    """Whether each branch has only these Einsums, or none of them."""
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
    return LoopTree(nodes=(*top, *in_turn(chosen)))
