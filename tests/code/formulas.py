"""Random formulas for the Einsums of random specs: maps, reductions, and what comes after."""

from __future__ import annotations

from dataclasses import replace

from fusiest.spec import EinsumInfo, Spec
from tests.drawing.dice import Dice

ONE = ("A", "A * 2", "A - 1", "abs(A - 3)", "relu(A - 2)", "-A", "A ** 2")
TWO = (
    "A * B",
    "A + B",
    "A - B",
    "max(A, B)",
    "where(A < B, A, B)",
    "A * B - 1",
    "2 * A * B",
    "A - 2 * B",
    "(A >= B) * A",
)
REDUCED = (
    "(X)",
    "sum(X)",
    "max(X)",
    "min(X)",
    "relu(sum(X) - 4)",
    "max(X) * 2 - 1",
    "mean(X)",
    "abs(min(X))",
    "sum(X) / 2",
)
WITH_ANOTHER = ("relu(sum(X) + C)", "sum(X) * C", "2 * (sum(X) - C) + 1", "max(X) + C", "relu((sum(X) + 1) * C)")


def with_formulas(dice: Dice, spec: Spec) -> Spec:
    """The spec, with a formula for each Einsum that is no copy."""
    workload = spec.require_workload()
    einsums = tuple(
        einsum if einsum.is_copy_operation else replace(einsum, formula=_formula(dice, spec.info.einsums[einsum.name]))
        for einsum in workload.einsums
    )
    return replace(spec, workload=replace(workload, einsums=einsums))


def _formula(dice: Dice, info: EinsumInfo) -> str:
    gone = frozenset(info.bounds) - info.accesses[info.output].variables
    inputs = [tensor for tensor, access in info.accesses.items() if not access.output]
    fixed = [tensor for tensor in inputs if not info.accesses[tensor].variables & gone]
    names = {"A": inputs[0], "B": inputs[-1]}
    inner = "".join(names.get(c, c) for c in dice.one_of(list(ONE if len(inputs) == 1 else TWO)))
    another = fixed and gone and dice.chance(50)
    names = {"X": inner, "C": dice.one_of(fixed) if fixed else ""}
    return "".join(names.get(c, c) for c in dice.one_of(list(WITH_ANOTHER if another else REDUCED)))
