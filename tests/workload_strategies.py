"""Random small workloads of 2 to 4 Einsums with an architecture on which it matters what is fused, for hypothesis.

`workload_cases()` grows a DAG Einsum by Einsum: matmuls, elementwise Einsums, reductions, convolutions with halo, copies,
residual additions and products of two intermediates, with shifted, mirrored and strided indices now and then. Each Einsum
names its rank variables as it likes, so a loop that several share has different names in them. A case prints as YAML.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter

from fusiest.frozen import FrozenDict
from fusiest.spec import architecture as arch
from fusiest.spec.actions import Action
from fusiest.spec.affine import Affine
from fusiest.spec.spec import Spec
from fusiest.spec.workload import Einsum, TensorAccess, Workload
from tests.drawing.dice import Dice
from tests.drawing.indices import Twists
from tests.yaml_text import yaml_text


@dataclass(frozen=True)
class WorkloadCase:
    spec: Spec
    orders: str = "all"

    def __repr__(self) -> str:
        return f"WorkloadCase(orders={self.orders}\n{yaml_text(self.spec)})"

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        printer.text(repr(self))


# ------------------------------------------------------------------------------------------------------------ workload

Terms = dict[str, int]
"""Coefficient per rank variable."""
KINDS = ["matmul", "unary", "matmul", "binary", "reduce", "outer", "convolution", "copy", "product"]
COPIES = ["copy", "unary", "copy", "matmul", "binary", "copy", "reduce"]


@dataclass
class Draft:
    """One Einsum being drawn: per tensor the terms of each rank."""

    bounds: dict[str, int]
    accesses: dict[str, list[Terms]]
    output: str
    copy: bool = False
    offsets: dict[int, int] = field(default_factory=dict)
    """Where a part of the output begins, by rank."""


@dataclass
class Grower:
    dice: Dice
    bounds: list[int]
    """Of rank variables."""
    kinds: list[str]
    sizes: dict[str, list[int]] = field(default_factory=dict)
    """Tensor → sizes of its ranks."""
    produced: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)
    parts: int = 0
    """Percent of Einsums that write a part of a tensor that an earlier one has begun."""

    def bound(self) -> int:
        return self.dice.one_of(self.bounds)

    def new_input(self, sizes: list[int]) -> str:
        """A weight, or one that an earlier Einsum reads too."""
        known = [t for t in self.inputs if self.sizes[t] == sizes]
        if known and self.dice.chance(60):
            return self.dice.one_of(known)
        name = f"W{len(self.inputs)}"
        self.sizes[name] = sizes
        self.inputs.append(name)
        return name

    def source(self) -> str:
        """What the next Einsum reads: mostly the last intermediate, sometimes an older one."""
        if not self.produced:
            return self.new_input([self.bound() for _ in range(self.dice.one_of([2, 1, 2]))])
        if self.dice.chance(12):
            return self.dice.one_of([*self.inputs, *self.produced])
        if (
            self.parts and len(self.drafts) == 1 and self.dice.chance(90)
        ):  # what the first Einsum reads, for the next part
            return next(iter(self.drafts[0].accesses))
        return self.produced[-1] if self.dice.chance(65) else self.dice.one_of(self.produced)

    def names(self, count: int) -> list[str]:
        """Names of rank variables, not always the same."""
        letters = "mnkpq"
        return list(letters[:count]) if self.dice.chance(40) else self.dice.shuffled(letters)[:count]

    def grow(self) -> None:
        kind = self.dice.one_of(self.kinds)
        source = self.source()
        sizes = self.sizes[source]
        names = self.names(len(sizes) + 1)
        own, extra = names[:-1], names[-1]
        draft = Draft(dict(zip(own, sizes, strict=True)), {source: [{v: 1} for v in own]}, f"T{len(self.drafts)}")
        ranks = own
        if kind == "matmul" and len(sizes) == 2:
            draft.bounds[extra] = self.bound()
            self.read(draft, self.new_input([sizes[1], draft.bounds[extra]]), [own[1], extra])
            ranks = [own[0], extra]
        elif kind == "outer" and len(sizes) == 1:
            draft.bounds[extra] = self.bound()
            self.read(draft, self.new_input([draft.bounds[extra]]), [extra])
            ranks = [own[0], extra]
        elif kind == "binary":
            self.read(draft, self.partner(source, sizes), own)
        elif kind == "product":
            ranks = self.product(draft, own, extra)
        elif kind == "reduce" and len(sizes) == 2:
            ranks = [self.dice.one_of(own)]
        elif kind == "convolution":
            ranks = self.convolution(draft, source, own, extra)
        elif kind == "copy":
            draft.copy = True
        elif self.dice.chance(30):
            self.read(draft, self.new_input([sizes[-1]]), [own[-1]])
        if len(ranks) == 2 and self.dice.chance(15):
            ranks = ranks[::-1]
        self.finish(draft, ranks)

    def read(self, draft: Draft, tensor: str, ranks: list[str]) -> None:
        if tensor not in draft.accesses:
            draft.accesses[tensor] = [{v: 1} for v in ranks]

    def partner(self, source: str, sizes: list[int]) -> str:
        """A second operand of the same shape: an older intermediate (a residual), or a new input."""
        older = [t for t in [*self.produced, *self.inputs] if self.sizes[t] == sizes and t != source]
        return self.dice.one_of(older) if older and self.dice.chance(85) else self.new_input(sizes)

    def product(self, draft: Draft, own: list[str], extra: str) -> list[str]:
        """Z[m, p] = A[m, e] B[p, e] or Z[m] = A[m, e] B[e] with two intermediates."""
        others = [t for t in self.produced if t not in draft.accesses and self.sizes[t][-1] == draft.bounds[own[-1]]]
        if not others:
            return own
        other = self.dice.one_of(others)
        if len(self.sizes[other]) == 1:
            self.read(draft, other, [own[-1]])
            return own if self.dice.chance(50) else own[:1]
        draft.bounds[extra] = self.sizes[other][0]
        self.read(draft, other, [extra, own[-1]])
        return [own[0], extra]

    def convolution(self, draft: Draft, source: str, own: list[str], extra: str) -> list[str]:
        """Z[p] = A[p + r] F[r] along the last rank."""
        size = draft.bounds[own[-1]]
        if size < 3:
            return own
        draft.bounds[extra] = 2
        draft.bounds[own[-1]] = size - 1
        draft.accesses[source][-1] = {own[-1]: 1, extra: 1}
        if self.dice.chance(70):
            self.read(draft, self.new_input([2]), [extra])
        return own

    def weigh(self, draft: Draft, weight: str, extra: str) -> None:
        """Read an input by any variables, in any order, of which one may have a halo with an extra one."""
        if len(self.sizes[weight]) > len(draft.bounds):
            return
        chosen = self.dice.shuffled(list(draft.bounds))[: len(self.sizes[weight])]
        terms: list[Terms] = [{v: 1} for v in chosen]
        for term, size in zip(terms, self.sizes[weight], strict=True):
            (v,) = term
            if draft.bounds[v] < size and extra not in draft.bounds:
                draft.bounds[extra] = size - draft.bounds[v] + 1
                term[extra] = 1
            elif draft.bounds[v] > size:
                return
        draft.accesses[weight] = terms

    def finish(self, draft: Draft, ranks: list[str]) -> None:
        sizes = [draft.bounds[v] for v in ranks]
        self.drafts.append(draft)
        if self.dice.chance(self.parts) and not draft.copy and self.adds_to(draft, ranks, sizes):
            return
        draft.accesses[draft.output] = [{v: 1} for v in ranks]
        self.sizes[draft.output] = sizes
        self.produced.append(draft.output)

    def adds_to(self, draft: Draft, ranks: list[str], sizes: list[int]) -> bool:
        """Write the next part of a tensor that nobody has read yet: more of one rank, or one more index of a new one."""
        for tensor in reversed(self.produced):
            makers = [d for d in self.drafts if d.output == tensor]
            read = any(tensor in d.accesses for d in self.drafts if d.output != tensor)
            whole = self.sizes[tensor]
            apart = [i for i, (a, b) in enumerate(zip(whole, sizes, strict=False)) if a != b]
            if read or any(d.copy for d in makers) or tensor in draft.accesses or len(whole) != len(sizes):
                continue
            if not apart and len(makers) == 1 and self.dice.chance(30):
                for i, one in enumerate([makers[0], draft]):
                    one.accesses[tensor] = [
                        *(makers[0].accesses[tensor] if one is makers[0] else [{v: 1} for v in ranks]),
                        {},
                    ]
                    one.offsets[len(ranks)] = i
                self.sizes[tensor] = [*sizes, 2]
            else:
                begun = [i for d in makers for i, at in d.offsets.items() if at]
                place = begun[0] if begun else apart[0] if apart else self.dice.number(0, len(ranks) - 1)
                if place >= len(sizes) or any(i != place for i in apart):
                    continue
                draft.accesses[tensor] = [{v: 1} for v in ranks]
                draft.offsets[place] = whole[place]
                self.sizes[tensor] = [
                    a + b if i == place else a for i, (a, b) in enumerate(zip(whole, sizes, strict=True))
                ]
            draft.output = tensor
            return True
        return False


def _einsum(name: str, draft: Draft, grower: Grower, twists: Twists, instances: int) -> Einsum:
    shape = twists.constraints(draft.bounds)
    parted = sum(d.output == draft.output for d in grower.drafts) > 1

    def index(t: str, i: int, terms: Terms) -> Affine:
        if t == draft.output and parted:
            return twists.straight(terms, draft.offsets.get(i, 0))
        return twists.index(t, i, terms, grower.sizes[t][i], strides=not draft.copy)

    return Einsum(
        name=name,
        tensor_accesses=tuple(
            TensorAccess(
                name=t,
                projection=FrozenDict({f"{t}R{i}": index(t, i, terms) for i, terms in enumerate(ranks)}),
                output=t == draft.output,
            )
            for t, ranks in draft.accesses.items()
        ),
        iteration_space_shape=shape,
        n_instances=instances,
        is_copy_operation=draft.copy,
    )


def _workload(dice: Dice, grower: Grower) -> Workload:
    bits: dict[str, arch.Value] = {t: dice.one_of([4, 16]) for t in grower.sizes if dice.chance(8)}
    instances = 2 if dice.chance(5) else 1
    twists = Twists(dice)
    return Workload(
        einsums=tuple(_einsum(f"E{i}", draft, grower, twists, instances) for i, draft in enumerate(grower.drafts)),
        bits_per_value=FrozenDict({**bits, "Other": 8}),
        persistent_tensors=dice.one_of(grower.inputs) if grower.inputs and dice.chance(5) else "Nothing",
    )


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
    most = max(4, whole * 2 // 3 if dice.chance(30) else whole // 2)
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
        **_figures(dice, [1, 2, 0], "read", "write"),  # type: ignore[arg-type]
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
            **_figures(dice, [20, 20, 20, 5, 1], "read", "write"),  # type: ignore[arg-type]
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
        **_figures(dice, [1, 2, 0], "read", "write"),  # type: ignore[arg-type]
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
                **_figures(dice, [0, 0.5], "read", "write"),  # type: ignore[arg-type]
            )
        )
    if dice.chance(8):
        side = arch.ComputeUnit(name="Side", enabled="len(All) == 2", **_figures(dice, [1, 3], "compute"))  # type: ignore[arg-type]
        nodes.append(arch.Fork(nodes=(side,)))
    nodes.append(arch.ComputeUnit(name="MAC", **_figures(dice, [1, 0], "compute")))  # type: ignore[arg-type]
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
    spec = Spec(arch=_architecture(dice, grower, third, deep, uneven, beside), workload=_workload(dice, grower))
    return WorkloadCase(spec, "given" if dice.chance(30) else "all")


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
    spec = Spec(arch=_small_architecture(dice), workload=_workload(dice, grower))
    return WorkloadCase(spec, "given" if dice.chance(80) else "all")


def _small_architecture(dice: Dice) -> arch.Architecture:
    memories = [
        arch.Memory(
            name="DRAM",
            size=math.inf,
            tensors=arch.Tensors(keep="~Intermediates", may_keep="All" if dice.chance(50) else None),
            **_figures(dice, [20, 20, 5], "read", "write"),  # type: ignore[arg-type]
        ),
        arch.Memory(
            name="GLB",
            size=8 * dice.number(2, 10),
            tensors=arch.Tensors(
                keep=dice.one_of(["~DRAM", "~DRAM | W0"]), may_keep=dice.one_of(["All", "~DRAM | W0", None])
            ),
            **_figures(dice, [1, 2, 0], "read", "write"),  # type: ignore[arg-type]
        ),
    ]
    if dice.chance(15):
        memories.append(
            arch.Memory(
                name="Reg",
                size=8 * dice.number(1, 6) if dice.chance(80) else math.inf,
                tensors=arch.Tensors(keep=dice.one_of(["~(DRAM | GLB)", "Nothing"]), may_keep="All"),
                **_figures(dice, [0, 0.5], "read", "write"),  # type: ignore[arg-type]
            )
        )
    return arch.Architecture(nodes=(*memories, arch.ComputeUnit(name="MAC", **_figures(dice, [1, 0], "compute"))))  # type: ignore[arg-type]


@st.composite
def shared_input_cases(draw: st.DrawFn) -> WorkloadCase:
    return draw_shared_input_case(Dice(draw))


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
