"""Random workloads: chains, diamonds, residuals, shared inputs; matmuls, elementwise Einsums, convolutions, copies.

Now and then indices are shifted, mirrored and strided, and rank variables do not count from 0.
Sizes are kept small enough for every iteration to be simulated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from fusiest.base.frozen import FrozenDict
from fusiest.spec import architecture as arch
from fusiest.spec.language.affine import Affine, Constraint
from fusiest.spec.workload.einsums import Einsum, TensorAccess, Workload
from tests.drawing.dice import Dice
from tests.drawing.indices import Twists


@dataclass
class DraftEinsum:
    name: str
    bounds: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    """From where each variable counts in the workload. Here, all count from 0."""
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
    twists: Twists
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
    workload = DraftWorkload(Twists(dice))
    for number in range(dice.number(1, max_einsums)):
        einsum = DraftEinsum(f"E{number}")
        _first_input(dice, workload, einsum, number, max_points)
        (first,) = einsum.accesses.values()
        if dice.chance(12) and all(
            len(r.variables) == 1 and abs(r.coefficients[r.variables[0]]) == 1 for r in first.values()
        ):
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
    einsum.least[name] = dice.one_of([1, -1, 3]) if dice.chance(4) else 0
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
        sizes: dict[str, int] = {}
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
    for number_of_rank, (rank, size) in enumerate(workload.sizes[tensor].items()):
        known = [v for v, bound in einsum.bounds.items() if bound == size and v not in _used(projection)]
        if known and not dice.chance(30):
            projection[rank] = _affine(**{dice.one_of(known): 1})
        elif size >= 3 and not dice.chance(plain):
            projection[rank] = _window(dice, einsum, size, number, max_points)
        else:
            bound = min(size, _room(einsum, max_points))
            projection[rank] = _affine(**{_variable(dice, einsum, rank.lower(), number, bound): 1})
        if projection[rank].constant == 0 and all(a == 1 for a in projection[rank].coefficients.values()):
            projection[rank] = workload.twists.index(tensor, number_of_rank, projection[rank].coefficients, size)
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
    index = workload.twists.index
    einsum.accesses[tensor] = {
        v.upper(): index(tensor, i, {v: 1}, einsum.bounds[v], strides=not einsum.copy) for i, v in enumerate(variables)
    }
    workload.sizes[tensor] = {v.upper(): einsum.bounds[v] for v in variables}
    einsum.output = tensor


def _written(projection: dict[str, Affine], least: dict[str, int]) -> FrozenDict[str, Affine]:
    """Indices as the workload has them, where variables count from their least values."""
    return FrozenDict(
        {rank: affine.moved({v: -low for v, low in least.items()}) for rank, affine in projection.items()}
    )


def build_workload(dice: Dice, draft: DraftWorkload) -> Workload:
    einsums = [
        Einsum(
            name=e.name,
            tensor_accesses=tuple(
                TensorAccess(name=t, projection=_written(p, e.least), output=t == e.output)
                for t, p in e.accesses.items()
            ),
            iteration_space_shape=tuple(
                Constraint(f"{e.least[v]} <= {v} < {e.least[v] + bound}") for v, bound in e.bounds.items()
            ),
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
