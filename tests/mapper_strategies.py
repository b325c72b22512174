"""Random small specs for the mapper: one Einsum with neighbours, an architecture with constraints, for hypothesis.

`mapper_cases()` draws the target Einsum (matmuls, matrix-vector products, elementwise Einsums, convolutions with halo and
stride, products of three tensors, or any mix), neighbours that share some of its tensors, and an architecture of two or
three memories with fanouts, Tolls, Forks and constraints, each now and then. A case prints as YAML.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter

from fusiest.frozen import FrozenDict
from fusiest.reference.exhaustive import TooManyTrees, count_trees
from fusiest.reference.skeletons import ReferenceLimits
from fusiest.spec import architecture as arch
from fusiest.spec.actions import Action
from fusiest.spec.affine import Affine
from fusiest.spec.spec import Spec
from fusiest.spec.workload import Einsum, TensorAccess, Workload
from tests.drawing.dice import Dice
from tests.drawing.indices import Twists
from tests.yaml_text import yaml_text

TARGET = "E1"


@dataclass(frozen=True)
class MapperCase:
    spec: Spec
    einsum: str = TARGET

    def __repr__(self) -> str:
        return f"MapperCase(\n{yaml_text(self.spec)})"

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        printer.text(repr(self))


# ------------------------------------------------------------------------------------------------------------ workload

Ranks = dict[str, dict[str, int]]
"""Rank → coefficient per rank variable."""


@dataclass
class Target:
    bounds: dict[str, int]
    accesses: dict[str, Ranks]
    output: str = "Z"
    shared: list[str] = field(default_factory=list)

    def size(self, tensor: str, rank: str) -> int:
        return 1 + sum(a * (self.bounds[v] - 1) for v, a in self.accesses[tensor][rank].items())

    def elements(self, tensor: str) -> int:
        return math.prod(self.size(tensor, rank) for rank in self.accesses[tensor])


SHAPES: list[dict[str, str]] = [
    {"A": "m", "Z": "m"},
    {"A": "mn", "Z": "mn"},
    {"A": "mk", "B": "k", "Z": "m"},
    {"A": "mk", "B": "kn", "Z": "mn"},
    {"A": "mn", "B": "n", "Z": "mn"},
    {"A": "mk", "Z": "m"},
    {"A": "mk", "B": "kn", "C": "n", "Z": "mn"},
    {"A": "m", "B": "k", "C": "mk", "Z": "m"},
    {"A": "bmk", "B": "bk", "Z": "bm"},
    {"A": "bmk", "B": "bkn", "Z": "bmn"},
    {"A": "mkj", "B": "kj", "Z": "m"},
]
CONVOLUTIONS: list[dict[str, str]] = [
    {"A": "W", "B": "r", "Z": "p"},
    {"A": "Wc", "B": "rc", "Z": "p"},
    {"A": "W", "B": "rk", "Z": "pk"},
    {"A": "W", "Z": "p"},
    {"A": "Wp", "B": "r", "Z": "p"},
]


def _target(dice: Dice, sizes: Sizes) -> Target:
    kind = dice.number(0, 9)
    if kind <= 5:
        letters = dice.one_of(SHAPES)
    elif kind <= 8:
        letters = dice.one_of(CONVOLUTIONS[:4])
    else:
        variables = "mnk"[: dice.number(1, 3)]
        letters = {t: "".join(dice.subset(variables, 60)) or variables[0] for t in "ABC"[: dice.number(1, 3)]}
        letters["Z"] = "".join(dice.subset(variables, 60)) or variables[0]
        missing = [v for v in variables if not any(v in own for own in letters.values())]
        letters["A"] += "".join(missing)
    accesses: dict[str, Ranks] = {}
    window = {"p": dice.one_of([1, 1, 2, 3]), "r": 1 if not dice.chance(15) else 2}
    for tensor, own in letters.items():
        accesses[tensor] = {v.upper() if v != "W" else "W": dict(window) if v == "W" else {v: 1} for v in own}
    if dice.chance(3):
        rank = dice.one_of(list(accesses["Z"]))
        accesses["Z"][rank] = dict.fromkeys(accesses["Z"][rank], 2)
    used = sorted({v for ranks in accesses.values() for terms in ranks.values() for v in terms})
    return Target(_bounds(dice, used, sizes), accesses)


Sizes = Mapping[int, list[int]]
SIZES: Sizes = {1: [2, 3, 4, 6, 8, 1], 2: [2, 3, 4, 6, 8, 1], 3: [2, 3, 2, 4, 6, 1], 4: [2, 3, 2, 2, 1]}
"""Bounds of rank variables, by how many variables there are."""
SMALL_SIZES: Sizes = {1: [2, 4, 3], 2: [2, 3, 2, 1], 3: [2, 1, 2], 4: [2, 1, 1]}
"""Where others are too much to try everything."""
ODD_SIZES: Sizes = {1: [5, 7, 3, 11], 2: [5, 3, 7, 2, 1], 3: [3, 5, 2, 1], 4: [3, 2, 2, 1]}
"""Bounds that few tiles divide."""
_MOST_DRAWS = 4


def _bounds(dice: Dice, variables: list[str], sizes: Sizes) -> dict[str, int]:
    bounds: dict[str, int] = {}
    for v in variables:
        bounds[v] = dice.one_of([b for b in sizes[len(variables)] if v != "r" or b < 6])
    return bounds


def _einsum(name: str, bounds: dict[str, int], accesses: dict[str, Ranks], output: str, twists: Twists) -> Einsum:
    shape = twists.constraints(bounds)

    def index(tensor: str, number: int, terms: dict[str, int]) -> Affine:
        size = 1 + sum(a * (bounds[v] - 1) for v, a in terms.items())
        return twists.index(tensor, number, terms, size, strides=tensor != output)

    return Einsum(
        name=name,
        tensor_accesses=tuple(
            TensorAccess(
                name=t,
                projection=FrozenDict({rank: index(t, i, terms) for i, (rank, terms) in enumerate(ranks.items())}),
                output=t == output,
            )
            for t, ranks in accesses.items()
        ),
        iteration_space_shape=shape,
    )


def _neighbour(name: str, target: Target, tensor: str, writes: bool, twists: Twists) -> Einsum:
    """An Einsum that writes or reads one of the target's tensors, element by element."""
    ranks: Ranks = {rank: {rank.lower(): 1} for rank in target.accesses[tensor]}
    bounds = {rank.lower(): target.size(tensor, rank) for rank in ranks}
    other = f"{'X' if writes else 'Y'}{tensor}"
    return _einsum(name, bounds, {tensor: ranks, other: dict(ranks)}, tensor if writes else other, twists)


