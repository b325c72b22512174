"""A random Einsum to be mapped alone, and neighbours that share some of its tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fusiest.base.frozen import FrozenDict
from fusiest.spec import architecture as arch
from fusiest.spec.language.affine import Affine
from fusiest.spec.workload.einsums import Einsum, TensorAccess, Workload
from tests.drawing.dice import Dice
from tests.drawing.indices import Twists

TARGET = "E1"
RankTerms = dict[str, dict[str, int]]
"""Rank → coefficient per rank variable."""


@dataclass
class Target:
    bounds: dict[str, int]
    accesses: dict[str, RankTerms]
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


def draw_target(dice: Dice, sizes: Sizes) -> Target:
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
    accesses: dict[str, RankTerms] = {}
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


def _bounds(dice: Dice, variables: list[str], sizes: Sizes) -> dict[str, int]:
    bounds: dict[str, int] = {}
    for v in variables:
        bounds[v] = dice.one_of([b for b in sizes[len(variables)] if v != "r" or b < 6])
    return bounds


def _einsum(name: str, bounds: dict[str, int], accesses: dict[str, RankTerms], output: str, twists: Twists) -> Einsum:
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
    ranks: RankTerms = {rank: {rank.lower(): 1} for rank in target.accesses[tensor]}
    bounds = {rank.lower(): target.size(tensor, rank) for rank in ranks}
    other = f"{'X' if writes else 'Y'}{tensor}"
    return _einsum(name, bounds, {tensor: ranks, other: dict(ranks)}, tensor if writes else other, twists)


def draw_workload(dice: Dice, target: Target, deep: bool) -> Workload:
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
