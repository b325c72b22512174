"""A slow, plain exhaustive mapper for whole workloads: every order of the Einsums, every compatible choice of pmappings.

It says what `fusiest.mapper` must find. All pmappings come unpruned from the literal enumeration of single Einsums; each
choice becomes a LoopTree, and the model says whether it is valid. Only two things are saved: pmappings that differ in
nothing but energy and latency are one class, which is tried once; and since energy and latency are sums over Einsums,
choices are tried from the least energy up, and those that a valid mapping already beats are not tried.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fusiest.looptree import Compute, LoopTree, Node, Storage, Toll
from fusiest.model import (
    CopiesApart,
    EinsumNest,
    TreeNode,
    build_nest,
    check_backings,
    evaluate,
    evaluate_einsum,
    leaf_paths,
    occupancy,
    out_of_turn,
    reservations,
    sharing,
)
from fusiest.spec import Path, Spec, bind, bind_all
from tests.reference.copies import copy_nests
from tests.reference.exhaustive import counted_mappers
from tests.reference.joined_tree import NoTree, joined_tree
from tests.reference.shape_chains import ExchangeShape, ShapeChains, einsum_orders
from tests.reference.skeletons import ReferenceLimits

FloatArray: TypeAlias = npt.NDArray[np.float64]


class TooManyCombinations(Exception):
    """There are more choices than the caller wants to try."""


@dataclass(frozen=True, slots=True)
class WorkloadLimits:
    trees: int = 1_000_000
    """Tilings of one Einsum."""
    combinations: int = 10_000_000
    """Choices of one pmapping per Einsum, over all orders."""
    trials: int = 1_000_000
    """LoopTrees given to the model."""
    imperfect: bool = False
    """Also tiles that do not divide."""
    fused_loops_per_variable: int = 1


@dataclass(frozen=True, slots=True)
class WorkloadMapping:
    """One mapping of the front."""

    energy: float
    latency: float
    order: tuple[str, ...]
    tree: LoopTree


# ----------------------------------------------------------------------------------------------------- single Einsums


@dataclass
class Class:
    """Pmappings that differ only in cost."""

    nodes: tuple[Node, ...]
    points: dict[tuple[float, float], tuple[Node, ...]] = field(default_factory=dict)
    """Energy and latency → a pmapping that has them."""

    def front(self) -> list[tuple[float, float]]:
        """Costs that no other of the class beats: the rest is in no front, for the class is one and the same in all else."""
        front: list[tuple[float, float]] = []
        for energy, latency in sorted(self.points):
            if not front or latency < front[-1][1]:
                front.append((energy, latency))
        return front


def unpruned(
    spec: Spec, einsum: str, limits: WorkloadLimits
) -> Iterator[tuple[tuple[Node, ...], float, float, object]]:
    """All pmappings of an Einsum: nodes, energy, latency, and the space that only it uses, by fused level."""
    info = spec.info.einsums[einsum]
    bound = bind_all(spec, info)
    if info.is_copy_operation:
        for nodes in copy_nests(spec, einsum, limits.imperfect, limits.fused_loops_per_variable):
            cost = evaluate_einsum(spec, _nest(spec, nodes), bound)
            yield nodes, cost.energy, cost.latency, nodes
        return
    reference_limits = ReferenceLimits(
        fused_loops_per_variable=limits.fused_loops_per_variable, trees=limits.trees, imperfect=limits.imperfect
    )
    memories = _limited(spec)
    for mapper in counted_mappers(spec, einsum, reference_limits):
        for _, p in mapper.pmappings(memories):
            yield p.nodes, p.energy, p.latency, p.bits


def _limited(spec: Spec) -> list[str]:
    """Memories that have a size for any Einsum: what is in them counts for all."""
    components = (c for info in spec.info.einsums.values() for c in bind_all(spec, info).values())
    return list(dict.fromkeys(c.name for c in components if c.kind == "memory" and math.isfinite(c.size)))


def _nest(spec: Spec, nodes: Sequence[Node]) -> EinsumNest:
    leaf = nodes[-1]
    assert isinstance(leaf, Compute)
    path = bind(spec, leaf.einsum, leaf.component)
    return build_nest(tuple(TreeNode(i, node) for i, node in enumerate(nodes)), path)


def classes(spec: Spec, einsum: str, limits: WorkloadLimits) -> dict[ExchangeShape, list[Class]]:
    """All pmappings of an Einsum by what neighbours must agree on, and by what they hold in its loops."""
    prefixes: dict[tuple[Node, ...], tuple[ExchangeShape, object]] = {}
    by_shape: dict[ExchangeShape, dict[object, Class]] = {}
    info = spec.info.einsums[einsum]
    fusing = spec.info.shared | (frozenset(info.accesses) if info.is_copy_operation else frozenset())
    for nodes, energy, latency, bits in unpruned(spec, einsum, limits):
        prefix = _fused_part(nodes, fusing)
        if prefix not in prefixes:
            prefixes[prefix] = _described(spec, nodes, len(prefix))
        shape, held = prefixes[prefix]
        below = _right_below(nodes[len(prefix) :], spec.info.shared)
        pmappings = by_shape.setdefault(shape, {}).setdefault((held, below, bits), Class(nodes))
        pmappings.points.setdefault((energy, latency), nodes)
    return {shape: list(by_space.values()) for shape, by_space in by_shape.items()}


def _fused_part(nodes: tuple[Node, ...], fusing: frozenset[str]) -> tuple[Node, ...]:
    """Down to the innermost backing holder of a shared tensor; in a copy, of any: it may stand in loops of its neighbours."""
    backed: set[str] = set()
    end = 0
    for i, node in enumerate(nodes):
        if isinstance(node, Storage) and node.tensors[0] in fusing and node.tensors[0] not in backed:
            backed.add(node.tensors[0])
            end = i + 1
    return nodes[:end]


def _right_below(nodes: Sequence[Node], shared: frozenset[str]) -> tuple[Node, ...]:
    """Holders of shared tensors below the fused part, with no loop between: another Einsum may have to share them."""
    first = itertools.takewhile(lambda node: isinstance(node, (Storage, Toll)), nodes)
    return tuple(node for node in first if isinstance(node, Storage) and node.tensors[0] in shared)


def _described(spec: Spec, nodes: tuple[Node, ...], end: int) -> tuple[ExchangeShape, object]:
    """The fused part's shape, and where and how much it holds of shared tensors."""
    nest = _nest(spec, nodes)
    shared = spec.info.shared
    space = {(r.tensor, r.memory): (r.bits, r.level) for r in reservations(nest)}
    loops = [loop for loop in nest.loops if loop.position < end]
    held = []
    backings: dict[str, tuple[str, str, int]] = {}
    for holder in nest.holders:
        if holder.position < end and holder.tensor in shared:
            above = sum(loop.position < holder.position for loop in loops)
            held.append(
                (holder.tensor, holder.component.name, above, space.get((holder.tensor, holder.component.name)))
            )
            backings.setdefault(holder.tensor, (holder.tensor, holder.component.name, above))
    shape = ExchangeShape(
        tuple(loop.variable for loop in loops),
        tuple((loop.iterations, loop.tiling.tile, (loop.component, loop.dimension)) for loop in loops),
        tuple(sorted(backings.values())),
    )
    return shape, tuple(held)


