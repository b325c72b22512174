"""A workload in NumPy, from its Einsums alone: what every mapping of it must compute."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fusiest.base.errors import SpecError, check_known
from fusiest.code.bodies import IDENTITY, Body, meanings
from fusiest.code.functions import FOLDED, PRIMITIVES, ROWS
from fusiest.code.shapes import TensorShape, shapes, span
from fusiest.networks import NetworkSpec
from fusiest.spec import REDUCED, Access, Call, Constant, EinsumInfo, Read, Spec, Term, WorkloadInfo, leaves

NumpyArray: TypeAlias = NDArray[Any]
MOST_AT_ONCE, MOST_LABELS = 2**22, 50
"""Points of an Einsum that are computed together, and variables that NumPy's einsum knows."""


def run(
    spec: Spec, inputs: Mapping[str, Any] | None = None, whole: bool = False, random_weights: bool = False
) -> dict[str, NumpyArray]:
    """The results of a workload for arrays of its inputs, with an axis for each rank; all tensors if `whole`.

    Without inputs, small whole numbers are made up. What an Einsum computes is in its text or its `formula`.
    What `from_onnx` gives takes the inputs of the network, and gives its outputs, with the weights of the file or `random_weights`.

    >>> from fusiest import load
    >>> run(load("matmuls", N_EINSUMS=1, M=2, KN=2), {"T0": [[1, 2], [3, 4]], "W0": [[1, 1], [0, 2]]})
    {'T1': array([[ 1.,  5.],
           [ 3., 11.]])}
    """
    if isinstance(spec, NetworkSpec):
        from fusiest.code.networks import run_network

        return run_network(spec, spec.meaning(random_weights), inputs or {})
    info = spec.info
    arrays = input_arrays(info, inputs)
    found = computed(info, meanings(spec, rows=True), arrays)
    results = [tensor for tensor, makers in info.producers.items() if whole or len(info.users[tensor]) == len(makers)]
    return {tensor: found[tensor] for tensor in results}


def input_arrays(info: WorkloadInfo, inputs: Mapping[str, Any] | None) -> dict[str, NumpyArray]:
    """The inputs as arrays, or made-up ones: whole numbers from 0 to 3, the same every time."""
    wanted = [tensor for tensor in info.users if tensor not in info.producers]
    if inputs is None:
        return {tensor: _made_up(shapes(info)[tensor].size, i) for i, tensor in enumerate(wanted)}
    for name in inputs:
        check_known(name, wanted, f"the workload has no input {name}")
    missing = [tensor for tensor in wanted if tensor not in inputs]
    if missing:
        raise SpecError(f"inputs are missing: {', '.join(missing)}")
    return {tensor: np.asarray(inputs[tensor], float) for tensor in wanted}


def _made_up(size: tuple[int, ...], number: int) -> NumpyArray:
    """Small whole numbers, as generated code makes them, too: of the i-th input, the j-th depends on i and j alone."""
    places = np.arange(math.prod(size), dtype=np.uint32)
    values = (places * np.uint32(2654435761) + np.uint32(number * 40503)) >> np.uint32(13) & np.uint32(3)
    return values.astype(float).reshape(size)


