"""The placements of one Einsum as a graph: choices of inner memories depend on little of the outer choices.

A node stands for all placements that leave the same choices; every way through the graph is a placement. There may be
very many placements and few nodes, so facts about placements are found by going through the nodes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from fusiest.base.errors import SpecError
from fusiest.base.interrupt import check
from fusiest.spec import EinsumNames, Path, PlacementSets, Spec, architecture_names, path_nodes, placement_sets
from fusiest.spec import architecture as arch

V = TypeVar("V", bound=Hashable)
HeldSets = tuple[frozenset[str], ...]
"""Per component, the tensors that it holds or lets through."""
MOST_HELD = 1_000_000
"""Most tensors held in all placements of an Einsum together."""


class PossibleBacking(NamedTuple):
    """A memory that may hold a tensor outermost, and the constraints that then apply."""

    memory: int
    tensor: str
    sets: PlacementSets | None


class HeldChoice(NamedTuple):
    """One choice of a component."""

    held: frozenset[str]
    """The tensors that it holds or lets through."""
    sets: PlacementSets | None
    """The constraints that then apply."""
    after: PlacementNode
    """The node of the next component."""


@dataclass(frozen=True, eq=False)
class PlacementNode:
    """The choices of a component, given those of components further out. None of its choices is a dead end."""

    choices: tuple[HeldChoice, ...] = ()
    count: int = 1
    """Number of placements from here on inwards."""

    def levels(self) -> list[list[PlacementNode]]:
        """The nodes of each component, and at last the end."""
        levels = [[self]]
        while levels[-1][0].choices:
            levels.append(list(dict.fromkeys(choice.after for node in levels[-1] for choice in node.choices)))
        return levels

    def ends(self, start: V, step: Callable[[V, int, HeldChoice], V]) -> set[V]:
        """All values that folding over a placement can end with.

        `step`: the value so far, a component's number and its choice → the next value.
        """
        reached: dict[PlacementNode, set[V]] = {self: {start}}
        for component in itertools.count():
            further: dict[PlacementNode, set[V]] = {}
            for node, values in reached.items():
                check()
                for choice in node.choices:
                    further.setdefault(choice.after, set()).update(step(v, component, choice) for v in values)
            if not further:
                return set().union(*reached.values())
            reached = further
        raise AssertionError

    def all_choices(self) -> Iterator[tuple[int, HeldChoice]]:
        """All choices of each component, whatever the others choose."""
        return ((i, choice) for i, level in enumerate(self.levels()) for node in level for choice in node.choices)

    def all_sets(self) -> dict[tuple[int, PlacementSets], None]:
        """All constraints that may apply, with the component that has them."""
        return {(i, choice.sets): None for i, choice in self.all_choices() if choice.sets is not None}

    def backings(self, memories: Sequence[int]) -> set[PossibleBacking]:
        """All memories that may hold some tensor outermost."""
        backings: set[PossibleBacking] = set()

        def step(held: frozenset[str], i: int, choice: HeldChoice) -> frozenset[str]:
            if i not in memories:
                return held
            backings.update(PossibleBacking(i, tensor, choice.sets) for tensor in choice.held - held)
            return held | choice.held

        self.ends(frozenset[str](), step)
        return backings

    def pairs(self, outer: int, inner: int) -> set[tuple[HeldChoice, HeldChoice]]:
        """All pairs of choices that two components can make at once."""

        def step(chosen: tuple[HeldChoice, ...], i: int, choice: HeldChoice) -> tuple[HeldChoice, ...]:
            return (*chosen, choice) if i in (outer, inner) else chosen

        no_choice: tuple[HeldChoice, ...] = ()
        return {(chosen[0], chosen[1]) for chosen in self.ends(no_choice, step)}

    def where(self, component: int, holds: frozenset[str]) -> PlacementNode | None:
        """Placements in which a component holds all of these tensors; None if there are none."""
        if component == 0:
            choices = [choice for choice in self.choices if choice.held >= holds]
        else:
            narrowed = ((choice, choice.after.where(component - 1, holds)) for choice in self.choices)
            choices = [choice._replace(after=after) for choice, after in narrowed if after is not None]
        return make_node(choices) if choices else None

    def few(self, most: int) -> PlacementNode:
        """Thin the graph to at most about this many placements.

        Each node keeps the choices that leave out the fewest tensors, alternating with those that hold the fewest.
        """
        if self.count <= most:
            return self
        widest = max(len(node.choices) for level in self.levels() for node in level)
        graphs = [self._narrowed(width) for width in range(1, widest)]
        return max((graph for graph in graphs if graph.count <= most), key=lambda graph: graph.count, default=graphs[0])

    def _narrowed(self, width: int) -> PlacementNode:
        @functools.cache
        def narrowed(node: PlacementNode) -> PlacementNode:
            if not node.choices:
                return node
            by_size = sorted(node.choices, key=lambda choice: len(choice.held))
            ends = itertools.chain.from_iterable(zip(reversed(by_size), by_size, strict=True))
            chosen = list(dict.fromkeys(ends))[:width]
            return make_node(choice._replace(after=narrowed(choice.after)) for choice in chosen)

        return narrowed(self)


def make_node(choices: Iterable[HeldChoice]) -> PlacementNode:
    listed = tuple(choices)
    return PlacementNode(listed, sum(choice.after.count for choice in listed))


def placement_graph(spec: Spec, path: Path) -> PlacementNode | None:
    """All placements of an Einsum on a compute; None if there are none."""
    nodes = path_nodes(spec.require_arch().nodes, path.compute.name)
    assert nodes is not None
    choosing = _Choosing(nodes, path, arch.beside(spec.require_arch().nodes))
    graph = choosing.node(architecture_names(spec, path.einsum), ())
    if graph is not None and graph.count > choosing.most:
        raise choosing.too_many()
    return graph


@dataclass(frozen=True)
class _Choosing:
    """The memories and Tolls of a path, and which memories stand beside which."""

    nodes: list[arch.Container]
    path: Path
    beside: Mapping[str, frozenset[str]]
    same: dict[Any, Any] = field(default_factory=dict)
    """Sets and nodes made so far: of equal ones, one is kept."""
    known: dict[object, PlacementNode | None] = field(default_factory=dict)
    """Nodes by the part of outer choices that they depend on."""

    @functools.cached_property
    def most(self) -> int:
        return MOST_HELD // len(self.path.einsum.accesses)

    def node(self, names: EinsumNames, held: HeldSets) -> PlacementNode | None:
        """Make the node of the next component, given what those further out hold."""
        i = len(held)
        if i == len(self.nodes):
            is_complete = self._held(held) >= self.path.einsum.accesses.keys()
            return self._single(((), 1), PlacementNode()) if is_complete else None
        key = i, self._seen(held)
        if key not in self.known:
            check()
            choices: list[HeldChoice] = []
            for chosen, sets in self._choices(names, held):
                if len(choices) > self.most or len(self.known) > self.most:
                    raise self.too_many()
                is_seen = isinstance(self._chooser(i), arch.Memory)
                names_after = names.choose(self.path.components[i].name, chosen) if is_seen else names
                after = self.node(names_after, (*held, chosen))
                if after is not None:
                    choices.append(HeldChoice(chosen, sets, after))
            self.known[key] = self._single(tuple(choices), make_node(choices)) if choices else None
        return self.known[key]

    def _choices(self, names: EinsumNames, held: HeldSets) -> Iterator[tuple[frozenset[str], PlacementSets | None]]:
        """The choices of the next component: its `keep` and any of its `may_keep`."""
        i = len(held)
        node = self._chooser(i)
        if node is None:
            yield frozenset(), None
            return
        above, elsewhere = self._above(i, held)
        sets = placement_sets(node, names, above)
        sets = self._single(sets, sets)
        if sets.back & above or sets.keep & elsewhere:
            return
        for extra in _subsets(sets.may_keep - elsewhere):
            chosen = sets.keep.union(extra)
            yield self._single(chosen, chosen), sets

    def _chooser(self, i: int) -> arch.Memory | arch.TollStation | None:
        node = self.nodes[i]
        if isinstance(node, (arch.Memory, arch.TollStation)) and self.path.components[i].enabled:
            return node
        return None

    def _seen(self, held: HeldSets) -> object:
        """The part of the choices so far that inner components depend on."""
        later = [i for i in range(len(held), len(self.nodes)) if self._chooser(i) is not None]
        named = (tensors for i, tensors in enumerate(held) if any(i in self._named[j] for j in later))
        return self._held(held), tuple(self._above(j, held) for j in later), tuple(named)

    @functools.cached_property
    def _named(self) -> list[frozenset[int]]:
        """Per component, the components whose names its `tensors` may mention."""
        texts = [repr(node.tensors) if (node := self._chooser(i)) else "" for i in range(len(self.nodes))]
        names = [component.name for component in self.path.components]
        return [frozenset(i for i, name in enumerate(names) if name in text) for text in texts]

    def _above(self, i: int, held: HeldSets) -> tuple[frozenset[str], frozenset[str]]:
        """Tensors held by memories above a component, and by those beside it."""
        beside = self.beside.get(self.path.components[i].name, frozenset())
        numbers = [j for j, c in enumerate(self.path.components[: len(held)]) if c.name in beside]
        above = self._held([h if j not in numbers else frozenset() for j, h in enumerate(held)])
        return above, frozenset[str]().union(*(held[j] for j in numbers if self._is_memory(j)))

    def _held(self, held: HeldSets | list[frozenset[str]]) -> frozenset[str]:
        return frozenset[str]().union(*(h for j, h in enumerate(held) if self._is_memory(j)))

    def _is_memory(self, i: int) -> bool:
        return self.path.components[i].kind == "memory"

    def too_many(self) -> SpecError:
        einsum = self.path.einsum
        return SpecError(
            f"there are more than {self.most:,} ways to hold the {len(einsum.accesses)} tensors of Einsum "
            f"{einsum.name} in the {len(self.path.memories)} memories above {self.path.compute.name}, too many to search; "
            "leave fewer to choose with keep and may_keep",
            einsum.name,
        )

    def _single(self, key: Any, entry: Any) -> Any:
        return self.same.setdefault(key, entry)


def _subsets(names: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """All subsets, the smallest first."""
    optional = sorted(names)
    return itertools.chain.from_iterable(itertools.combinations(optional, n) for n in range(len(optional) + 1))
