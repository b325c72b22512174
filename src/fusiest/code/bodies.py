"""What an Einsum computes: a map of what it reads at each point, a reduction of the points, and what comes after.

`Z[m] = relu(A[m, k] * B[k] + C[m])` maps `A * B`, reduces by a sum over `k`, and then takes `relu(… + C)`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fusiest.base.errors import SpecError
from fusiest.code.functions import REDUCTIONS, expanded
from fusiest.spec import (
    REDUCED,
    Access,
    Call,
    Constant,
    EinsumInfo,
    Read,
    Spec,
    Term,
    formula_text,
    leaves,
    parse_formula,
    replaced,
)

_PRODUCTS = ("matmul", "multiply", "sum", "unary")
"""Operations that are the product of all inputs, summed up."""
_SIGNS = {"subtract": ("add", "negate"), "divide": ("multiply", "reciprocal")}
"""Operations that are a sum or a product, with what becomes of all inputs but the first."""
IDENTITY = {"sum": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0, "argmax": -math.inf, "argmin": math.inf}
"""What a reduction begins with, and what a point adds that reads outside of a tensor."""


@dataclass(frozen=True, slots=True)
class Body:
    """Terms over the tensors that an Einsum reads; the reduction is one of `IDENTITY`."""

    map: Term
    reduction: str = "sum"
    after: Term = REDUCED
    begins: Term | None = None
    """What the reduction begins with, if not with nothing."""
    parameters: Mapping[str, Access] = field(default_factory=dict)
    """What it reads besides, which no memory moves: biases that a network's import has folded into it."""
    padding: Mapping[str, float] = field(default_factory=dict)
    """What is read outside of tensors, where that counts; elsewhere, a point that reads there adds nothing."""
    rows: tuple[str, ...] | None = None
    """Variables along which functions of whole rows go; by default, the last one of what they read."""
    wrong: str | None = None
    """Why it has no meaning, if it is known here."""

    def meaning(self, rows: bool = False) -> Body:
        """The same in primitive functions alone (`rows`: and in those of whole rows); an error says what has no meaning."""
        if self.wrong is not None:
            raise SpecError(self.wrong)
        begins = expanded(self.begins) if self.begins is not None else None
        return replace(self, map=expanded(self.map, rows), after=expanded(self.after), begins=begins)


def formula_of(info: EinsumInfo) -> Term:
    """What an Einsum says that it computes, whether that has a meaning or not."""
    inputs = tuple(Read(tensor) for tensor, access in info.accesses.items() if not access.output)
    if info.formula is not None:
        formula = parse_formula(info.formula)
        if unknown := _names(formula) - info.accesses.keys():
            raise SpecError(f"Einsum {info.name}: its formula reads {min(unknown)}, which is none of its tensors")
        return formula
    if info.is_copy_operation or (len(inputs) == 1 and info.operation in _PRODUCTS):
        return inputs[0]
    if info.operation in _PRODUCTS:
        return Call("multiply", inputs)
    if info.operation in _SIGNS and len(inputs) > 1:
        function, inverse = _SIGNS[info.operation]
        return Call(function, (inputs[0], *(Call(inverse, (other,)) for other in inputs[1:])))
    return Call(info.operation, inputs)


def einsum_words(info: EinsumInfo, accesses: Mapping[str, str]) -> str:
    """`Z[m] = relu(A[m, k] * B[k])`: an Einsum as text, with texts for its accesses."""
    return f"{accesses[info.output]} = {formula_text(formula_of(info), accesses.__getitem__)}"


def body_of(info: EinsumInfo) -> Body:
    """The formula of an Einsum, taken apart."""
    return placed(formula_of(info), info)


def meanings(spec: Spec, rows: bool = False) -> dict[str, Body]:
    """What each Einsum computes, in primitive functions; an error names what has no meaning. `rows`: functions of whole rows have."""
    found = {}
    for einsum in spec.require_workload().einsums:
        try:
            found[str(einsum.name)] = body_of(spec.info.einsums[einsum.name]).meaning(rows)
        except SpecError as error:
            raise SpecError(f"Einsum {einsum.name}: {error.message}", einsum.name) from None
    return found