def _workload(dice: Dice, target: Target, deep: bool) -> Workload:
    einsums = []
    twists = Twists(dice)
    for tensor in target.accesses:
        if dice.chance(75 if deep else 45):
            target.shared.append(tensor)
    for i, tensor in enumerate(target.shared):
        if tensor != target.output:
            einsums.append(_neighbour(f"P{i}", target, tensor, dice.chance(70), twists))
    one = _einsum(TARGET, target.bounds, target.accesses, target.output, twists)
    einsums.append(replace(one, n_instances=2 if dice.chance(10) else 1))
    if target.output in target.shared:
        einsums.append(_neighbour("C", target, target.output, False, twists))
    produced = {str(a.name) for e in einsums for a in e.tensor_accesses if a.output}
    persistent = [t for t in target.accesses if t not in produced and dice.chance(6)]
    bits: dict[str, arch.Value] = {t: dice.one_of([4, 16]) for t in target.accesses if dice.chance(15)}
    return Workload(
        einsums=tuple(einsums),
        bits_per_value=FrozenDict({**bits, "Other": 8}),
        persistent_tensors=" | ".join(persistent) or "Nothing",
    )


# -------------------------------------------------------------------------------------------------------- architecture


@dataclass
class Drawer:
    """Draws the architecture from the outermost node in."""

    dice: Dice
    target: Target
    fanouts: int = 0
    inside: bool = False
    tolls: int = 0
    unusual: bool = False
    """Often what only the general search does: memories out of order, tensors backed below a fanout."""
    deep: bool = False
    """Often tensors that Einsums exchange below a fanout, memories in order."""
    beside: bool = False
    """Often memories beside each other."""
    nodes: list[arch.ArchitectureNode] = field(default_factory=list)

    def tensors(self, empty: bool = True) -> str:
        """A set of tensors."""
        sets = ["All", "Inputs", "Outputs", "Shared", "Intermediates", "~Shared", *self.target.accesses]
        if empty:
            sets.append("Nothing")
        one = self.dice.one_of(sets)
        return f"{one} | {self.dice.one_of(sets)}" if self.dice.chance(20) else one

    def variables(self) -> list[str]:
        """Sets of rank variables; single ones only where no other Einsum would not know them."""
        names = [] if self.target.shared else list(self.target.bounds)
        return ["All", *(f"{t}.rank_variables" for t in self.target.accesses), *names]

    def dimensions(self, percent: int) -> tuple[arch.Dimension, ...]:
        if not self.fanouts or not self.dice.chance(min(100, 2 * percent) if self.deep else percent):
            return ()
        self.fanouts -= 1
        self.inside = True
        count = 2 if self.dice.chance(25) else 1
        return tuple(self._dimension(name) for name in "XY"[:count])

    def _dimension(self, name: str) -> arch.Dimension:
        dice = self.dice
        bounds = []
        if dice.chance(15):
            expression = dice.one_of(self.variables())
            operator = dice.one_of(["<=", "==", "product<=", "product==", ">=", "<"])
            bounds.append(
                arch.WrittenComparison(expression=expression, operator=operator, value=dice.one_of([1, 2, 3]))
            )
        return arch.Dimension(
            name=name,
            fanout=dice.number(2, 4),
            may_reuse=self.tensors() if dice.chance(30) else None,
            reuse=self.tensors() if dice.chance(20) else None,
            loop_bounds=tuple(bounds),
            min_usage=dice.one_of([1, 0.5]) if dice.chance(20) else 0,
            usage_scale=dice.one_of([1.5, 0.5]) if dice.chance(10) else 1,
            power_gateable=dice.chance(25),
        )

    def figures(self, *actions: str) -> dict[str, object]:
        dice = self.dice
        figures: dict[str, object] = {"component_class": "Dummy"}
        figures["actions"] = tuple(
            Action(
                name=name,
                energy=dice.one_of([1, 0, 2, 5, 20]),
                throughput=dice.one_of([math.inf, 1, 2, 5]),
                actions_scale=2 if dice.chance(5) else 1,
            )
            for name in actions
        )
        if dice.chance(20):
            figures["leak_power"] = dice.one_of([0.25, 1, 3])
        if dice.chance(20):
            figures["total_latency"] = dice.one_of(
                ["max(a.n_calls / a.throughput for a in actions)", "sum(a.n_calls for a in actions) / 4"]
            )
        if dice.chance(10):
            figures["values_per_action"] = FrozenDict({dice.one_of(list(self.target.accesses)): 2, "Other": 1})
        if dice.chance(8):
            figures["bits_per_value"] = FrozenDict({dice.one_of(list(self.target.accesses)): 12})
        return figures

    def toll(self) -> None:
        dice = self.dice
        if not dice.chance(12):
            return
        ways = ["up_and_down", "down", "up"]
        one = dice.one_of(ways)
        mixed = FrozenDict({dice.one_of(list(self.target.accesses)): dice.one_of(ways), "Other": one})
        dimensions = self.dimensions(15)
        kept = arch.Tensors(
            keep="All" if dice.chance(30) else self.tensors(), may_keep="All" if dice.chance(25) else None
        )
        self.nodes.append(
            arch.TollStation(
                name=f"Toll{self.tolls}",
                spatial=dimensions,
                direction=mixed if dice.chance(30) else one,
                tensors=kept,
                **self.figures("read"),  # type: ignore[arg-type]
            )
        )
        self.tolls += 1

    def memory(self, name: str, first: bool = False) -> None:
        self.nodes.append(self._memory(name, () if first else self.dimensions(25), first))

    def memories(self, names: list[str]) -> None:
        """One memory, or several beside each other."""
        if self.dice.chance(50 if self.beside else 6):
            self.parallel(names[: self.dice.number(2, len(names))])
        else:
            self.memory(names[0])

    def parallel(self, names: Sequence[str]) -> None:
        """Memories beside each other. Their sets are often disjoint, as a tensor is in one of them at most."""
        memories = []
        tensors = self.dice.shuffled(list(self.target.accesses))
        within = "Above & " if self.inside else ""
        for i, name in enumerate(names):
            memory = self._memory(name, ())
            own = " | ".join(tensors[i :: len(names)]) or "Nothing"
            if not self.dice.chance(25):
                keep, may_keep = (own, "Nothing") if self.dice.chance(50) else ("Nothing", own)
                sets = replace(
                    memory.tensors, keep=f"{within}({keep})", may_keep=f"{within}({may_keep})", back="Nothing"
                )
                memory = replace(memory, tensors=sets)
            memories.append(memory)
        self.nodes.append(arch.Parallel(nodes=tuple(memories)))

    def _memory(self, name: str, dimensions: tuple[arch.Dimension, ...], first: bool = False) -> arch.Memory:
        dice = self.dice
        size: float = math.inf
        if dice.chance(20 if first else 75):
            whole = 2 * sum(self.target.elements(t) for t in self.target.accesses)
            size = 4 * dice.number(whole // 2 if first else 4, max(8, whole))
        return arch.Memory(
            name=name,
            spatial=dimensions,
            size=size,
            tensors=self._first_tensors() if first else self._tensors(),
            skip_initial_output_write=not dice.chance(15),
            enabled=not dice.chance(3) or first,
            **self.figures("read", "write"),  # type: ignore[arg-type]
        )

    def _first_tensors(self) -> arch.Tensors:
        dice = self.dice
        if self.deep:
            keep, may_keep = dice.one_of(["~Intermediates", "~Shared", "Z"]), dice.one_of(["All", "~Shared"])
            return arch.Tensors(keep=keep, may_keep=may_keep, **self._constraints(first=True))  # type: ignore[arg-type]
        keep = dice.one_of(["~Intermediates", "~Shared", "All", None, "~Intermediates", self.tensors()])
        return arch.Tensors(keep=keep, may_keep="All", **self._constraints(first=True))  # type: ignore[arg-type]

    def _tensors(self) -> arch.Tensors:
        dice = self.dice
        within = "Above" if self.inside and not dice.chance(60 if self.unusual else 6) else "All"
        outer = [str(n.name) for n in self.nodes if isinstance(n, arch.Memory)]
        if self.deep:
            homeless = " & ".join(f"~{name}" for name in outer)
            keep = dice.one_of([homeless, "Nothing", f"{homeless} | Outputs", f"{homeless} & Shared"])
            may_keep = dice.one_of(["All", "Shared", "Nothing"])
            return arch.Tensors(keep=keep, may_keep=may_keep, **self._constraints(first=False))  # type: ignore[arg-type]
        choice = dice.number(0, 3)
        if choice == 0:
            keep, may_keep = ("Nothing" if within == "Above" else f"~{outer[0]}"), within
        elif choice == 1:
            keep, may_keep = f"{within} & ({self.tensors()})", within
        elif choice == 2:
            keep, may_keep = f"{within} & ({self.tensors()})", f"{within} & ({self.tensors()})"
        else:
            keep, may_keep = (f"~{outer[0]} & {within}", f"{within} & ({self.tensors()})")
        back = self.tensors(empty=False) if dice.chance(5) and within == "All" else "Nothing"
        return arch.Tensors(keep=keep, may_keep=may_keep, back=back, **self._constraints(first=False))  # type: ignore[arg-type]

    def _constraints(self, first: bool) -> dict[str, object]:
        dice = self.dice
        found: dict[str, object] = {}
        if dice.chance(3 if first else 10):
            expression = dice.one_of(self.variables())
            operator = dice.one_of(["<=", "product<=", "==", ">="])
            comparison = arch.WrittenComparison(
                expression=expression, operator=operator, value=dice.one_of([1, 2, 3, 4])
            )
            found["tile_shape"] = (comparison,)
        if dice.chance(6):
            found["no_refetch_from_above"] = self.tensors(empty=False)
        if dice.chance(8):
            found["no_resend_to_below"] = self.tensors(empty=False)
        if dice.chance(10):
            tensors = dice.shuffled(list(self.target.accesses))
            cut = dice.number(1, len(tensors))
            options = [(" | ".join(tensors[:cut]), *tensors[cut : cut + 1])]
            if dice.chance(40):
                options.append(tuple(dice.shuffled(list(self.target.accesses))[:2]))
            found["tensor_order_options"] = tuple(options)
        if dice.chance(10):
            found["no_fused_loops"] = dice.one_of(self.variables())
        if dice.chance(40 if self.unusual else 0 if self.deep else 4) and not first:
            found["force_memory_hierarchy_order"] = False
        return found

    def container(self) -> None:
        if self.fanouts and self.dice.chance(50):
            dimensions = self.dimensions(100)
            self.nodes.append(arch.Container(name=f"Array{len(self.nodes)}", spatial=dimensions))

    def compute(self, name: str, percent: int) -> arch.ComputeUnit:
        dice = self.dice
        enabled: arch.Value = dice.one_of(["len(All) == 2", "len(All) > 2"]) if dice.chance(8) else True
        return arch.ComputeUnit(
            name=name,
            spatial=self.dimensions(percent),
            skip_initial_output_write=not dice.chance(12),
            enabled=enabled,
            **self.figures("compute"),  # type: ignore[arg-type]
        )

    def architecture(self) -> arch.Architecture:
        dice = self.dice
        self.fanouts = dice.one_of([1, 2] if self.deep else [0, 1, 1, 2])
        self.memory("DRAM", first=True)
        if self.deep:
            self.container()
        self.toll()
        self.memories(["GLB", "GLC"])
        self.toll()
        self.container()
        if dice.chance(10):
            fork = arch.Fork(
                nodes=(self.compute("Side", 0),),
                forked_power_gateable=dice.chance(40),
                non_forked_power_gateable=dice.chance(40),
            )
            self.nodes.append(fork)
        if dice.chance(80 if self.beside else 45):
            self.memories(["Reg", "RegB", "RegC"])
            self.container()
        if dice.chance(8):
            self.nodes.append(self.compute("Other", 10))
        self.nodes.append(self.compute("MAC", 60))
        return arch.Architecture(nodes=tuple(self.nodes))


def draw_mapper_case(
    dice: Dice, sizes: Sizes = SIZES, unusual: bool = False, deep: bool = False, beside: bool = False
) -> MapperCase:
    target = _target(dice, sizes)
    workload = _workload(dice, target, deep)
    architecture = Drawer(dice, target, unusual=unusual, deep=deep, beside=beside).architecture()
    return MapperCase(Spec(arch=architecture, workload=workload))


@st.composite
def mapper_cases(
    draw: st.DrawFn,
    sizes: Sizes = SIZES,
    unusual: bool = False,
    deep: bool = False,
    beside: bool = False,
    within: ReferenceLimits | None = None,
) -> MapperCase:
    """A spec without a mapping; the Einsum to map is `E1`. `within`: how many trees there may be to try, nearly always."""
    dice = Dice(draw)
    case = draw_mapper_case(dice, sizes, unusual, deep, beside)
    for _ in range(_MOST_DRAWS if within is not None else 0):
        try:
            count_trees(case.spec, case.einsum, within or ReferenceLimits())
            break
        except TooManyTrees:
            case = draw_mapper_case(dice, SMALL_SIZES, unusual, deep, beside)
    return case
