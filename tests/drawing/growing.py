"""A random DAG of Einsums, grown one by one from the tensors that are there."""

from __future__ import annotations

from dataclasses import dataclass, field

from fusiest.base.frozen import FrozenDict
from fusiest.spec import architecture as arch
from fusiest.spec.language.affine import Affine
from fusiest.spec.workload.einsums import Einsum, TensorAccess, Workload
from tests.drawing.dice import Dice
from tests.drawing.indices import Twists

IndexTerms = dict[str, int]
"""Coefficient per rank variable."""
KINDS = ["matmul", "unary", "matmul", "binary", "reduce", "outer", "convolution", "copy", "product"]
COPIES = ["copy", "unary", "copy", "matmul", "binary", "copy", "reduce"]


@dataclass
class Draft:
    """One Einsum being drawn: per tensor the terms of each rank."""

    bounds: dict[str, int]
    accesses: dict[str, list[IndexTerms]]
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
        terms: list[IndexTerms] = [{v: 1} for v in chosen]
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

    def index(t: str, i: int, terms: IndexTerms) -> Affine:
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


def grown_workload(dice: Dice, grower: Grower) -> Workload:
    bits: dict[str, arch.Value] = {t: dice.one_of([4, 16]) for t in grower.sizes if dice.chance(8)}
    instances = 2 if dice.chance(5) else 1
    twists = Twists(dice)
    return Workload(
        einsums=tuple(_einsum(f"E{i}", draft, grower, twists, instances) for i, draft in enumerate(grower.drafts)),
        bits_per_value=FrozenDict({**bits, "Other": 8}),
        persistent_tensors=dice.one_of(grower.inputs) if grower.inputs and dice.chance(5) else "Nothing",
    )