def computed(info: WorkloadInfo, bodies: Mapping[str, Body], inputs: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
    """All tensors: the inputs, and what the Einsums make of them, one after the other."""
    boxes = shapes(info, {tensor: array.shape for tensor, array in inputs.items()})
    arrays = dict(inputs)
    for einsum in info.einsums.values():
        compute(einsum, bodies[einsum.name], boxes, arrays)
    return arrays


def compute(einsum: EinsumInfo, body: Body, boxes: Mapping[str, TensorShape], arrays: dict[str, NumpyArray]) -> None:
    """One Einsum: what it makes is put among the arrays, where all is that it reads."""
    arrays.setdefault(einsum.output, np.zeros(boxes[einsum.output].size))
    _EinsumRun(einsum, body, boxes, arrays).run()


class _EinsumRun:
    """One Einsum on whole tensors, read and written through strided views with an axis for each variable."""

    def __init__(
        self, einsum: EinsumInfo, body: Body, boxes: Mapping[str, TensorShape], arrays: Mapping[str, NumpyArray]
    ) -> None:
        self.einsum, self.body = einsum, body
        self.sizes = tuple(einsum.bounds.values())
        target = einsum.accesses[einsum.output]
        self.gone = tuple(i for i, v in enumerate(einsum.bounds) if v not in target.variables)
        self.output = self._view(arrays[einsum.output], target, boxes[einsum.output])
        self.views: dict[str, NumpyArray] = {}
        self.inside: NumpyArray | None = None
        for tensor, access in einsum.accesses.items():
            if not access.output:
                self._read(arrays[tensor], access, boxes[tensor])
        for name, access in body.parameters.items():
            shape = arrays[name].shape
            self._read(arrays[name], access, TensorShape(tuple(access.ranks), (0,) * len(shape), shape))

    def run(self) -> None:
        """Compute it all, in slabs along a variable that is not reduced."""
        products = self._products()
        if products is not None:
            self._write((slice(None),) * len(self.sizes), products)
            return
        kept = [i for i in range(len(self.sizes)) if i not in self.gone]
        along = max(kept, key=lambda i: self.sizes[i], default=None)
        length = self.sizes[along] if along is not None else 1
        step = max(1, MOST_AT_ONCE * length // math.prod(self.sizes)) if not self._has_rows(self.body.map) else length
        for start in range(0, length, step):
            cut = tuple(slice(start, start + step) if i == along else slice(None) for i in range(len(self.sizes)))
            values = {tensor: _part(view, cut) for tensor, view in self.views.items()}
            mapped = np.broadcast_to(self._value(self.body.map, values), _cut_sizes(self.sizes, cut))
            if self.inside is not None:
                mapped = np.where(_part(self.inside, cut), mapped, IDENTITY[self.body.reduction])
            self._write(
                cut, _REDUCE[self.body.reduction](mapped, axis=self.gone, keepdims=True) if self.gone else mapped
            )

    def _write(self, cut: tuple[slice, ...], reduced: NumpyArray) -> None:
        """Apply what comes after to values that are reduced, and put them where they belong."""
        first = tuple(slice(0, 1) if i in self.gone else s for i, s in enumerate(cut))
        values = {tensor: _part(view, first) for tensor, view in self.views.items()}
        _part(self.output, first)[...] = self._value(self.body.after, {**values, REDUCED.tensor: reduced})

    # --- reading --------------------------------------------------------------------------------------------------

    def _read(self, array: NumpyArray, access: Access, box: TensorShape) -> None:
        """A view of what is read, zeros where that is outside of the tensor."""
        spans = {rank: span(affine, self.einsum.bounds) for rank, affine in access.ranks.items()}
        ends = {rank: box.bounds(rank) for rank in spans}
        if all(ends[rank][0] <= low and high < ends[rank][1] for rank, (low, high) in spans.items()):
            self.views[access.tensor] = self._view(array, access, box)
            return
        lows = [min(ends[rank][0], spans[rank][0]) for rank in box.ranks]
        pads = [
            (ends[rank][0] - low, max(ends[rank][1], spans[rank][1] + 1) - ends[rank][1])
            for rank, low in zip(box.ranks, lows, strict=True)
        ]
        wide = TensorShape(box.ranks, tuple(lows), ())
        value = self.body.padding.get(access.tensor)
        self.views[access.tensor] = self._view(np.pad(array, pads, constant_values=value or 0.0), access, wide)
        if value is not None:
            return
        inside = self._view(np.pad(np.ones(array.shape, bool), pads), access, wide)
        self.inside = inside if self.inside is None else self.inside & inside

    def _view(self, array: NumpyArray, access: Access, box: TensorShape) -> NumpyArray:
        """An axis for each variable; of length 1 for those that do not index the tensor."""
        steps = dict(zip(box.ranks, array.strides, strict=True))
        strides, sizes = [], []
        for variable, size in self.einsum.bounds.items():
            moved = [a.coefficients[variable] * steps[r] for r, a in access.ranks.items() if variable in a.coefficients]
            strides.append(sum(moved))
            sizes.append(size if moved else 1)
        begin = tuple(access.ranks[rank].constant - low for rank, low in zip(box.ranks, box.low, strict=True))
        corner: Any = (*(slice(at, at + 1) for at in begin), ...)  # an array, also of no axes
        first = array[corner]
        return np.lib.stride_tricks.as_strided(first, sizes, strides)

    # --- computing ------------------------------------------------------------------------------------------------

    def _products(self) -> NumpyArray | None:
        """A sum of products, without an array of all points; None if it is something else."""
        term, labels = self.body.map, range(len(self.sizes))
        factors = term.arguments if isinstance(term, Call) and term.function == "multiply" else (term,)
        tensors = [factor.tensor for factor in factors if isinstance(factor, Read)]
        if not self.gone or self.body.reduction != "sum" or len(tensors) < len(factors) or len(labels) > MOST_LABELS:
            return None
        operands: list[Any] = []
        for view in (self.views[tensor] for tensor in tensors):
            axes = [i for i in labels if view.shape[i] > 1]
            operands += [view.reshape([view.shape[i] for i in axes]), axes]
        seen = {i for axes in operands[1::2] for i in axes}
        alone = math.prod(self.sizes[i] for i in self.gone if i not in seen)
        out = [i for i in labels if i in seen and i not in self.gone]
        with np.errstate(all="ignore"):
            found = np.einsum(*operands, out, optimize=True) * alone
        return np.asarray(found).reshape([self.sizes[i] if i in out else 1 for i in labels])

    def _value(self, term: Term, values: Mapping[str, Any]) -> Any:
        if isinstance(term, Read):
            return values[term.tensor]
        if isinstance(term, Constant):
            return term.value
        with np.errstate(all="ignore"):
            if term.function in ROWS:
                return self._row(term, [self._value(argument, values) for argument in term.arguments])
            if term.function not in FOLDED:
                return numpy_function(term.function)(*(self._value(part, values) for part in term.arguments))
            result = self._value(term.arguments[0], values)
            for part in term.arguments[1:]:
                if term.function == "multiply" and isinstance(part, Call) and part.function == "reciprocal":
                    result = result / self._value(part.arguments[0], values)
                else:
                    result = numpy_function(term.function)(result, self._value(part, values))
            return result

    def _has_rows(self, term: Term) -> bool:
        return isinstance(term, Call) and (term.function in ROWS or any(map(self._has_rows, term.arguments)))

    def _row(self, call: Call, arguments: list[Any]) -> Any:
        """A function of rows, along some variables together."""
        tensor = next(leaf.tensor for leaf in leaves(call) if isinstance(leaf, Read))
        last = list(self.einsum.accesses[tensor].ranks.values())[-1].variables[-1]
        axes = [
            list(self.einsum.bounds).index(variable)
            for variable in ((last,) if self.body.rows is None else self.body.rows)
        ]
        x, *others = (np.broadcast_to(argument, self.sizes) for argument in arguments)
        if call.function in ("softmax", "log_softmax"):
            shifted = x - x.max(tuple(axes), keepdims=True)
            total = np.exp(shifted).sum(tuple(axes), keepdims=True)
            return shifted - np.log(total) if call.function == "log_softmax" else np.exp(shifted) / total
        order = [i for i in range(x.ndim) if i not in axes] + axes
        shape = [self.sizes[i] for i in order]
        flat, cos, sin = (np.transpose(a, order).reshape(*shape[: len(order) - len(axes)], -1) for a in (x, *others))
        if call.function == "rotate_pairs":
            turned = np.stack([-flat[..., 1::2], flat[..., ::2]], -1).reshape(flat.shape)
        else:
            half = flat.shape[-1] // 2
            turned = np.concatenate([-flat[..., half:], flat[..., :half]], -1)
        return np.transpose((flat * cos + turned * sin).reshape(shape), np.argsort(order))


def _place_of(extreme: Callable[..., Any]) -> Callable[..., Any]:
    """Where the extreme is, counted over all axes that go together."""

    def place(values: NumpyArray, axis: tuple[int, ...], keepdims: bool) -> NumpyArray:
        last = np.moveaxis(values, axis, range(-len(axis), 0))
        found: NumpyArray = extreme(last.reshape(*last.shape[: last.ndim - len(axis)], -1), -1)
        return np.expand_dims(found, axis) if keepdims else found

    return place


_REDUCE: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod, "argmax": _place_of(np.argmax), "argmin": _place_of(np.argmin),
}  # fmt: skip


def _cut_sizes(sizes: tuple[int, ...], cut: tuple[slice, ...]) -> tuple[int, ...]:
    return tuple(len(range(size)[s]) for size, s in zip(sizes, cut, strict=True))


def _part(view: NumpyArray, cut: tuple[slice, ...]) -> NumpyArray:
    """A part of a view; of axes that do not vary, the one index."""
    slices: Any = (s if size > 1 else slice(None) for s, size in zip(cut, view.shape, strict=True))
    index: Any = (*slices, ...)
    part: NumpyArray = view[index]
    return part


_ERF = np.frompyfunc(math.erf, 1, 1)


def numpy_function(name: str) -> Callable[..., Any]:
    """A primitive function of arrays of floats."""
    numpy = PRIMITIVES[name].numpy
    if numpy == "erf":
        return lambda x: np.asarray(_ERF(x), float)
    if numpy == "where":
        return lambda condition, a, b: np.where(condition != 0, a, b)
    function: Callable[..., Any] = getattr(np, numpy)
    return (lambda a, b: function(a, b).astype(float)) if name in ("less", "equal") else function
