"""Random small specs for the mapper: one Einsum with neighbours, an architecture with constraints, for hypothesis.

`mapper_cases()` draws the target Einsum (matmuls, matrix-vector products, elementwise Einsums, convolutions with halo and
stride, products of three tensors, or any mix), neighbours that share some of its tensors, and an architecture of two or
three memories with fanouts, Tolls, Forks and constraints, each now and then, and a few more fields that change a cost. A case
prints as YAML.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter

from fusiest.base.frozen import FrozenDict
from fusiest.spec import architecture as arch
from fusiest.spec.hardware.actions import Action
from fusiest.spec.spec import Spec
from tests.drawing.costs import draw_costs
from tests.drawing.dice import Dice
from tests.drawing.targets import SIZES, SMALL_SIZES, TARGET, Sizes, Target, draw_target, draw_workload
from tests.reference.exhaustive import TooManyTrees, counted_mappers
from tests.reference.skeletons import ReferenceLimits
from tests.yaml_text import yaml_text

_MOST_DRAWS = 4


@dataclass(frozen=True)
class MapperCase:
    spec: Spec
    einsum: str = TARGET

    def __repr__(self) -> str:
        return f"MapperCase(\n{yaml_text(self.spec)})"

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        printer.text(repr(self))


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
                **self.figures("read"),
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
            **self.figures("read", "write"),
        )

    def _first_tensors(self) -> arch.Tensors:
        dice = self.dice
        if self.deep:
            keep, may_keep = dice.one_of(["~Intermediates", "~Shared", "Z"]), dice.one_of(["All", "~Shared"])
            return arch.Tensors(keep=keep, may_keep=may_keep, **self._constraints(first=True))
        keep = dice.one_of(["~Intermediates", "~Shared", "All", None, "~Intermediates", self.tensors()])
        return arch.Tensors(keep=keep, may_keep="All", **self._constraints(first=True))

    def _tensors(self) -> arch.Tensors:
        dice = self.dice
        within = "Above" if self.inside and not dice.chance(60 if self.unusual else 6) else "All"
        outer = [str(n.name) for n in self.nodes if isinstance(n, arch.Memory)]
        if self.deep:
            homeless = " & ".join(f"~{name}" for name in outer)
            keep = dice.one_of([homeless, "Nothing", f"{homeless} | Outputs", f"{homeless} & Shared"])
            may_keep = dice.one_of(["All", "Shared", "Nothing"])
            return arch.Tensors(keep=keep, may_keep=may_keep, **self._constraints(first=False))
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
        return arch.Tensors(keep=keep, may_keep=may_keep, back=back, **self._constraints(first=False))

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
            **self.figures("compute"),
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
            self.nodes.append(self.compute("Second", 10))
        self.nodes.append(self.compute("MAC", 60))
        return arch.Architecture(nodes=tuple(self.nodes))


def draw_mapper_case(
    dice: Dice, sizes: Sizes = SIZES, unusual: bool = False, deep: bool = False, beside: bool = False
) -> MapperCase:
    target = draw_target(dice, sizes)
    workload = draw_workload(dice, target, deep)
    architecture = Drawer(dice, target, unusual=unusual, deep=deep, beside=beside).architecture()
    return MapperCase(draw_costs(dice, Spec(arch=architecture, workload=workload)))


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
            counted_mappers(case.spec, case.einsum, within or ReferenceLimits())
            break
        except TooManyTrees:
            case = draw_mapper_case(dice, SMALL_SIZES, unusual, deep, beside)
    return case
