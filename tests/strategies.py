"""Random small specs with LoopTrees that are valid by construction, for hypothesis.

`cases()` draws workloads (chains, diamonds, residuals, shared inputs; matmuls, elementwise Einsums, strided convolutions,
copies), architectures (up to three memories, Tolls, fanouts anywhere) and LoopTrees (fused and not, imperfect tiles,
bypassed memories). A case prints as the YAML that reproduces it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter

from fusiest.frozen import FrozenDict
from fusiest.looptree.nodes import (
    Compute,
    LoopTree,
    Nested,
    Node,
    RankVariable,
    Sequential,
    Spatial,
    Storage,
    Temporal,
    Toll,
)
from fusiest.spec import architecture as arch
from fusiest.spec.affine import Affine, Constraint
from fusiest.spec.spec import Spec
from fusiest.spec.workload import Einsum, TensorAccess, Workload
from tests.yaml_text import yaml_text

T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    spec: Spec
    tree: LoopTree

    def __repr__(self) -> str:
        return f"Case(\n{yaml_text(self.spec, self.tree)})"

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        printer.text(repr(self))


class Dice:
    """Choices whose first or smallest option is the simplest, so that failing cases shrink to plain ones."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def one_of(self, options: Sequence[T]) -> T:
        return options[0] if len(options) == 1 else self._draw(st.sampled_from(options))

    def number(self, low: int, high: int) -> int:
        return low if low >= high else self._draw(st.integers(low, high))

    def chance(self, percent: int) -> bool:
        """True with about this probability; shrinks to False."""
        return self._draw(st.integers(0, 99)) >= 100 - percent

    def subset(self, options: Sequence[T], percent: int) -> list[T]:
        return [option for option in options if self.chance(percent)]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        return self._draw(st.permutations(options))


# ------------------------------------------------------------------------------------------------------------ workload


@dataclass
class DraftEinsum:
    name: str
    bounds: dict[str, int] = field(default_factory=dict)
    accesses: dict[str, dict[str, Affine]] = field(default_factory=dict)
    output: str = ""
    copy: bool = False
    instances: int = 1

    def full(self, tensor: str, variable: str) -> bool:
        return any(r.variables == (variable,) for r in self.accesses[tensor].values())

    def alone(self, tensor: str, variable: str) -> tuple[str, int, int] | None:
        """The rank that a variable indexes alone, with its coefficient and constant."""
        for rank, affine in self.accesses[tensor].items():
            if affine.variables == (variable,):
                return rank, affine.coefficients[variable], affine.constant
        return None


@dataclass
class DraftWorkload:
    einsums: list[DraftEinsum] = field(default_factory=list)
    sizes: dict[str, dict[str, int]] = field(default_factory=dict)
    """Tensor → rank → how many coordinates its producer writes, or its first reader reads."""
    persistent: list[str] = field(default_factory=list)

    def users(self, tensor: str) -> list[DraftEinsum]:
        return [e for e in self.einsums if tensor in e.accesses]

    @property
    def tensors(self) -> list[str]:
        return list(dict.fromkeys(t for e in self.einsums for t in e.accesses))

    @property
    def produced(self) -> set[str]:
        return {e.output for e in self.einsums}


def _affine(constant: int = 0, **coefficients: int) -> Affine:
    return Affine(FrozenDict(coefficients), constant)


def draft_workload(dice: Dice, max_einsums: int, max_points: int) -> DraftWorkload:
    workload = DraftWorkload()
    for number in range(dice.number(1, max_einsums)):
        einsum = DraftEinsum(f"E{number}")
        _first_input(dice, workload, einsum, number, max_points)
        if dice.chance(8) and all(r.coefficients[r.variables[0]] == 1 and r.constant == 0 and len(r.variables) == 1
                                  for r in einsum.accesses[next(iter(einsum.accesses))].values()):  # fmt: skip
            einsum.copy = True
        elif dice.chance(75):
            _second_input(dice, workload, einsum, number, max_points)
        _output(dice, workload, einsum, number)
        einsum.instances = dice.number(2, 3) if dice.chance(10) else 1
        workload.einsums.append(einsum)
    workload.persistent = [t for t in workload.tensors if t not in workload.produced and dice.chance(10)]
    return workload