# -------------------------------------------------------------------------------------------------------------- search


@dataclass
class WorkloadMapper:
    """Tries choices of classes; `refused` counts why they were no mappings."""

    spec: Spec
    limits: WorkloadLimits
    exchange: str = "finished"
    """`any`: Einsums may also use tensors that are not finished."""
    refused: Counter[str] = field(default_factory=Counter)
    trials: int = 0

    def __post_init__(self) -> None:
        infos = self.spec.info.einsums
        self.tensors = {name: frozenset(info.accesses) for name, info in infos.items()}
        self.copies = frozenset(name for name, info in infos.items() if info.is_copy_operation)
        self.classes = {name: classes(self.spec, name, self.limits) for name in infos}
        self.bound = {name: bind_all(self.spec, info) for name, info in infos.items()}
        self.paths: dict[tuple[str, str], Path] = {}
        self.valid: dict[object, bool] = {}

    def front(self, orders: Iterable[tuple[str, ...]]) -> list[WorkloadMapping]:
        """The mappings that no other beats in both energy and latency, by energy. Empty if none is valid."""
        choices = _Choices(self.limits.combinations)
        for order in orders:
            for shapes, common in ShapeChains(self.spec, order, self.classes).all():
                class_lists = [self.classes[name][shape] for name, shape in zip(order, shapes, strict=True)]
                choices.add(order, common, class_lists)
        mappings: list[WorkloadMapping] = []
        for choice in choices.by_energy(mappings):
            if self.is_valid(choice):
                mappings.append(self._mapping(choice))
        return mappings

    def is_valid(self, choice: _Choice) -> bool:
        key = choice.order, tuple(id(c) for c in choice.classes)
        if key not in self.valid:
            self.trials += 1
            if self.trials > self.limits.trials:
                raise TooManyCombinations
            self.valid[key] = self._try(choice)
        return self.valid[key]

    def _try(self, choice: _Choice) -> bool:
        """Whether the choice is a tree that exchanges its tensors as it should and fits the memories, as the model says."""
        try:
            tree = joined_tree([c.nodes for c in choice.classes], choice.common, self.tensors, self.copies)
        except NoTree:
            self.refused["no tree"] += 1
            return False
        nests = self._nests(tree)
        order = {nest.einsum.name: i for i, nest in enumerate(nests)}
        users = {t: sorted(order[u] for u in names) for t, names in self.spec.info.users.items()}
        try:
            shared = sharing(nests, users)
            check_backings(nests)
        except CopiesApart:
            self.refused["copies apart"] += 1
            return False
        if self.exchange == "finished" and out_of_turn(shared, self.spec.info.producers):
            self.refused["out of turn"] += 1
            return False
        for nest, held in zip(nests, occupancy(shared).totals(), strict=True):
            if any(bits > self.bound[nest.einsum.name][memory].size for memory, bits in held.items()):
                self.refused["too large"] += 1
                return False
        return True

    def _nests(self, tree: LoopTree) -> list[EinsumNest]:
        nests = []
        for path in leaf_paths(tree):
            leaf = path[-1].node
            assert isinstance(leaf, Compute)
            key = leaf.einsum, leaf.component
            if key not in self.paths:
                self.paths[key] = bind(self.spec, *key)
            nests.append(build_nest(path, self.paths[key]))
        return nests

    def _mapping(self, choice: _Choice) -> WorkloadMapping:
        tree = joined_tree(choice.nodes, choice.common, self.tensors, self.copies)
        cost = evaluate(self.spec, tree)
        assert math.isclose(cost.energy, choice.energy, rel_tol=1e-9)
        assert math.isclose(cost.latency, choice.latency, rel_tol=1e-9)
        return WorkloadMapping(cost.energy, cost.latency, choice.order, tree)


