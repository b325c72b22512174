"""Runs imported Einsums in NumPy, from the loaded spec, and cut nodes with onnx.reference: the values must be the network's.

Indices and bounds are those of the spec; from the lowering come only the expressions, guards of padding and folded constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from fusiest.networks.lowering.extents import Axis, spread
from fusiest.networks.lowering.tensors import RESULT, Apply, Expression, NetAccess, NetEinsum, NetTensor, Position, View
from fusiest.networks.output.readable_names import NetNames
from fusiest.networks.passes.lowered import Lowered
from fusiest.spec.spec import Spec
from tests.networks.by_reference import NumpyArray, over_axes, run_node

IDENTITY = {"sum": 0.0, "mean": 0.0, "max": -np.inf, "min": np.inf, "prod": 1.0, "argmax": -np.inf, "argmin": np.inf}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Exp": np.exp, "Log": np.log, "Sqrt": np.sqrt,
    "Reciprocal": np.reciprocal, "Pow": np.power, "Abs": np.abs, "Neg": np.negative, "Tanh": np.tanh,
}  # fmt: skip


_LOGICAL = ("And", "Or", "Xor", "Not", "Where", "Cast")
"""Operators that take true and false as such; for others they are numbers, as a cast, which is a view, would make them."""


class Interpreter:
    """A network's Einsums on given inputs and weights."""

    def __init__(
        self, model: onnx.ModelProto, lowered: Lowered, names: NetNames, spec: Spec, batch: int | None = None
    ) -> None:
        self.model, self.lowered, self.names, self.spec, self.batch = model, lowered, names, spec, batch
        self.opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
        self.protos = {name: node for node in model.graph.node for name in node.output}
        self.arrays: dict[NetTensor, NumpyArray] = {}
        self.cut_by = {cut.tensor: cut for cut in lowered.cuts}

    def run(self, inputs: Mapping[str, NumpyArray], constants: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
        """The outputs of the network."""
        self.inputs, self.constants = inputs, constants
        for einsum in self.lowered.einsums:
            tensor = einsum.output.tensor
            made = self.arrays.setdefault(tensor, np.full([rank.size for rank in tensor.ranks()], np.nan))
            made[self.place_of_output(einsum)] = self.einsum(einsum)
        return {name: self.value(view) for name, view in self.lowered.outputs.items()}

    # --- tensors --------------------------------------------------------------------------------------------------

    def array(self, tensor: NetTensor) -> NumpyArray:
        """A tensor with an axis for each of its ranks."""
        if tensor not in self.arrays:
            self.arrays[tensor] = self._made(tensor)
        return self.arrays[tensor]

    def _made(self, tensor: NetTensor) -> NumpyArray:
        sizes = [rank.size for rank in tensor.ranks()]
        if tensor.kind == "constant":
            if tensor.source.startswith("<band"):
                rows, columns, past, *band = map(int, tensor.source[1:-1].split()[1:])
                ahead = np.arange(columns) - np.arange(rows)[:, None] - past
                return np.where(_in_band(ahead, band), 0.0, -np.inf).reshape(sizes)
            if tensor.source.startswith("<pairs"):
                _, interleaved, name = tensor.source[1:-1].split(" ", 2)
                table = self.constants[name]
                return (np.repeat(table, 2, -1) if int(interleaved) else np.concatenate([table, table], -1)).reshape(
                    sizes
                )
            if tensor.origin is None:
                return _wide(self.constants[tensor.source]).reshape(sizes)
            whole = self.array(tensor.origin)
            ranks = tensor.origin.ranks()
            index = tuple(slice(*_bounds(tensor.slices.get(rank))) for rank in ranks)
            return whole[index].reshape(sizes)
        cut = self.cut_by.get(tensor)
        if cut is not None and tensor.node is None:
            return self.value(cut.sent[0]).reshape(sizes)
        if tensor.node is not None:
            return self._by_reference(tensor).reshape(sizes)
        given = np.asarray(self.inputs[tensor.source])
        if tensor.laid is not None:
            shape, order = tensor.laid
            lead = [tensor.batch.size] if tensor.batch is not None else []
            given = given.reshape([*lead, *shape]).transpose([*range(len(lead)), *(len(lead) + i for i in order)])
        return given.reshape(sizes)

    def _by_reference(self, tensor: NetTensor) -> NumpyArray:
        """The output of a node that is no Einsum."""
        node = self.protos[tensor.source]
        values = self.lowered.lowering.values

        def given(name: str, sample: int | None) -> NumpyArray | None:
            if not name:
                return None
            if name in self.constants:
                return np.asarray(self.constants[name])
            view = values[name]
            assert isinstance(view, View)
            found = self.value(view)
            return found[sample] if sample is not None and view.tensor.batch is not None else found

        place = list(node.output).index(tensor.source)
        if tensor.batch is None:
            return run_node(node, [given(name, None) for name in node.input], self.opset)[place]
        size = tensor.batch.size
        return np.stack([run_node(node, [given(n, i) for n in node.input], self.opset)[place] for i in range(size)])

    def value(self, view: View) -> NumpyArray:
        """A view as an array of its shape, behind the batch if there is one."""
        array = self.array(view.tensor)
        batched = view.tensor.batch is not None
        shape = view.shape
        index: dict[Axis, Any] = dict(view.offsets())
        for i, axis in enumerate(view.axes):
            grid = np.arange(shape[i]).reshape([-1 if j == i else 1 for j in range(len(shape))])
            for factor in reversed(spread(axis)):
                if factor.axis is not None:
                    index[factor.axis] = index.get(factor.axis, 0) + factor.coefficient * (grid % factor.size)
                grid = grid // factor.size
        ranks = [rank for rank in view.tensor.ranks() if not batched or rank is not view.tensor.batch]
        inside = np.ones(shape, bool)
        places = []
        for rank in ranks:
            place = np.asarray(index.get(rank, 0))
            inside &= (place >= 0) & (place < rank.size)
            places.append(np.broadcast_to(np.clip(place, 0, rank.size - 1), shape))
        if batched:
            found = array[(slice(None), *places)] if places else array.reshape(array.shape[:1] + (1,) * len(shape))
            found = np.broadcast_to(found, (array.shape[0], *shape))
        else:
            found = array[tuple(places)] if places else np.broadcast_to(array, shape)
        return np.where(inside, found, view.padded or 0) if view.padded is not None else np.asarray(found)

    def place_of_output(self, einsum: NetEinsum) -> tuple[int | slice, ...]:
        """Where an Einsum writes, as the spec says."""
        info = self.spec.info.einsums[self.names.einsums[einsum]]
        found: list[int | slice] = []
        for rank in einsum.output.tensor.ranks():
            affine = info.accesses[info.output].ranks[self.names.ranks[rank]]
            if affine.variables:
                (variable,) = affine.variables
                assert affine.coefficients[variable] == 1
                found.append(slice(affine.constant, affine.constant + info.bounds[variable]))
            else:
                found.append(affine.constant)
        return tuple(found)

    # --- Einsums --------------------------------------------------------------------------------------------------

    def einsum(self, einsum: NetEinsum) -> NumpyArray:
        name = self.names.einsums[einsum]
        info = self.spec.info.einsums[name]
        variables = list(info.bounds)
        sizes = [info.bounds[v] for v in variables]
        grid = {
            v: np.arange(n).reshape([-1 if i == j else 1 for j in range(len(sizes))])
            for i, (v, n) in enumerate(zip(variables, sizes, strict=True))
        }
        seen: dict[int, Any] = {}
        inside = np.ones([1] * len(sizes), bool)
        for access in (*einsum.reads, *einsum.folded):
            seen[id(access)], within = self._read(einsum, access, grid)
            inside = inside & within
        products = self._summed_products(einsum, seen, sizes, info, inside)
        full = np.broadcast_to(self.evaluate(einsum.body, seen, einsum, variables), sizes) if products is None else None
        out = info.accesses[info.output]
        ranks = [self.names.ranks[rank] for rank in einsum.output.tensor.ranks()]
        kept = [out.ranks[rank].variables[0] for rank in ranks if out.ranks[rank].variables]
        gone = tuple(i for i, v in enumerate(variables) if v not in kept)
        result = products if full is None else self._reduced(einsum, full, np.broadcast_to(inside, sizes), gone)
        small = {key: _shrunk(value, gone) for key, value in seen.items()}
        small[id(RESULT)] = result
        result = np.broadcast_to(
            self.evaluate(einsum.after, small, einsum, variables), [1 if i in gone else n for i, n in enumerate(sizes)]
        )
        result = result.reshape([n for i, n in enumerate(sizes) if i not in gone])
        rest = [v for v in variables if v in kept]
        return np.transpose(result, [rest.index(v) for v in kept])

    def _summed_products(
        self, einsum: NetEinsum, seen: Mapping[int, Any], sizes: list[int], info: Any, inside: NumpyArray
    ) -> NumpyArray | None:
        """Products of two that are summed up, without an array of all of them; None if it is something else."""
        body = einsum.body
        plain = (
            isinstance(body, Apply)
            and body.operator == "Mul"
            and einsum.reduction == "sum"
            and math.prod(sizes) > 10_000
        )
        if not plain or any(id(argument) not in seen for argument in body.arguments):
            return None
        first, second = (np.asarray(seen[id(argument)], float) for argument in body.arguments)
        wide = [i for i, n in enumerate(inside.shape) if n > 1]
        if any(first.ndim and first.shape[i] == 1 for i in wide):
            return None  # what is outside depends on more than the first operand has
        first = np.where(inside, first, 0.0)
        kept = {v for affine in info.accesses[info.output].ranks.values() for v in affine.variables}
        letters = [[i for i, n in enumerate(a.shape) if n > 1] for a in (first, second)]
        squeezed = [a.reshape([n for n in a.shape if n > 1]) for a in (first, second)]
        out = [i for i, v in enumerate(info.bounds) if v in kept]
        found = np.einsum(
            squeezed[0],
            letters[0],
            squeezed[1],
            letters[1],
            [i for i in out if i in {*letters[0], *letters[1]}],
            optimize=True,
        )
        return found.reshape([n if i in out else 1 for i, n in enumerate(sizes)])

    def _read(
        self, einsum: NetEinsum, access: NetAccess, grid: Mapping[str, NumpyArray]
    ) -> tuple[NumpyArray, NumpyArray]:
        """The values that are read at each point, and where no guard forbids them."""
        array = self.array(access.tensor)
        name = self.names.tensors.get(access.tensor)
        info = self.spec.info.einsums[self.names.einsums[einsum]]
        places = []
        outside = np.zeros([1] * len(grid), bool)
        for rank, position in access.index.items():
            if access in einsum.reads:
                affine = info.accesses[str(name)].ranks[self.names.ranks[rank]]
                place = sum((c * grid[v] for v, c in affine.coefficients.items()), np.asarray(affine.constant))
            else:
                place = self._place(einsum, position, grid)
            outside = outside | (place < 0) | (place >= rank.size)
            places.append(np.clip(place, 0, rank.size - 1))
        found = array[tuple(np.broadcast_arrays(*places))] if places else array
        if access.padded is not None:
            found = np.where(outside, access.padded, found)
            outside = np.zeros_like(outside)
        for guard in access.guards:
            place = self._place(einsum, guard.position, grid)
            outside = outside | (place < 0) | (place >= guard.size)
        return found, ~outside

    def _place(self, einsum: NetEinsum, position: Position, grid: Mapping[str, NumpyArray]) -> NumpyArray:
        names = self.names.variables
        terms = (c * grid[names[einsum, v]] for v, c in position.terms.items())
        return sum(terms, np.asarray(position.constant))

    def _reduced(self, einsum: NetEinsum, full: NumpyArray, inside: NumpyArray, gone: tuple[int, ...]) -> NumpyArray:
        kind = einsum.reduction
        if kind is None:
            return np.where(inside, full, 0) if not inside.all() else full
        if kind in ("mean_inside", "mean_padded"):
            counted = inside if kind == "mean_inside" else self._with_padding(einsum, inside)
            return np.where(inside, full, 0).sum(gone, keepdims=True) / counted.sum(gone, keepdims=True)
        masked = np.where(inside, full, IDENTITY[kind])
        if kind in ("argmax", "argmin"):
            last = np.moveaxis(masked, gone, range(-len(gone), 0))
            flat = last.reshape(*last.shape[: last.ndim - len(gone)], -1)
            last_one = einsum.node.get("select_last_index", 0)
            pick = getattr(np, kind)
            found = flat.shape[-1] - 1 - pick(flat[..., ::-1], -1) if last_one else pick(flat, -1)
            return found.reshape([1 if i in gone else n for i, n in enumerate(full.shape)])
        return np.asarray(getattr(np, kind)(masked, axis=gone, keepdims=True))

    def _with_padding(self, einsum: NetEinsum, inside: NumpyArray) -> NumpyArray:
        """Places of a window that are in the image or in its padding."""
        pads, rank = einsum.node.get("pads"), len(einsum.node.get("pads")) // 2
        info = self.spec.info.einsums[self.names.einsums[einsum]]
        sizes = list(info.bounds.values())
        grid = {
            v: np.arange(n).reshape([-1 if i == j else 1 for j in range(len(sizes))])
            for i, (v, n) in enumerate(info.bounds.items())
        }
        counted = np.ones(sizes, bool)
        guards = einsum.reads[0].guards
        padded = [
            i
            for i in range(rank)
            if (einsum.node.get("kernel_shape")[i], einsum.node.get("strides")[i], pads[i]) != (1, 1, 0)
        ]
        for guard, i in zip(guards, padded, strict=True):
            place = self._place(einsum, guard.position, grid)
            counted &= (place >= -pads[i]) & (place < guard.size + pads[rank + i])
        return counted

    # --- expressions ----------------------------------------------------------------------------------------------

    def evaluate(self, expression: Expression, known: dict[int, Any], einsum: NetEinsum, variables: list[str]) -> Any:
        if id(expression) in known:
            return known[id(expression)]
        assert isinstance(expression, Apply), expression
        arguments = [self.evaluate(argument, known, einsum, variables) for argument in expression.arguments]
        result = self._applied(expression, arguments, einsum, variables)
        known[id(expression)] = result
        return result

    def _applied(self, apply: Apply, arguments: list[Any], einsum: NetEinsum, variables: list[str]) -> Any:
        kind, given = apply.operator, apply.attributes
        if kind == "Constant":
            return np.asarray(given["value"])
        if kind not in _LOGICAL:
            arguments = [a.astype(float) if np.asarray(a).dtype.kind == "b" else a for a in arguments]
        if kind == "UpToLengths":
            return self._up_to_lengths(apply, arguments, einsum)
        if "over" in given:
            sizes = list(self.spec.info.einsums[self.names.einsums[einsum]].bounds.values())
            arguments = [np.broadcast_to(argument, sizes) for argument in arguments]
            return over_axes(
                apply, arguments, [variables.index(self.names.variables[einsum, v]) for v in _leaves(given["over"])]
            )
        if kind == "AddMask":
            return np.where(arguments[1].astype(bool), arguments[0], -np.inf)
        if kind == "Requantize":
            x, a, b, y, *zero = arguments
            zero_point = zero[0] if zero else 0
            low, high = (0, 255) if given["unsigned"] else (-128, 127)
            return np.clip(np.rint(x * a * b / y) + zero_point, low, high)
        if kind == "QuantizationScale":
            low, high = np.minimum(arguments[0], 0), np.maximum(arguments[1], 0)
            return (high - low) / 255
        if kind == "QuantizationZero":
            return np.clip(np.rint(-np.minimum(arguments[0], 0) / arguments[2]), 0, 255)
        if kind == "QuantizeLinear":
            unsigned = given.get("unsigned", False)
            zero_point = arguments[2] if len(arguments) > 2 else 0
            return np.clip(np.rint(arguments[0] / arguments[1]) + zero_point, *((0, 255) if unsigned else (-128, 127)))
        if kind == "DequantizeLinear":
            return (arguments[0] - (arguments[2] if len(arguments) > 2 else 0)) * arguments[1]
        if kind == "BatchNormalization":
            x, scale, bias, mean, variance = arguments
            return (x - mean) / np.sqrt(variance + given.get("epsilon", 1e-5)) * scale + bias
        if kind in FUNCTIONS:
            return FUNCTIONS[kind](*arguments)
        return self._by_onnx(apply, arguments)

    def _up_to_lengths(self, apply: Apply, arguments: list[Any], einsum: NetEinsum) -> Any:
        bounds = self.spec.info.einsums[self.names.einsums[einsum]].bounds
        places = list(bounds)
        counted = []
        for axes in (apply.attributes["rows"], apply.attributes["over"]):
            index, size = np.zeros([1] * len(bounds), int), 1
            for leaf in reversed(_leaves(axes)):
                at = places.index(self.names.variables[einsum, leaf])
                index = index + size * np.arange(leaf.size).reshape([-1 if i == at else 1 for i in range(len(bounds))])
                size *= leaf.size
            counted.append((index, size))
        (row, rows), (key, _) = counted
        scores, lengths = arguments
        seen = (key < lengths) & _in_band(key - row - (lengths - rows), apply.attributes["band"])
        return np.where(seen, scores, -np.inf)

    def _by_onnx(self, apply: Apply, arguments: list[Any]) -> Any:
        assert apply.node is not None
        proto = self.protos[apply.node.outputs[0]]
        present = apply.attributes.get("present", tuple(range(len(arguments))))
        arrays: list[NumpyArray | None] = [None] * (max(present) + 1)
        for i, argument in zip(present, arguments, strict=True):
            array = np.asarray(argument)
            arrays[i] = array.astype(np.float64) if array.dtype.kind == "f" else array
        if apply.operator == "Clip":
            arrays = [arrays[0], *(a.reshape(-1)[0] if a is not None else None for a in arrays[1:])]
        else:
            wide = np.broadcast_arrays(*[a for a in arrays if a is not None])
            arrays = [next(iter_) if a is not None else None for iter_ in [iter(wide)] for a in arrays]
        if all(a is None or a.ndim == 0 for a in arrays):  # which some functions of the reference cannot do
            return run_node(proto, [a if a is None else a.reshape(1) for a in arrays], self.opset)[0].reshape(())
        return run_node(proto, arrays, self.opset)[0]


def _in_band(ahead: NumpyArray, band: Sequence[int]) -> NumpyArray:
    """Whether keys so far ahead of their query are near enough, backwards and forwards; -1 is any distance."""
    left, right = band
    return ((left < 0) | (-ahead <= left)) & ((right < 0) | (ahead <= right))


def _wide(array: Any) -> NumpyArray:
    """Whole numbers as numbers that do not overflow."""
    found = np.asarray(array)
    return found.astype(np.float64) if found.dtype.kind in "iu" else found


def _bounds(part: tuple[int, int, int] | None) -> tuple[int | None, int | None, int | None]:
    return (None, None, None) if part is None else (part[0], part[0] + part[1] * part[2], part[2])


def _leaves(axes: Sequence[Axis]) -> list[Axis]:
    return [leaf for axis in axes for leaf in axis.leaves()]


def _shrunk(value: Any, gone: tuple[int, ...]) -> Any:
    """Values that do not vary over what is summed up, at one of its points."""
    array = np.asarray(value)
    return array[tuple(slice(0, 1) if i in gone else slice(None) for i in range(array.ndim))] if array.ndim else array