def _variable(dice: Dice, einsum: DraftEinsum, name: str, number: int, bound: int) -> str:
    """A new rank variable, sometimes with a name of the Einsum's own so that fused loops need {Einsum: name}."""
    if name in einsum.bounds or dice.chance(25):
        name = f"{name}_{number}"
    while name in einsum.bounds:
        name += "x"
    einsum.bounds[name] = bound
    return name


def _room(einsum: DraftEinsum, max_points: int) -> int:
    return max(1, max_points // math.prod(einsum.bounds.values()))


def _old_tensor(dice: Dice, workload: DraftWorkload, einsum: DraftEinsum, max_points: int) -> str | None:
    """A tensor that others use, preferably the latest result: chains, diamonds, residuals, shared inputs."""
    fits = [
        t
        for t in reversed(workload.tensors)
        if t not in einsum.accesses and math.prod(workload.sizes[t].values()) <= _room(einsum, max_points)
    ]
    return dice.one_of(fits) if fits else None


def _first_input(dice: Dice, workload: DraftWorkload, einsum: DraftEinsum, number: int, max_points: int) -> None:
    tensor = _old_tensor(dice, workload, einsum, max_points) if number and not dice.chance(15) else None
    if tensor is None:
        tensor = f"A{number}"
        ranks = [f"{letter}" for letter in "mkp"[: dice.number(1, 3)]]
        sizes = {}
        for rank in ranks:
            room = max(1, max_points // 4 // math.prod(sizes.values()))
            sizes[rank.upper()] = dice.number(1, min(7, room))
        workload.sizes[tensor] = sizes
    _index(dice, workload, einsum, tensor, number, plain=45, max_points=max_points)


def _index(
    dice: Dice, workload: DraftWorkload, einsum: DraftEinsum, tensor: str, number: int, *, plain: int, max_points: int
) -> None:
    """Index a tensor: mostly a variable per rank, sometimes strided or a convolution's window."""
    projection: dict[str, Affine] = {}
    for rank, size in workload.sizes[tensor].items():
        known = [v for v, bound in einsum.bounds.items() if bound == size and v not in _used(projection)]
        if known and not dice.chance(30):
            projection[rank] = _affine(**{dice.one_of(known): 1})
        elif size >= 3 and not dice.chance(plain):
            projection[rank] = _window(dice, einsum, size, number, max_points)
        else:
            bound = min(size, _room(einsum, max_points))
            projection[rank] = _affine(**{_variable(dice, einsum, rank.lower(), number, bound): 1})
    einsum.accesses[tensor] = projection


def _used(projection: dict[str, Affine]) -> set[str]:
    return {v for r in projection.values() for v in r.variables}


def _window(dice: Dice, einsum: DraftEinsum, size: int, number: int, max_points: int) -> Affine:
    stride = dice.number(1, 3)
    dilation = 1 if not dice.chance(15) else 2
    kernel = dice.number(1, 3)
    outputs = max(1, (size - 1 - dilation * (kernel - 1)) // stride + 1)
    if dice.chance(15):
        outputs += 1  # padding: the window reaches past the tensor
    outputs = min(outputs, _room(einsum, max_points))
    p = _variable(dice, einsum, "q", number, outputs)
    if kernel == 1 and not dice.chance(50):
        return _affine(**{p: -1, "constant": size - 1}) if dice.chance(10) else _affine(**{p: stride})
    r = _variable(dice, einsum, "r", number, min(kernel, _room(einsum, max_points)))
    return _affine(-1 if dice.chance(15) else 0, **{p: stride, r: dilation})


def _second_input(dice: Dice, workload: DraftWorkload, einsum: DraftEinsum, number: int, max_points: int) -> None:
    tensor = _old_tensor(dice, workload, einsum, max_points) if workload.einsums and dice.chance(30) else None
    if tensor is not None:
        _index(dice, workload, einsum, tensor, number, plain=85, max_points=max_points)
        return
    tensor = f"W{number}"
    variables = dice.subset(list(einsum.bounds), 60)
    if not variables or dice.chance(60):
        bound = dice.number(1, min(6, _room(einsum, max_points)))
        variables.append(_variable(dice, einsum, "n", number, bound))
    einsum.accesses[tensor] = {v.upper(): _affine(**{v: 1}) for v in variables}
    workload.sizes[tensor] = {v.upper(): einsum.bounds[v] for v in variables}


def _output(dice: Dice, workload: DraftWorkload, einsum: DraftEinsum, number: int) -> None:
    tensor = f"Z{number}"
    variables = list(einsum.bounds)
    if not einsum.copy:
        kept = dice.subset(variables, 65) or variables[:1]
        variables = dice.shuffled(kept) if dice.chance(20) else kept
    stride = {v: 2 if dice.chance(3) and not einsum.copy else 1 for v in variables}
    einsum.accesses[tensor] = {f"{v.upper()}": _affine(**{v: stride[v]}) for v in variables}
    workload.sizes[tensor] = {f"{v.upper()}": stride[v] * (einsum.bounds[v] - 1) + 1 for v in variables}
    einsum.output = tensor


def _workload(dice: Dice, draft: DraftWorkload) -> Workload:
    einsums = [
        Einsum(
            name=e.name,
            tensor_accesses=tuple(
                TensorAccess(name=t, projection=FrozenDict(p), output=t == e.output) for t, p in e.accesses.items()
            ),
            iteration_space_shape=tuple(Constraint(f"0 <= {v} < {bound}") for v, bound in e.bounds.items()),
            n_instances=e.instances,
            is_copy_operation=e.copy,
        )
        for e in draft.einsums
    ]
    copied = {t for e in draft.einsums if e.copy for t in e.accesses}
    bits: dict[str, arch.Value] = {}
    for t in draft.tensors:
        if t not in copied and dice.chance(20):
            bits[t] = dice.one_of([4, 16])
    return Workload(
        einsums=tuple(einsums),
        bits_per_value=FrozenDict({**bits, "Other": 8}),
        persistent_tensors=" | ".join(draft.persistent) or "Nothing",
        n_instances=2 if dice.chance(10) else 1,
    )


# -------------------------------------------------------------------------------------------------------- architecture


@dataclass(frozen=True)
class Place:
    """A node of the architecture that the LoopTree can refer to."""

    name: str
    kind: str
    dimensions: tuple[arch.Dimension, ...] = ()


def _dimensions(dice: Dice, percent: int, draft: DraftWorkload) -> tuple[arch.Dimension, ...]:
    count = 0 if not dice.chance(percent) else dice.number(1, 2)
    sets = [None, "Nothing", "Inputs", "Outputs", "All", *draft.tensors]
    return tuple(
        arch.Dimension(name="XY"[i], fanout=dice.number(2, 4), may_reuse=dice.one_of(sets) if dice.chance(50) else None)
        for i in range(count)
    )


def _figures(dice: Dice, draft: DraftWorkload, actions: tuple[str, ...]) -> dict[str, object]:
    """What may differ between components without changing what is moved."""
    figures: dict[str, object] = {"component_class": "Dummy"}
    if dice.chance(15):
        figures["bits_per_value"] = FrozenDict({dice.one_of(draft.tensors): 12})
    if dice.chance(15):
        figures["values_per_action"] = FrozenDict({dice.one_of(draft.tensors): 4})
    if dice.chance(15):
        figures["bits_per_action"] = 16
    if dice.chance(10):
        figures["actions_scale"] = 1.5
    if dice.chance(10):
        figures["actions"] = (arch.Action(name=actions[0], values_per_action=2, actions_scale=2),)
    return figures


def _architecture(dice: Dice, draft: DraftWorkload) -> arch.Architecture:
    nodes: list[arch.ArchitectureNode] = []
    tolls = 0

    def toll() -> None:
        nonlocal tolls
        if dice.chance(12):
            ways = ["up_and_down", "down", "up"]
            one = dice.one_of(ways)
            mixed = FrozenDict({dice.one_of(draft.tensors): dice.one_of(ways), "Other": one})
            figures = _figures(dice, draft, ("read",))
            dimensions = _dimensions(dice, 25, draft)
            direction = mixed if dice.chance(30) else one
            nodes.append(arch.Toll(name=f"Toll{tolls}", direction=direction, spatial=dimensions, **figures))  # type: ignore[arg-type]
            tolls += 1

    def memory(name: str, percent: int) -> None:
        figures = _figures(dice, draft, ("read", "write"))
        skip = not dice.chance(12)
        fanout = _dimensions(dice, percent, draft)
        size = math.inf if percent == 0 else 1e9
        nodes.append(arch.Memory(name=name, size=size, spatial=fanout, skip_initial_output_write=skip, **figures))  # type: ignore[arg-type]

    memory("DRAM", 0)
    toll()
    if dice.chance(85):
        memory("GLB", 20)
        toll()
    if dice.chance(35):
        nodes.append(arch.Container(name="PE", spatial=_dimensions(dice, 100, draft)))
    if dice.chance(50):
        memory("Reg", 30)
        toll()
    if dice.chance(10):
        nodes.append(arch.Compute(name="Other", component_class="Dummy"))
    skip = not dice.chance(12)
    nodes.append(
        arch.Compute(
            name="MAC", component_class="Dummy", spatial=_dimensions(dice, 30, draft), skip_initial_output_write=skip
        )
    )
    return arch.Architecture(nodes=tuple(nodes))


# ------------------------------------------------------------------------------------------------------------ LoopTree


@dataclass
class DraftLoop:
    variables: dict[str, str]
    """Einsum → rank variable."""
    tile: int
    dimension: tuple[str, str] | None = None
    by_name: bool = False

    def freeze(self) -> Node:
        names = set(self.variables.values())
        variable: RankVariable = FrozenDict(self.variables) if self.by_name or len(names) > 1 else next(iter(names))
        if self.dimension is None:
            return Temporal(rank_variable=variable, tile_shape=self.tile)
        return Spatial(
            rank_variable=variable, tile_shape=self.tile, component=self.dimension[0], name=self.dimension[1]
        )


@dataclass
class DraftHolder:
    tensors: list[str]
    component: str
    toll: bool = False
    persistent: bool = False

    def freeze(self) -> Node:
        if self.toll:
            return Toll(tensors=tuple(self.tensors), component=self.component)
        return Storage(tensors=tuple(self.tensors), component=self.component, persistent=self.persistent)


@dataclass
class DraftSplit:
    branches: list[list[DraftNode]]


@dataclass
class DraftCompute:
    einsum: str


DraftNode = DraftLoop | DraftHolder | DraftSplit | DraftCompute


def _freeze(nodes: list[DraftNode]) -> tuple[Node, ...]:
    frozen: list[Node] = []
    for node in nodes:
        if isinstance(node, DraftSplit):
            frozen.append(Sequential(nodes=tuple(Nested(nodes=_freeze(branch)) for branch in node.branches)))
        elif isinstance(node, DraftCompute):
            frozen.append(Compute(einsum=node.einsum, component="MAC"))
        else:
            frozen.append(node.freeze())
    return tuple(frozen)


@dataclass
class Progress:
    """What stands above the point of the tree that is being drawn."""

    extents: dict[tuple[str, str], int]
    held: dict[str, list[str]]
    """Tensor → components that hold it already, outermost first."""
    used: dict[tuple[str, str], int]
    """Fanout dimension → instances in use."""

    def copy(self) -> Progress:
        return Progress(dict(self.extents), {t: list(h) for t, h in self.held.items()}, dict(self.used))


class TreeDrawer:
    """Draws a LoopTree from the root down."""

    def __init__(self, dice: Dice, draft: DraftWorkload, architecture: arch.Architecture, imperfect: bool) -> None:
        self.dice, self.draft, self.imperfect = dice, draft, imperfect
        nodes = [n for n in architecture.nodes if not isinstance(n, arch.Fork)]
        self.order = {str(n.name): i for i, n in enumerate(nodes)}
        self.memories = [str(n.name) for n in nodes if isinstance(n, arch.Memory)]
        self.tolls = [str(n.name) for n in nodes if isinstance(n, arch.Toll)]
        self.fanout = {(str(n.name), str(d.name)): int(d.fanout) for n in nodes for d in n.spatial}
        self.backing: dict[str, str] = {}
        self.wanted: dict[str, list[str]] = {}

    def tree(self) -> LoopTree:
        dice = self.dice
        order = self._einsum_order()
        for tensor in self.draft.tensors:
            self.backing[tensor] = dice.one_of(self.memories) if dice.chance(45) else self.memories[0]
        self._copies_agree()
        progress = Progress({(e.name, v): b for e in order for v, b in e.bounds.items()}, {}, {})
        nodes: list[DraftNode] = []
        at_root = [t for t in self.draft.tensors if self._backed_at_root(t)]
        for tensor in dice.shuffled(at_root) if dice.chance(30) else at_root:
            nodes.append(DraftHolder([tensor], self.backing[tensor], persistent=tensor in self.draft.persistent))
            progress.held[tensor] = [self.backing[tensor]]
        nodes += self._block(order, progress)
        self._make_valid(nodes, order)
        return LoopTree(nodes=_freeze(self._merged(nodes)))

    def _einsum_order(self) -> list[DraftEinsum]:
        """The listed order, or another that respects dependencies."""
        left, order = list(self.draft.einsums), list[DraftEinsum]()
        another = self.dice.chance(25)
        while left:
            waiting = {e.output for e in left}
            ready = [e for e in left if not any(t in waiting and t != e.output for t in e.accesses)]
            order.append(self.dice.one_of(ready) if another else ready[0])
            left.remove(order[-1])
        return order

    def _copies_agree(self) -> None:
        """Copies in one memory lie under the same loops: here, above all."""
        self.pinned = {
            t
            for e in self.draft.einsums
            if e.copy and len({self.backing[t] for t in e.accesses}) == 1
            for t in e.accesses
        }

    def _backed_at_root(self, tensor: str) -> bool:
        if tensor in self.draft.persistent or tensor in self.pinned:
            return True
        return self.dice.chance(80 if self.backing[tensor] == self.memories[0] else 20)

    # -- blocks of Einsums under shared loops

    def _block(self, group: list[DraftEinsum], progress: Progress) -> list[DraftNode]:
        if len(group) == 1:
            return self._leaf(group[0], progress)
        nodes: list[DraftNode] = []
        inside = [t for t in self.draft.tensors if self._exchanged(t, group)]
        for loop in self._shared_loops(group, inside, progress):
            nodes += self._upper_holders(group, inside, progress)
            nodes.append(loop)
            self._enter(loop, progress)
            nodes += self._back(group, inside, progress, percent=25)
        parts = self._parts(group)
        across = [t for t in inside if sum(any(t in e.accesses for e in part) for part in parts) > 1]
        nodes += self._back(group, across, progress, percent=100)
        nodes += self._lower_holders(group, parts, progress)
        nodes.append(DraftSplit([self._block(part, progress.copy()) for part in parts]))
        return nodes

    def _exchanged(self, tensor: str, group: list[DraftEinsum]) -> bool:
        return sum(tensor in e.accesses for e in group) > 1

    def _parts(self, group: list[DraftEinsum]) -> list[list[DraftEinsum]]:
        parts = [[group[0]]]
        for einsum in group[1:]:
            if self.dice.chance(70):
                parts.append([einsum])
            else:
                parts[-1].append(einsum)
        return parts if len(parts) > 1 else [group[:1], group[1:]]

    def _shared_loops(self, group: list[DraftEinsum], inside: list[str], progress: Progress) -> list[DraftLoop]:
        loops: list[DraftLoop] = []
        extents = dict(progress.extents)
        for _ in range(3):
            candidates = [c for c in self._classes(group) if self._may_share(c, group, inside, extents, progress)]
            if not candidates or not self.dice.chance(75):
                break
            variables = self.dice.one_of(candidates)
            extent = extents[next(iter(variables.items()))]
            loop = DraftLoop(variables, self._tile(extent), by_name=self.dice.chance(20))
            self._maybe_spatial(loop, extent, progress)
            extents.update(dict.fromkeys(variables.items(), loop.tile))
            loops.append(loop)
        return loops

    def _classes(self, group: list[DraftEinsum]) -> list[dict[str, str]]:
        """Ways to name one variable per Einsum so that they step the same rank of what the Einsums exchange."""
        found = []
        for start in group[0].bounds:
            variables = {group[0].name: start}
            for einsum in group[1:]:
                linked = self._linked(einsum, variables, group)
                if linked is None:
                    break
                variables[einsum.name] = linked
            else:
                found.append(variables)
        return found

    def _linked(self, einsum: DraftEinsum, variables: dict[str, str], group: list[DraftEinsum]) -> str | None:
        """The variable that indexes a tensor of an earlier Einsum just as that Einsum's does."""
        for other in group:
            if other.name not in variables:
                continue
            for tensor in einsum.accesses:
                index = other.alone(tensor, variables[other.name]) if tensor in other.accesses else None
                for variable in einsum.bounds if index is not None else ():
                    if einsum.alone(tensor, variable) == index:
                        return variable
        return None

    def _may_share(
        self,
        variables: dict[str, str],
        group: list[DraftEinsum],
        inside: list[str],
        extents: dict[tuple[str, str], int],
        progress: Progress,
    ) -> bool:
        if len({extents[item] for item in variables.items()}) > 1:
            return False
        for tensor in self.draft.tensors:
            here = [e for e in group if tensor in e.accesses]
            # Tensors not backed yet must be indexed fully; so must intermediates, or they would be used half-done.
            if here and (tensor not in progress.held or (tensor in inside and tensor in self.draft.produced)):
                indices = {e.alone(tensor, variables[e.name]) for e in here}
                if None in indices or len(indices) > 1:
                    return False
        return True

    def _enter(self, loop: DraftLoop, progress: Progress) -> None:
        progress.extents.update(dict.fromkeys(loop.variables.items(), loop.tile))

    def _back(self, group: list[DraftEinsum], tensors: list[str], progress: Progress, percent: int) -> list[DraftNode]:
        nodes: list[DraftNode] = []
        for tensor in tensors:
            outside = any(e not in group for e in self.draft.users(tensor))
            if tensor not in progress.held and not outside and (percent == 100 or self.dice.chance(percent)):
                progress.held[tensor] = [self.backing[tensor]]
                nodes.append(DraftHolder([tensor], self.backing[tensor]))
        return nodes

    def _upper_holders(self, group: list[DraftEinsum], inside: list[str], progress: Progress) -> list[DraftNode]:
        """Holders above a shared loop; not of intermediates, which are exchanged where they are backed."""
        tensors = [t for e in group for t in e.accesses if t not in inside or t not in self.draft.produced]
        return self._some_holders(list(dict.fromkeys(tensors)), progress, 30)

    def _lower_holders(
        self, group: list[DraftEinsum], parts: list[list[DraftEinsum]], progress: Progress
    ) -> list[DraftNode]:
        tensors = [t for e in group for t in e.accesses if not any(self._exchanged(t, part) for part in parts)]
        return self._some_holders(list(dict.fromkeys(tensors)), progress, 20)

    def _some_holders(self, tensors: list[str], progress: Progress, percent: int) -> list[DraftNode]:
        nodes: list[DraftNode] = []
        for tensor in tensors:
            below = self._below(tensor, progress)
            if below and self.dice.chance(percent):
                nodes.append(self._hold(tensor, self.dice.one_of(below), progress))
        return nodes

    def _below(self, tensor: str, progress: Progress) -> list[str]:
        """Components that may hold a backed tensor further in than it is held already."""
        if not progress.held.get(tensor):
            return []
        last = self.order[progress.held[tensor][-1]]
        return [name for name in [*self.memories, *self.tolls] if self.order[name] > last]

    def _hold(self, tensor: str, component: str, progress: Progress) -> DraftHolder:
        progress.held.setdefault(tensor, []).append(component)
        return DraftHolder([tensor], component, toll=component in self.tolls)

    # -- one Einsum

    def _leaf(self, einsum: DraftEinsum, progress: Progress) -> list[DraftNode]:
        """Loops and holders in random order, each tensor backed before any loop that does not index it fully."""
        dice = self.dice
        nodes: list[DraftNode] = []
        holders = self._leaf_holders(einsum, progress)
        loops = self._leaf_loops(einsum, progress)
        while loops or any(holders.values()):
            waiting = [t for t, components in holders.items() if components]
            if waiting and (not loops or dice.chance(50)):
                tensor = dice.one_of(waiting)
                nodes.append(self._hold(tensor, holders[tensor].pop(0), progress))
                continue
            options = [v for v in loops if loops[v]]
            variable = dice.one_of(options)
            for tensor in einsum.accesses:
                if tensor not in progress.held and not einsum.full(tensor, variable):
                    nodes.append(self._hold(tensor, holders[tensor].pop(0), progress))
            nodes.append(loops[variable].pop(0))
            loops = {v: left for v, left in loops.items() if left}
        nodes.append(DraftCompute(einsum.name))
        return nodes

    def _leaf_holders(self, einsum: DraftEinsum, progress: Progress) -> dict[str, list[str]]:
        holders: dict[str, list[str]] = {}
        for tensor in einsum.accesses:
            chosen = [] if tensor in progress.held else [self.backing[tensor]]
            last = self.order[(chosen or progress.held[tensor])[-1]]
            places = sorted([*self.memories, *self.tolls], key=self.order.__getitem__)
            chosen += [p for p in places if self.order[p] > last and self.dice.chance(60)]
            holders[tensor] = chosen
        return holders

    def _leaf_loops(self, einsum: DraftEinsum, progress: Progress) -> dict[str, list[DraftNode]]:
        loops: dict[str, list[DraftNode]] = {}
        for variable in einsum.bounds:
            chain: list[DraftNode] = []
            extent = progress.extents[einsum.name, variable]
            while extent > 1 or (not chain and self.dice.chance(10)):
                tile = 1 if len(chain) >= 3 or not self.dice.chance(50) else self._tile(extent)
                loop = DraftLoop({einsum.name: variable}, tile, by_name=self.dice.chance(3))
                self._maybe_spatial(loop, extent, progress)
                chain.append(loop)
                extent = loop.tile
            if chain:
                loops[variable] = chain
        order = self.dice.shuffled(list(loops))
        return {v: loops[v] for v in order}

    # -- loops

    def _tile(self, extent: int) -> int:
        if self.imperfect:
            return self.dice.number(1, extent)
        return self.dice.one_of([tile for tile in range(1, extent + 1) if extent % tile == 0])

    def _maybe_spatial(self, loop: DraftLoop, extent: int, progress: Progress) -> None:
        count = -(-extent // loop.tile)
        free = [d for d, fanout in self.fanout.items() if progress.used.get(d, 1) * count <= fanout]
        if free and self.dice.chance(45):
            loop.dimension = self.dice.one_of(free)
            progress.used[loop.dimension] = progress.used.get(loop.dimension, 1) * count

    # -- what cannot be seen on the way down

    def _make_valid(self, nodes: list[DraftNode], order: list[DraftEinsum]) -> None:
        """Turn Spatial loops that some tensor's nest would put out of order into Temporal ones."""
        paths = _draft_paths(nodes, [])
        while any(self._repair(path, einsum) for path, einsum in zip(paths, order, strict=True)):
            pass

    def _repair(self, path: list[DraftNode], einsum: DraftEinsum) -> bool:
        loops = [n for n in path if isinstance(n, DraftLoop)]
        for tensor, access in einsum.accesses.items():
            indexed = {v for rank in access.values() for v in rank.variables}
            gaps, written = self._gaps(path, tensor), self._gaps(path, tensor, as_written=True)
            for i, one in enumerate(loops):
                v = one.variables[einsum.name]
                replicated = one.dimension is not None and gaps[i] == 0
                common = all(user.name in one.variables for user in self.draft.users(tensor))
                if replicated and (tensor in self.draft.persistent or not common or not einsum.full(tensor, v)):
                    one.dimension = None  # above the backing holder: would recompute, or miss what others left there
                    return True
                for j in range(i + 1, len(loops)):
                    other = loops[j]
                    same = v == other.variables[einsum.name] and v in indexed
                    spatial = [loop for loop in (one, other) if loop.dimension is not None]
                    if gaps[i] > gaps[j] and spatial and (same or len(spatial) == 2):
                        spatial[-1].dimension = None
                        return True
                    if same and one.dimension is not None and gaps[i] == gaps[j] > written[i]:
                        one.dimension = None  # moved past a holder to just above the next: past the other loop, too
                        return True
        return False

    def _gaps(self, path: list[DraftNode], tensor: str, as_written: bool = False) -> list[int]:
        """For each loop of a path, how many of the tensor's holders stand above it in the tensor's nest."""
        holders = [n for n in path if isinstance(n, DraftHolder) and tensor in n.tensors]
        gaps, above = [], 0
        for node in path:
            if isinstance(node, DraftHolder) and tensor in node.tensors:
                above += 1
            elif isinstance(node, DraftLoop) and (node.dimension is None or as_written):
                gaps.append(above)
            elif isinstance(node, DraftLoop) and node.dimension is not None:
                component = self.order[node.dimension[0]]
                gaps.append(sum(self.order[h.component] < component for h in holders))
        return gaps

    def _merged(self, nodes: list[DraftNode]) -> list[DraftNode]:
        """Sometimes write neighbouring holders of one component as one."""
        merged: list[DraftNode] = []
        for node in nodes:
            last = merged[-1] if merged else None
            if isinstance(node, DraftSplit):
                node = DraftSplit([self._merged(branch) for branch in node.branches])
            if (
                isinstance(node, DraftHolder)
                and isinstance(last, DraftHolder)
                and (node.component, node.persistent) == (last.component, last.persistent)
                and not set(node.tensors) & set(last.tensors)
                and self.dice.chance(50)
            ):
                last.tensors += node.tensors
            else:
                merged.append(node)
        return merged


def _draft_paths(nodes: list[DraftNode], above: list[DraftNode]) -> list[list[DraftNode]]:
    for i, node in enumerate(nodes):
        if isinstance(node, DraftSplit):
            return [path for branch in node.branches for path in _draft_paths(branch, [*above, *nodes[:i]])]
    return [[*above, *nodes]]


@st.composite
def cases(draw: st.DrawFn, max_einsums: int = 4, max_points: int = 240) -> Case:
    """A spec and a valid LoopTree of at most `max_points` iterations per Einsum."""
    dice = Dice(draw)
    draft = draft_workload(dice, max_einsums, max_points)
    architecture = _architecture(dice, draft)
    spec = Spec(arch=architecture, workload=_workload(dice, draft))
    tree = TreeDrawer(dice, draft, architecture, imperfect=dice.chance(40)).tree()
    return Case(spec, tree)