def placed(formula: Term, info: EinsumInfo) -> Body:
    """The formula taken apart where the reduction is.

    One that is written (`max(A)`) is where it is written. Else what is left over is summed up: in the product of tensors that has
    all of it, which may stand inside of a function, or else outermost.
    """
    gone = frozenset(info.bounds) - info.accesses[info.output].variables
    varying = frozenset(t for t, a in info.accesses.items() if a.variables & gone)
    written = _written(formula)
    if not gone:
        return Body(replaced(formula, _unreduced))
    if not written:
        inner = _summed(formula, varying)
        return Body(inner, "sum", _after(formula, inner, REDUCED))
    first, *others = written
    points = math.prod(info.bounds[v] for v in gone)
    mean = Call("multiply", (REDUCED, Call("reciprocal", (Constant(points),))))
    after = _after(formula, first, mean if first.function == "mean" else REDUCED)
    outside = min(_names(after) & varying, default=None)
    wrong = (
        f"it has several reductions, {first.function} and {others[0].function}; give each its own Einsum"
        if others
        else (f"{first.function} does not reduce {outside}, which stands outside of it" if outside else None)
    )
    return Body(first.arguments[0], "sum" if first.function == "mean" else first.function, after, wrong=wrong)


def _after(formula: Term, inner: Term, result: Term) -> Term:
    """The formula with a result in place of what is inside of it."""
    found = False

    def change(part: Term) -> Term:
        nonlocal found
        if part == inner and not found:
            found = True
            return result
        return part

    return replaced(formula, change)


def _is_reduction(term: Term) -> bool:
    return isinstance(term, Call) and term.function in REDUCTIONS and len(term.arguments) == 1


def _unreduced(term: Term) -> Term:
    """Where nothing is left over, a reduction is of one value."""
    return term.arguments[0] if isinstance(term, Call) and _is_reduction(term) else term


def _written(formula: Term) -> list[Call]:
    """The reductions that are written."""
    found: list[Call] = []

    def look(term: Term) -> Term:
        if isinstance(term, Call) and _is_reduction(term):
            found.append(term)
        return term

    replaced(formula, look)
    return found


def _summed(formula: Term, varying: frozenset[str]) -> Term:
    """What is summed up where nothing says it: a product of tensors that has all that varies, or the whole formula."""
    inner = formula
    while isinstance(inner, Call):
        parts = [part for part in inner.arguments if _names(part) & varying]
        tensors = [part for part in inner.arguments if _names(part)]
        if inner.function == "multiply" and len(tensors) > 1:
            return inner
        if len(parts) != 1:
            return formula
        inner = parts[0]
    return formula


def _names(term: Term) -> set[str]:
    """The tensors that it reads."""
    return {leaf.tensor for leaf in leaves(term) if isinstance(leaf, Read)}


# --- what comes after, as a part of the map ---------------------------------------------------------------------------


def computed_at_points(body: Body) -> Body:
    """The same body, in which what comes after the reduction reads no tensor, parameters aside.

    Only the points of the nest have all tensors at hand, so sums and products with them become a part of each point:
    `relu(sum(A * B) * D + C)` is `relu` of a sum of `A * B * D` that begins with `C`.
    """
    if body.reduction.startswith("arg"):
        raise SpecError(f"{body.reduction} has no code: where an extreme is wants two values at each place")
    free = {REDUCED.tensor, *body.parameters}
    if _names(body.after) <= free:
        return body
    scale, offset, outside = _affine(body.after)
    if found := _names(outside) - free:
        raise SpecError(f"{min(found)} is read after the reduction in a function that is no sum or product with it")
    linear = body.reduction == "sum"
    if scale and not linear:
        raise SpecError(
            f"what comes after a reduction by {body.reduction} is scaled by a tensor; give it an Einsum of its own"
        )
    mapped = Call("multiply", (body.map, *scale)) if scale else body.map
    if not linear and offset:
        mapped, offset = Call("add", (mapped, *offset)), ()
    begins = (offset[0] if len(offset) == 1 else Call("add", offset)) if offset else None
    return replace(body, map=mapped, after=outside, begins=begins)


def _affine(term: Term) -> tuple[tuple[Term, ...], tuple[Term, ...], Term]:
    """Factors of the result and what is added to it, as far out as it is only that, and the term around."""
    if not isinstance(term, Call) or REDUCED.tensor not in _names(term):
        return (), (), term
    index = next(i for i, part in enumerate(term.arguments) if REDUCED.tensor in _names(part))
    scale, offset, inner = _affine(term.arguments[index])
    others = term.arguments[:index] + term.arguments[index + 1 :]
    if inner == REDUCED and term.function in ("add", "multiply", "negate"):
        if any(REDUCED.tensor in _names(other) for other in others):
            return (), (), term
        if term.function == "add":
            return scale, (*offset, *others), REDUCED
        factors = others if term.function == "multiply" else (Constant(-1),)
        return (*scale, *factors), tuple(Call("multiply", (part, *factors)) for part in offset), REDUCED
    return scale, offset, replace(term, arguments=(*term.arguments[:index], inner, *term.arguments[index + 1 :]))