@dataclass(frozen=True, slots=True)
class _Choice:
    """One pmapping per Einsum, in an order: the class that stands for each in trials, and its own nodes."""

    order: tuple[str, ...]
    common: tuple[int, ...]
    classes: tuple[Class, ...]
    nodes: tuple[tuple[Node, ...], ...]
    energy: float
    latency: float


@dataclass(frozen=True, slots=True)
class _ClassCosts:
    """All costs of all classes of one shape, as arrays."""

    points: list[tuple[Class, tuple[float, float]]]
    energy: FloatArray
    latency: FloatArray


class _Choices:
    """All choices of one pmapping per Einsum, kept as sums of costs."""

    def __init__(self, most: int) -> None:
        self.most, self.count = most, 0
        self.options: dict[int, _ClassCosts] = {}
        self.chains: list[tuple[tuple[str, ...], tuple[int, ...], list[_ClassCosts]]] = []

    def add(self, order: tuple[str, ...], common: tuple[int, ...], shapes: Sequence[list[Class]]) -> None:
        options = [self._options(class_list) for class_list in shapes]
        self.count += math.prod(len(o.points) for o in options)
        if self.count > self.most:
            raise TooManyCombinations
        self.chains.append((order, common, options))

    def _options(self, class_list: list[Class]) -> _ClassCosts:
        if id(class_list) not in self.options:
            points = [(c, point) for c in class_list for point in c.front()]
            energy, latency = (np.array([point[k] for _, point in points]) for k in range(2))
            self.options[id(class_list)] = _ClassCosts(points, energy, latency)
        return self.options[id(class_list)]

    def by_energy(self, mappings: Sequence[WorkloadMapping]) -> Iterator[_Choice]:
        """From the least energy up, those that are faster than the last mapping found so far."""
        if not self.chains:
            return
        sums = [
            [_sums([o.energy for o in options]), _sums([o.latency for o in options])] for _, _, options in self.chains
        ]
        ends = np.cumsum([len(energy) for energy, _ in sums])
        energy, latency = (np.concatenate([chain_sums[k] for chain_sums in sums]) for k in range(2))
        ranking = np.lexsort((latency, energy))
        at = 0
        while at < len(ranking):
            fastest = mappings[-1].latency * (1 - 1e-12) if mappings else math.inf
            step = ranking[at : at + 4096]
            better = np.flatnonzero(latency[step] < fastest)
            if not len(better):
                at += len(step)
                continue
            index = int(step[better[0]])
            at += int(better[0]) + 1
            chain = int(np.searchsorted(ends, index, "right"))
            yield self._choice(chain, index - int(ends[chain] - len(sums[chain][0])), energy[index], latency[index])

    def _choice(self, chain: int, number: int, energy: float, latency: float) -> _Choice:
        order, common, options = self.chains[chain]
        picks = np.unravel_index(number, [len(o.points) for o in options])
        chosen = [o.points[int(i)] for o, i in zip(options, picks, strict=True)]
        nodes = tuple(c.points[point] for c, point in chosen)
        return _Choice(order, common, tuple(c for c, _ in chosen), nodes, float(energy), float(latency))


def _sums(parts: Sequence[FloatArray]) -> FloatArray:
    """The sums of all choices of one number per part."""
    total = np.zeros(1)
    for part in parts:
        total = np.add.outer(total, part).reshape(-1)
    return total


def exhaustive_front(
    spec: Spec, orders: str = "all", limits: WorkloadLimits | None = None, exchange: str = "finished"
) -> list[WorkloadMapping]:
    """The energy-latency front over all mappings of a workload; `orders`: all, or only the given one."""
    mapper = WorkloadMapper(spec, limits or WorkloadLimits(), exchange)
    return mapper.front(einsum_orders(spec) if orders == "all" else [tuple(spec.info.einsums)])
