"""How an Einsum is made from views and subscripts: labels become variables, and the axes that share a label are aligned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fusiest.networks.lowering.extents import Axis, Extent, Factor, align, spread
from fusiest.networks.lowering.tensors import Guard, NetAccess, NetTensor, Position, View


class Unfit(Exception):
    """A value cannot be indexed as an operator needs it. Its text says why."""


@dataclass(frozen=True, slots=True)
class Window:
    """A subscript that is a sum: coefficients by label, and a constant. What is outside of the axis does not count."""

    terms: tuple[tuple[str, int], ...]
    constant: int = 0


_IMAGE = {"o": "Z", "p": "H", "q": "W"}
"""What a window slides over, by what counts its places."""
Subscript = str | Window | None
"""How an Einsum indexes one axis of a view: a label, a sum of labels, or (for an axis of size 1) nothing."""
Operand = tuple[View, Sequence[Subscript]]
"""A view and a subscript for each of its axes."""


def labelled(labels: Iterable[str | None], shape: Sequence[int]) -> list[str | None]:
    """A label for each axis; those of size 1 have none."""
    return [label if size > 1 else None for label, size in zip(labels, shape, strict=True)]


def axis_labels(shape: Sequence[int]) -> list[str | None]:
    """Labels of axes by their place: `a0`, `a1`, …"""
    return labelled([f"a{i}" for i in range(len(shape))], shape)


@dataclass(slots=True)
class EinsumMaker:
    """The variables of one Einsum, by label, and its accesses."""

    operands: Sequence[Operand]
    sizes: Mapping[str, int]
    """Sizes of labels that no operand has alone."""
    roles: Mapping[str, str]
    variables: dict[str, list[Axis]] = field(default_factory=dict)
    batch: Axis | None = None
    _terms: list[dict[Axis, dict[Axis, int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._terms = [{} for _ in self.operands]
        columns: dict[str, list[tuple[int, Sequence[Factor]]]] = {label: [] for label in self.sizes}
        for i, (view, subscripts) in enumerate(self.operands):
            for factors, subscript in zip(view.axes, subscripts, strict=True):
                if isinstance(subscript, str):
                    columns.setdefault(subscript, []).append((i, factors))
            if view.tensor.batch is not None:
                columns.setdefault("batch", []).append((i, [_plain(view.tensor.batch)]))
        for label, column in columns.items():
            self._number(label, column)
        if "batch" in columns:
            (self.batch,) = self.variables.pop("batch")

    def _number(self, label: str, column: Sequence[tuple[int, Sequence[Factor]]]) -> None:
        """The variables of a label, and where they move the operands."""
        role = self.roles.get(label, "b" if label == "batch" else "")
        moving = [(i, factors) for i, factors in column if any(factor.axis is not None for factor in factors)]
        column = moving or [(i, factors) for i, factors in column if factors][:1]  # a mere broadcast fits everything
        groups = align([factors for _, factors in column])
        if groups is None:
            sizes = " and ".join("x".join(str(f.size) for f in spread(factors)) or "1" for _, factors in column)
            raise Unfit(f"{sizes} do not factor alike")
        if not groups and self.sizes.get(label, 1) > 1:
            groups = [[Factor(Extent(self.sizes[label]))]]
            column = []
        variables: list[Axis] = []
        for group in groups:
            extent = next(factor.extent for factor in group if factor is not None)
            variable = Axis(extent, role)
            variables.append(variable)
            for (i, _), factor in zip(column, group, strict=False):
                if factor is not None and factor.axis is not None:
                    moved = self._terms[i].setdefault(factor.axis, {})
                    moved[variable] = moved.get(variable, 0) + factor.coefficient
        self.variables[label] = variables

    def access(self, i: int) -> NetAccess:
        """How the Einsum reads an operand."""
        (view, subscripts), terms = self.operands[i], self._terms[i]
        constants = view.offsets()
        guards = []
        for factors, subscript in zip(view.axes, subscripts, strict=True):
            if isinstance(subscript, Window):
                guards.append(self._slide(factors, subscript, terms, constants))
        index: dict[Axis, Position] = {}
        for axis in view.tensor.ranks():
            index[axis] = Position(terms.get(axis, {}), constants.get(axis, 0))
            if terms.get(axis) and not _counts(index[axis], axis):
                axis.extent.root().rigid = True
        return NetAccess(view.tensor, index, tuple(guards), view.padded)

    def _slide(
        self, factors: Sequence[Factor], window: Window, terms: dict[Axis, dict[Axis, int]], constants: dict[Axis, int]
    ) -> Guard:
        leaves = spread(factors)
        if len(leaves) > 1:
            raise Unfit(f"a window over {'x'.join(str(leaf.size) for leaf in leaves)}, which is no single rank")
        sum_of: dict[Axis, int] = {}
        for label, coefficient in window.terms:
            variables = [leaf for variable in self.variables[label] for leaf in variable.leaves()]
            for variable in reversed(variables):
                sum_of[variable] = sum_of.get(variable, 0) + coefficient
                coefficient *= variable.size
        size = leaves[0].size if leaves else 1
        for leaf in leaves:
            if leaf.axis is not None:
                moved = terms.setdefault(leaf.axis, {})
                for variable, coefficient in sum_of.items():
                    moved[variable] = moved.get(variable, 0) + leaf.coefficient * coefficient
                constants[leaf.axis] = constants.get(leaf.axis, 0) + leaf.coefficient * window.constant
                leaf.axis.role = leaf.axis.role or _IMAGE.get(self.roles.get(window.terms[0][0], ""), "")
        return Guard(Position(sum_of, window.constant), size)

    def drop_idle(self, reads: Sequence[NetAccess], written: Sequence[str | None], reduction: str | None) -> None:
        """Labels that move nothing: a maximum or mean over them is what it would be without; a sum would not be."""
        moved = {v for terms in self._terms for moves in terms.values() for v in moves}
        for label, variables in self.variables.items():
            idle = {variable for variable in variables if variable not in moved}
            if not idle or label in written:
                continue
            guarded = [read for read in reads if any(idle & set(guard.position.terms) for guard in read.guards)]
            if reduction not in ("mean", "max", "min") or (guarded and reduction == "mean"):
                raise Unfit("it sums up what is broadcast")
            for read in guarded:  # every window has an element that counts, and all are alike
                read.guards = tuple(guard for guard in read.guards if not idle & set(guard.position.terms))
            self.variables[label] = [variable for variable in variables if variable in moved]

    def output(self, labels: Sequence[str | None], source: str) -> tuple[View, NetAccess]:
        """A new tensor with a rank for each variable of these labels: its view, and how the Einsum writes it."""
        index: dict[Axis, Position] = {}
        batch = None
        if self.batch is not None:
            batch = Axis(self.batch.extent, "b")
            index[batch] = Position({self.batch: 1})
        axes: list[tuple[Factor, ...]] = []
        for label in labels:
            factors = []
            for variable in self.variables[label] if label is not None else ():
                axis = Axis(variable.extent, variable.role)
                index[axis] = Position({variable: 1})
                factors.append(_plain(axis))
            axes.append(tuple(factors))
        ranks = [axis for axis in index if axis is not batch]
        tensor = NetTensor(ranks, "result", source, batch)
        return View(tensor, tuple(axes)), NetAccess(tensor, index)

    def all_variables(self) -> list[Axis]:
        variables = [variable for label_variables in self.variables.values() for variable in label_variables]
        return variables if self.batch is None else [self.batch, *variables]


def _plain(axis: Axis) -> Factor:
    return Factor(axis.extent, axis)


def _counts(position: Position, axis: Axis) -> bool:
    """Whether a position is a variable that counts all of an axis."""
    variable = position.alone
    return variable is not None and variable.extent.root() is axis.extent.root()
