"""Random small workloads that read through halos, on machines of two and three memories: for the exhaustive mapper of windows.

Layers are those of `draw_small_cnn`, and some with channels: summed up, grouped, or with weights of their own. Two layers may read one;
a copy may come first. Machines have one or two memories on chip, fanouts, persistent tensors, widths, and now and then constraints.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from fusiest.base.frozen import FrozenDict
from fusiest.spec import architecture as arch
from fusiest.spec.hardware.actions import Action
from fusiest.spec.language.affine import Affine, Constraint
from fusiest.spec.spec import Spec
from fusiest.spec.workload.einsums import Einsum, TensorAccess, Workload
from tests.drawing.bits import draw_bits
from tests.drawing.dice import Dice
from tests.drawing.windows import draw_small_cnn

CNNS = ("pair", "triple", "four", "residual", "image", "dilated", "pooled", "depthwise", "forked")
CHANNELS = ("channels", "grouped", "tail")
FEW_NESTS = ("pair", "triple", "dilated", "pooled")
"""Kinds with so few nests that all with three memories can be tried."""
MACHINES = ("two", "three", "lanes", "apart")


@dataclass(frozen=True)
class HaloCase:
    """A spec, and how it is to be searched."""

    spec: Spec
    kind: str
    machine: str
    imperfect: bool = False


def draw_halo_case(dice: Dice) -> HaloCase:
    """Any kind of layers on any machine."""
    kind = dice.one_of([*CNNS, *CHANNELS])
    machine = dice.one_of([m for m in MACHINES if m != "three" or kind in FEW_NESTS])
    imperfect = dice.chance(15) and kind in ("pair", "dilated", "pooled") and machine == "two"
    if kind in CHANNELS:
        workload, exchanged = _channels(dice, kind)
    else:
        workload = draw_small_cnn(dice, kind).require_workload()
        exchanged = _made(workload)
    if dice.chance(8):
        workload = _with_copy(workload)
    if dice.chance(12):
        weights = [str(a.name) for e in workload.einsums for a in e.tensor_accesses if a.name.startswith("K")]
        workload = dataclasses.replace(workload, persistent_tensors=" | ".join(weights) or "Nothing")
    spec = Spec(arch=_machine(dice, machine, exchanged), workload=workload)
    return HaloCase(draw_bits(dice, spec) if dice.chance(10) else spec, kind, machine, imperfect)


def _made(workload: Workload) -> int:
    """Values that all but the last Einsum make."""
    count = 0
    for einsum in workload.einsums[:-1]:
        bounds = {c.text.split(" < ")[0].split()[-1]: int(c.text.split()[-1]) for c in einsum.iteration_space_shape}
        output = next(a for a in einsum.tensor_accesses if a.output)
        count += math.prod(bounds[v] for v in output.variables)
    return count


def _einsum(
    name: str, reads: dict[str, dict[str, str]], makes: tuple[str, dict[str, str]], bounds: dict[str, int]
) -> Einsum:
    accesses = [
        TensorAccess(name=t, projection=FrozenDict({r: _index(i) for r, i in ranks.items()}))
        for t, ranks in reads.items()
    ]
    output = TensorAccess(
        name=makes[0], projection=FrozenDict({r: _index(i) for r, i in makes[1].items()}), output=True
    )
    shape = tuple(Constraint(f"0 <= {v} < {bound}") for v, bound in bounds.items())
    return Einsum(name=name, tensor_accesses=(*accesses, output), iteration_space_shape=shape)


def _index(text: str) -> Affine:
    terms, constant = {}, 0
    for part in text.split(" + "):
        factor, _, v = part.rpartition("*")
        if v.lstrip("-").isdigit():
            constant += int(v)
        else:
            terms[v] = int(factor or 1)
    return Affine(FrozenDict(terms), constant)


def _channels(dice: Dice, kind: str) -> tuple[Workload, int]:
    """Two layers with channels. `channels`: both sum them up, or the first has weights for each; `grouped`: in groups;
    `tail`: the second sums up all rows, too."""
    rows, taps, stride = dice.number(2, 3), dice.number(2, 3), dice.one_of([1, 1, 2])
    pad = dice.number(0, 1)
    width = 2
    made = max(1, stride * (rows - 1) + taps - 2 * pad)
    own = dice.chance(40)
    first_taps = dice.number(1, 2)
    bounds = {"h1": made, "m1": width}
    reads: dict[str, dict[str, str]] = {"T0": {"H": "h1", "C": "m1"}}
    if first_taps > 1:
        bounds["r1"] = first_taps
        reads["T0"]["H"] = "h1 + r1"
    if not own:
        bounds["k1"] = 2
        reads["T0"]["C"] = "k1"
        reads["K1"] = {"K": "k1", "M": "m1"}
    first = _einsum("E1", reads, ("T1", {"H": "h1", "C": "m1"}), bounds)
    index = f"{stride}*h2 + r2 + {-pad}"
    if kind == "grouped":
        bounds = {"h2": rows, "g2": width, "n2": 2, "r2": taps}
        reads = {"T1": {"H": index, "C": "g2"}, "K2": {"R": "r2", "G": "g2", "N": "n2"}}
        second = _einsum("E2", reads, ("T2", {"H": "h2", "G": "g2", "N": "n2"}), bounds)
    else:
        bounds = {"h2": rows, "r2": taps, "k2": width}
        reads = {"T1": {"H": index, "C": "k2"}, "K2": {"R": "r2", "K": "k2"}}
        makes = {"H": "h2"}
        if dice.chance(50):
            bounds["m2"] = 2
            reads["K2"]["M"] = "m2"
            makes["C"] = "m2"
        if kind == "tail":
            del makes["H"]
            makes = makes or {"C": "m2"}
            bounds.setdefault("m2", 2)
            reads["K2"].setdefault("M", "m2")
        second = _einsum("E2", reads, ("T2", makes), bounds)
    return Workload(einsums=(first, second), bits_per_value=FrozenDict({"All": 8})), made * width


def _with_copy(workload: Workload) -> Workload:
    """The first Einsum reads a copy of what it read."""
    first, *rest = workload.einsums
    source = next(a for a in first.tensor_accesses if a.name == "T0")
    ranks = {
        rank: Affine(FrozenDict({f"x{i}": 1}), _least(first, a))
        for i, (rank, a) in enumerate(source.projection.items())
    }
    sizes = [_size(first, a) for a in source.projection.values()]
    shape = tuple(Constraint(f"0 <= x{i} < {size}") for i, size in enumerate(sizes))
    accesses = (
        TensorAccess(name="T", projection=FrozenDict(ranks)), TensorAccess(name="T0", projection=FrozenDict(ranks), output=True)
    )  # fmt: skip
    copy = Einsum(
        name="E0", tensor_accesses=accesses, iteration_space_shape=shape, is_copy_operation=True, operation="copy"
    )
    return dataclasses.replace(workload, einsums=(copy, first, *rest))


def _ends(einsum: Einsum, index: Affine) -> tuple[int, int]:
    bounds = {c.text.split(" < ")[0].split()[-1]: int(c.text.split()[-1]) for c in einsum.iteration_space_shape}
    return index.constant, index.constant + sum(a * (bounds[v] - 1) for v, a in index.coefficients.items())


def _least(einsum: Einsum, index: Affine) -> int:
    return max(0, _ends(einsum, index)[0])


def _size(einsum: Einsum, index: Affine) -> int:
    return _ends(einsum, index)[1] - _least(einsum, index) + 1


def _machine(dice: Dice, kind: str, exchanged: int) -> arch.Architecture:
    """`two` memories; `three`, with exchange in both on chip; `lanes`: a fanout; `apart`: weights in a memory of their own."""

    def memory(name: str, size: float, energy: int, keep: str, may_keep: str = "All", **sets: object) -> arch.Memory:
        actions = tuple(Action(name=a, energy=energy, throughput=dice.one_of([1, 2, 8])) for a in ("read", "write"))
        held = arch.Tensors(keep=keep, may_keep=may_keep, **sets)  # type: ignore[arg-type]
        return arch.Memory(name=name, component_class="Dummy", size=size, actions=actions, tensors=held)

    size = 8 * dice.number(4, max(6, 3 + 2 * exchanged // 3))
    constraint: dict[str, object] = {}
    if dice.chance(15):
        name = dice.one_of(["no_refetch_from_above", "no_resend_to_below", "no_fused_loops", "tensor_order_options"])
        texts: dict[str, object] = {
            "no_refetch_from_above": "Inputs - Intermediates", "no_resend_to_below": "Outputs",
            "no_fused_loops": "Intermediates.rank_variables" if dice.chance(30) else "All.rank_variables - Outputs.rank_variables",
            "tensor_order_options": (("Outputs", "Inputs"),),
        }  # fmt: skip
        constraint[name] = texts[name]
    nodes: list[arch.ArchitectureNode] = [memory("DRAM", math.inf, 100, "~Intermediates")]
    if kind == "three":
        nodes.append(memory("L2", 2 * size, 6, "~DRAM"))
        nodes.append(memory("L1", 8 * dice.number(3, 6), 1, "Nothing", "Intermediates"))
    elif kind == "apart":
        nodes.append(memory("GLB", size, 2, "Intermediates - DRAM | Outputs & ~DRAM", "Intermediates"))
        nodes.append(memory("WB", 8 * dice.number(2, 6), 1, "Nothing", "Inputs - Intermediates"))
    else:
        nodes.append(memory("GLB", size, 1, "~DRAM", **constraint))
    if kind == "lanes":
        nodes.append(arch.Container(name="PE", spatial=(arch.Dimension(name="X", fanout=dice.number(2, 4)),)))
    compute = Action(name="compute", energy=1, throughput=1)
    nodes.append(arch.ComputeUnit(name="MAC", component_class="Dummy", actions=(compute,)))
    return arch.Architecture(nodes=tuple(nodes))
