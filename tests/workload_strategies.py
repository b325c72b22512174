"""Random small workloads of 2 to 4 Einsums with an architecture on which it matters what is fused, for hypothesis.

`workload_cases()` grows a DAG Einsum by Einsum: matmuls, elementwise Einsums, reductions, convolutions with halo, copies,
residual additions and products of two intermediates, with shifted, mirrored and strided indices now and then. Each Einsum
names its rank variables as it likes, so a loop that several share has different names in them. A case prints as YAML.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter

from fusiest.base.frozen import FrozenDict
from fusiest.spec import architecture as arch
from fusiest.spec.hardware.actions import Action
from fusiest.spec.spec import Spec
from tests.drawing.bits import draw_bits
from tests.drawing.costs import draw_costs
from tests.drawing.dice import Dice
from tests.drawing.growing import KINDS, Draft, Grower, grown_workload
from tests.yaml_text import yaml_text


@dataclass(frozen=True)
class WorkloadCase:
    spec: Spec
    orders: str = "all"

    def __repr__(self) -> str:
        return f"WorkloadCase(orders={self.orders}\n{yaml_text(self.spec)})"

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        printer.text(repr(self))


# -------------------------------------------------------------------------------------------------------- architecture


def _figures(dice: Dice, energies: list[float], *actions: str) -> dict[str, object]:
    return {
        "component_class": "Dummy",
        "actions": tuple(
            Action(name=name, energy=dice.one_of(energies), throughput=dice.one_of([math.inf, 1, 2, 5]))
            for name in actions
        ),
        "leak_power": dice.one_of([0.25, 1]) if dice.chance(10) else 0,
    }


def _glb_size(dice: Dice, grower: Grower, uneven: bool) -> arch.Value:
    """Mostly too small for everything, so that what is fused decides what fits. `uneven`: not the same for all Einsums."""
    if dice.chance(10):
        return math.inf
    whole = sum(math.prod(sizes) for sizes in grower.sizes.values())
    most = max(4, whole // 2 if dice.chance(20) else whole // 4)
    size = 8 * dice.number(3, most)
    if not uneven:
        return size
    sizes = [str(size), "inf" if dice.chance(30) else str(8 * dice.number(3, most))]
    return (
        f"{sizes[0]} if len(All) == 2 else {sizes[1]}"
        if dice.chance(50)
        else f"{sizes[1]} if len(All) == 2 else {sizes[0]}"
    )


def _array(dice: Dice) -> arch.Container:
    dimension = arch.Dimension(name="X", fanout=2, may_reuse="Inputs" if dice.chance(50) else None)
    other = arch.Dimension(name="Y", fanout=2, may_reuse="All" if dice.chance(50) else None)
    return arch.Container(name="Array", spatial=(dimension, other) if dice.chance(15) else (dimension,))


def _beside(dice: Dice, grower: Grower, glb: arch.Memory) -> arch.Parallel:
    """A memory with another beside it, which takes what the first does not."""
    own = dice.one_of(["Inputs", "Outputs", "Shared", "~Shared", "All"])
    first = replace(glb, tensors=replace(glb.tensors, keep="Nothing", may_keep=own))
    second = arch.Memory(
        name="GLC",
        size=_glb_size(dice, grower, False),
        tensors=arch.Tensors(keep="~(DRAM | GLB)", may_keep=dice.one_of(["All", "Nothing", "~GLB"])),
        **_figures(dice, [1, 2, 0], "read", "write"),
    )
    return arch.Parallel(nodes=(first, second) if dice.chance(80) else (replace(first, name="GLA"), glb))


def _architecture(dice: Dice, grower: Grower, third: bool, deep: bool, uneven: bool, beside: bool) -> arch.Architecture:
    nodes: list[arch.ArchitectureNode] = []
    above = deep and dice.chance(60)
    keep = dice.one_of(["~Intermediates"] * 6 + ["~Shared", "~Shared", "All", "Nothing", "Outputs"])
    may_keep = dice.one_of(["All", "All", "All", "~Intermediates", keep])
    whole = sum(math.prod(sizes) for sizes in grower.sizes.values())
    nodes.append(
        arch.Memory(
            name="DRAM",
            size=8 * dice.number(whole // 2, whole) if dice.chance(10) else math.inf,
            tensors=arch.Tensors(keep=keep, may_keep=may_keep),
            skip_initial_output_write=not dice.chance(10),
            **_figures(dice, [20, 20, 20, 5, 1], "read", "write"),
        )
    )
    if above:
        nodes.append(_array(dice))
    keep = dice.one_of(["~DRAM", "~DRAM", "All", "~DRAM | Inputs", "~DRAM | Outputs", "~DRAM | Shared"])
    glb = arch.Memory(
        name="GLB",
        size=_glb_size(dice, grower, uneven),
        tensors=arch.Tensors(
            keep=keep,
            may_keep="All" if dice.chance(75) else None,
            no_fused_loops=f"{dice.one_of(list(grower.sizes))}.rank_variables" if dice.chance(8) else "Nothing",
        ),
        skip_initial_output_write=not dice.chance(10),
        bits_per_value=FrozenDict({dice.one_of(list(grower.sizes)): 12}) if dice.chance(5) else None,
        **_figures(dice, [1, 2, 0], "read", "write"),
    )
    nodes.append(_beside(dice, grower, glb) if beside else glb)
    if not above and dice.chance(100 if deep else 20):
        nodes.append(_array(dice))
    if deep or (third and len(nodes) == 2):
        nodes.append(
            arch.Memory(
                name="Reg",
                size=8 * dice.number(1, 6),
                tensors=arch.Tensors(keep="Nothing", may_keep=dice.one_of(["Outputs", "Inputs", "Shared", "All"])),
                **_figures(dice, [0, 0.5], "read", "write"),
            )
        )
    if dice.chance(8):
        side = arch.ComputeUnit(name="Side", enabled="len(All) == 2", **_figures(dice, [1, 3], "compute"))
        nodes.append(arch.Fork(nodes=(side,)))
    nodes.append(arch.ComputeUnit(name="MAC", **_figures(dice, [1, 0], "compute")))
    return arch.Architecture(nodes=tuple(nodes))


def draw_workload_case(
    dice: Dice,
    bounds: list[int] | None = None,
    kinds: list[str] = KINDS,
    deep: bool = False,
    uneven: bool = False,
    parts: int = 0,
    beside: bool = False,
) -> WorkloadCase:
    count = dice.one_of([2, 3, 2, 3, 4])
    third = dice.chance(12)
    grower = Grower(dice, bounds or ([2, 2, 3, 1] if count > 2 or third else [2, 3, 4, 2, 1]), kinds, parts=parts)
    for _ in range(count):
        grower.grow()
    spec = Spec(arch=_architecture(dice, grower, third, deep, uneven, beside), workload=grown_workload(dice, grower))
    return WorkloadCase(draw_costs(dice, spec), "given" if dice.chance(30) else "all")


def draw_shared_input_case(dice: Dice) -> WorkloadCase:
    """Einsums in a row that all read one input, each by other variables, where there is hardly any space.

    A holder of the input above loops that they have in common then reserves its space at another depth for each.
    """
    size = dice.one_of([2, 4, 3, 2])
    grower = Grower(dice, [size], [])
    weights = [grower.new_input([size] * dice.one_of([1, 1, 2]))]
    if dice.chance(25):
        grower.sizes["W1"] = [size]
        grower.inputs.append("W1")
        weights.append("W1")
    previous: str | None = None
    for _ in range(dice.one_of([2, 2, 3])):
        names = grower.names(3)
        own = names[: 3 if previous is None and dice.chance(20) else 2]
        draft = Draft(dict.fromkeys(own, size), {}, f"T{len(grower.drafts)}")
        if size > 2 and dice.chance(30):
            draft.bounds[own[0]] -= 1
        if previous is not None:
            own = own[: len(grower.sizes[previous])]
            draft.bounds = dict(zip(own, grower.sizes[previous], strict=True))
            draft.accesses[previous] = [{v: 1} for v in own]
            if dice.chance(15):
                draft.bounds[names[2]] = size
        for weight in dice.shuffled(weights):
            grower.weigh(draft, weight, "r")
        if not draft.accesses:
            draft.accesses[grower.new_input([size])] = [{own[0]: 1}]
        ranks = [v for v in draft.bounds if v != "r" and dice.chance(85)] or own[:1]
        ranks = dice.shuffled(ranks)[:2]
        used = {v for terms in draft.accesses.values() for term in terms for v in term} | set(ranks)
        draft.bounds = {v: bound for v, bound in draft.bounds.items() if v in used}
        grower.finish(draft, ranks)
        previous = draft.output
    spec = Spec(arch=_small_architecture(dice), workload=grown_workload(dice, grower))
    return WorkloadCase(spec, "given" if dice.chance(80) else "all")


def _small_architecture(dice: Dice) -> arch.Architecture:
    memories = [
        arch.Memory(
            name="DRAM",
            size=math.inf,
            tensors=arch.Tensors(keep="~Intermediates", may_keep="All" if dice.chance(50) else None),
            **_figures(dice, [20, 20, 5], "read", "write"),
        ),
        arch.Memory(
            name="GLB",
            size=8 * dice.number(2, 10),
            tensors=arch.Tensors(
                keep=dice.one_of(["~DRAM", "~DRAM | W0"]), may_keep=dice.one_of(["All", "~DRAM | W0", None])
            ),
            **_figures(dice, [1, 2, 0], "read", "write"),
        ),
    ]
    if dice.chance(15):
        memories.append(
            arch.Memory(
                name="Reg",
                size=8 * dice.number(1, 6) if dice.chance(80) else math.inf,
                tensors=arch.Tensors(keep=dice.one_of(["~(DRAM | GLB)", "Nothing"]), may_keep="All"),
                **_figures(dice, [0, 0.5], "read", "write"),
            )
        )
    return arch.Architecture(nodes=(*memories, arch.ComputeUnit(name="MAC", **_figures(dice, [1, 0], "compute"))))


@st.composite
def shared_input_cases(draw: st.DrawFn) -> WorkloadCase:
    return draw_shared_input_case(Dice(draw))


@st.composite
def bits_cases(draw: st.DrawFn) -> WorkloadCase:
    """A workload on memories and Tolls that have bits per value of their own, for all or by names, roles or renames."""
    dice = Dice(draw)
    kind = dice.one_of(["plain", "shared input", "deep", "parts", "beside", "uneven"])
    if kind == "shared input":
        case = draw_shared_input_case(dice)
    else:
        case = draw_workload_case(
            dice, deep=kind == "deep", parts=60 * (kind == "parts"), beside=kind == "beside", uneven=kind == "uneven"
        )
    return replace(case, spec=draw_bits(dice, case.spec))


@st.composite
def workload_cases(
    draw: st.DrawFn,
    bounds: list[int] | None = None,
    kinds: list[str] = KINDS,
    deep: bool = False,
    uneven: bool = False,
    parts: int = 0,
    beside: bool = False,
) -> WorkloadCase:
    """A spec without a mapping, of 2 to 4 Einsums that share tensors.

    `deep`: they may exchange them below a fanout. `uneven`: the size of a memory depends on the Einsum. `parts`: percent
    of Einsums that write a part of a tensor which another has begun. `beside`: two memories stand beside each other.
    """
    return draw_workload_case(Dice(draw), bounds, kinds, deep, uneven, parts, beside)
