"""What a network computes: a formula for each Einsum, arrays of weights, and how inputs and outputs are laid out.

The Einsums are those of the import; what the import folded into them, such as biases, are parameters that cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fusiest.base.errors import SpecError, shown
from fusiest.base.frozen import FrozenDict
from fusiest.networks.lowering.extents import Axis, spread
from fusiest.networks.lowering.tensors import RESULT, Apply, NetAccess, NetEinsum, NetTensor, Position, View
from fusiest.networks.output.readable_names import NetNames
from fusiest.networks.passes.lowered import Lowered
from fusiest.networks.values.operator_terms import term_of
from fusiest.networks.values.weights import Constants, RawArray
from fusiest.spec import REDUCED, Access, Affine, Call, Constant, Read, Term

if TYPE_CHECKING:
    import onnx

_NOTHING = {"sum": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0, "argmax": -math.inf, "argmin": math.inf}
"""By reduction, what a point adds that does not count."""


@dataclass(frozen=True, slots=True)
class NetFormula:
    """What an Einsum computes: `after` of the `reduction` of `map`. `wrong`: why no formula says it."""

    map: Term
    reduction: str
    after: Term
    parameters: Mapping[str, Access] = field(default_factory=dict)
    """What it reads for nothing: how, by name."""
    padding: Mapping[str, float] = field(default_factory=dict)
    """What is read outside of a tensor, where that counts."""
    rows: tuple[str, ...] | None = None
    """Variables along which functions of whole rows go."""
    wrong: str | None = None


@dataclass(frozen=True, slots=True)
class Picked:
    """An array made of another one: at each place, the element of this number; or `padded`, where it is less than 0."""

    source: str
    """A tensor of the workload, or an input of the network."""
    numbers: RawArray
    padded: float = 0.0
    kind: str = "float64"
    """The type of its elements, by NumPy's name."""

    def of(self, array: RawArray) -> RawArray:
        found = np.asarray(array, float).reshape(-1)[np.maximum(self.numbers, 0)]
        return np.where(self.numbers < 0, self.padded, found).astype(self.kind)


@dataclass(frozen=True, slots=True)
class CutNode:
    """A node that is no Einsum: ONNX's reference computes it, between parts of the program."""

    node: bytes
    inputs: tuple[Picked | RawArray | None, ...]
    outputs: Mapping[int, str]
    """Tensors of the workload, by the place of the node's output."""


@dataclass(frozen=True, slots=True)
class NetworkMeaning:
    """A network with its weights."""

    formulas: Mapping[str, NetFormula]
    weights: Mapping[str, RawArray]
    """Inputs of the workload that are constants of the network."""
    parameters: Mapping[str, RawArray]
    inputs: Mapping[str, Picked]
    """Inputs of the workload that are inputs of the network."""
    outputs: Mapping[str, Picked]
    """Outputs of the network, by name."""
    cuts: tuple[CutNode, ...]
    shapes: Mapping[str, tuple[int, ...]]
    """Of inputs of the workload, by rank."""
    given: Mapping[str, tuple[int, ...]]
    """Shapes of the network's inputs."""
    opset: Mapping[str, int]
    made_up: str = ""
    """What to say of weights that are not in the file."""


def meaning_of(model: onnx.ModelProto, lowered: Lowered, names: NetNames, constants: Constants) -> NetworkMeaning:
    """The meaning of an import; `constants` are the values of all that depends on no input."""
    if lowered.lowering.batch is not None:
        raise SpecError("values are of one sample: leave the batch out")
    missing = constants.weights - constants.stored
    made_up = f"{missing} of {constants.weights} weights are not in the file, and random ones take their place"
    return replace(_Meaning(model, lowered, names, constants.values).whole(), made_up=made_up if missing else "")


class _Meaning:
    def __init__(
        self, model: onnx.ModelProto, lowered: Lowered, names: NetNames, constants: Mapping[str, RawArray]
    ) -> None:
        self.model, self.lowered, self.names, self.constants = model, lowered, names, constants
        self.parameters: dict[str, RawArray] = {}
        copies = [einsum for einsum in lowered.einsums if einsum.copy and einsum.suffix == "out"]
        self.copied_out = {einsum.reads[0].tensor: einsum.output.tensor for einsum in copies}

    def whole(self) -> NetworkMeaning:
        formulas = {self.names.einsums[einsum]: self._formula(einsum) for einsum in self.lowered.einsums}
        made = set(self.lowered.producers())
        read = dict.fromkeys(access.tensor for einsum in self.lowered.einsums for access in einsum.reads)
        cuts = {cut.tensor: cut for cut in self.lowered.cuts}
        weights, inputs, shapes = {}, {}, {}
        for tensor in (tensor for tensor in read if tensor not in made):
            name = self.names.tensors[tensor]
            shapes[name] = tuple(rank.size for rank in tensor.ranks())
            if tensor.kind == "constant":
                weights[name] = self._constant(tensor)
            elif tensor not in cuts and tensor.node is None:
                inputs[name] = self._laid(tensor)
        outputs = {name: self._picked(view) for name, view in self.lowered.outputs.items()}
        graph = self.lowered.lowering.graph
        given = {name: graph.shape(name) for name in graph.inputs}
        versions = {entry.domain: int(entry.version) for entry in self.model.opset_import}
        return NetworkMeaning(
            formulas, weights, self.parameters, inputs, outputs, tuple(self._cuts(read)), shapes, given, versions
        )

    # --- formulas -------------------------------------------------------------------------------------------------

    def _formula(self, einsum: NetEinsum) -> NetFormula:
        try:
            return self._said(einsum)
        except SpecError as error:
            return NetFormula(Constant(0), "sum", REDUCED, wrong=error.message)

    def _said(self, einsum: NetEinsum) -> NetFormula:
        known: dict[int, Term] = {id(RESULT): REDUCED}
        parameters: dict[str, Access] = {}
        padding: dict[str, float] = {}
        masks: list[Term] = []
        for access in einsum.reads:
            tensor = self.names.tensors[access.tensor]
            known[id(access)] = Read(tensor)
            if access.padded is not None:
                padding[tensor] = access.padded
            masks += self._masks(einsum, access, parameters)
        for access in einsum.folded:
            known[id(access)] = self._parameter(einsum, access, parameters)
        reduction, after = einsum.reduction or "sum", term_of(einsum.after, known)
        if reduction.startswith("mean"):
            count = self._count(einsum, reduction, parameters)
            mean = Call("multiply", (REDUCED, Call("reciprocal", (count,))))
            after = term_of(einsum.after, {**known, id(RESULT): mean})
            reduction = "sum"
        if reduction not in _NOTHING or einsum.node.get("select_last_index", 0):
            raise SpecError(f"no formula says {reduction}")
        mapped = term_of(einsum.body, known)
        if reduction.startswith("arg") and all(v in einsum.output.variables for v in einsum.variables):
            mapped, reduction = Constant(0), "sum"
        for mask in masks:
            mapped = Call("where", (mask, mapped, Constant(_NOTHING[reduction])))
        return NetFormula(mapped, reduction, after, parameters, padding, self._rows(einsum))

    def _rows(self, einsum: NetEinsum) -> tuple[str, ...] | None:
        """The variables of functions of whole rows."""
        over = einsum.body.attributes.get("over") if isinstance(einsum.body, Apply) else None
        if over is None:
            return None
        return tuple(self.names.variables[einsum, leaf] for axis in over for leaf in axis.leaves())

    def _masks(self, einsum: NetEinsum, access: NetAccess, parameters: dict[str, Access]) -> Iterator[Term]:
        """Where a point counts, as far as that does not follow from the sizes of tensors."""
        places = {(frozenset(p.terms.items()), p.constant, rank.size) for rank, p in access.index.items()}
        for guard in access.guards:
            position = guard.position
            if (frozenset(position.terms.items()), position.constant, guard.size) not in places:
                inside = (grid := self._grid(position, list(position.terms))) >= 0
                yield self._made(einsum, inside & (grid < guard.size), list(position.terms), parameters)

    @staticmethod
    def _grid(position: Position, variables: Sequence[Axis]) -> RawArray:
        """A position, with an axis for each of these variables."""
        grid = np.full([1] * len(variables), position.constant)
        for i, v in enumerate(variables):
            shape = [-1 if j == i else 1 for j in range(len(variables))]
            grid = grid + position.terms[v] * np.arange(v.size).reshape(shape)
        return grid

    def _made(
        self, einsum: NetEinsum, array: RawArray, variables: Sequence[Axis], parameters: dict[str, Access]
    ) -> Term:
        """A parameter that has an axis for each of these variables."""
        if array.size == 1:
            return Constant(float(array.reshape(-1)[0]))
        name = f"{self.names.einsums[einsum]}_p{len(parameters)}"
        while name in self.names.tensors.values() or name in self.parameters:
            name += "_"
        index = {f"R{i}": self._affine(einsum, Position({v: 1})) for i, v in enumerate(variables)}
        parameters[name] = Access(name, False, FrozenDict(index))
        self.parameters[name] = np.asarray(array, float)
        return Read(name)

    def _parameter(self, einsum: NetEinsum, access: NetAccess, parameters: dict[str, Access]) -> Term:
        """What is read for nothing: a number, or an array."""
        array = self._constant(access.tensor)
        if array.size == 1:
            return Constant(float(array.reshape(-1)[0]))
        name = f"{self.names.einsums[einsum]}_p{len(parameters)}"
        while name in self.names.tensors.values() or name in self.parameters:
            name += "_"
        ranks = {f"R{i}": self._affine(einsum, position) for i, position in enumerate(access.index.values())}
        parameters[name] = Access(name, False, FrozenDict(ranks))
        self.parameters[name] = array
        return Read(name)

    def _affine(self, einsum: NetEinsum, position: Position) -> Affine:
        terms = {self.names.variables[einsum, v]: factor for v, factor in position.terms.items() if factor}
        return Affine(FrozenDict(terms), position.constant)

    def _count(self, einsum: NetEinsum, reduction: str, parameters: dict[str, Access]) -> Term:
        """How many points a mean is over: all of them, or those that are inside, by the place of the window."""
        gone = [v for v in einsum.variables if v not in einsum.output.variables]
        if reduction == "mean":
            return Constant(math.prod(v.size for v in gone))
        (access,) = einsum.reads
        if not access.guards:
            return Constant(math.prod(v.size for v in gone))
        pads, n = einsum.node.get("pads"), len(einsum.node.get("pads")) // 2
        kernel, strides = einsum.node.get("kernel_shape"), einsum.node.get("strides", [1] * n)
        padded = [i for i in range(n) if (kernel[i], strides[i], pads[i]) != (1, 1, 0)]
        factor: Term = Constant(1)
        seen = {v for guard in access.guards for v in guard.position.terms}
        rest = math.prod(v.size for v in gone if v not in seen)
        for guard, i in zip(access.guards, padded, strict=True):
            before, behind = (pads[i], pads[n + i]) if reduction == "mean_padded" else (0, 0)
            factor = Call(
                "multiply", (factor, self._inside(einsum, guard.position, guard.size, (before, behind), parameters))
            )
        return Call("multiply", (factor, Constant(rest)))

    def _inside(
        self, einsum: NetEinsum, position: Position, size: int, pads: tuple[int, int], parameters: dict[str, Access]
    ) -> Term:
        """How many places of a window count along one axis, by the place of the window."""
        kept = [v for v in position.terms if v in einsum.output.variables]
        moved = [v for v in position.terms if v not in einsum.output.variables]
        grid = self._grid(position, [*kept, *moved])
        inside = (grid >= -pads[0]) & (grid < size + pads[1])
        return self._made(einsum, inside.sum(tuple(range(len(kept), inside.ndim))), kept, parameters)

    # --- arrays ---------------------------------------------------------------------------------------------------

    def _value(self, name: str) -> RawArray:
        value = self.lowered.lowering.graph.values.get(name)
        if name in self.constants:
            return np.asarray(self.constants[name], float)
        if value is not None and value.data is not None:
            return np.asarray(value.data, float)
        raise SpecError(f"the values of {shown(name)} are not known")

    def _constant(self, tensor: NetTensor) -> RawArray:
        """A constant with an axis for each of its ranks."""
        sizes = [rank.size for rank in tensor.ranks()]
        if tensor.source.startswith("<band"):
            rows, columns, past, left, right = map(int, tensor.source[1:-1].split()[1:])
            ahead = np.arange(columns) - np.arange(rows)[:, None] - past
            seen = ((left < 0) | (-ahead <= left)) & ((right < 0) | (ahead <= right))
            return np.where(seen, 0.0, -np.inf).reshape(sizes)
        if tensor.source.startswith("<pairs"):
            _, interleaved, name = tensor.source[1:-1].split(" ", 2)
            table = self._value(name)
            wide = np.repeat(table, 2, -1) if int(interleaved) else np.concatenate([table, table], -1)
            return wide.reshape(sizes)
        if tensor.origin is None:
            return self._value(tensor.source).reshape(sizes)
        whole = self._constant(tensor.origin)
        cut = []
        for rank in tensor.origin.ranks():
            start, count, step = tensor.slices.get(rank, (0, rank.size, 1))
            cut.append(slice(start, start + count * step, step))
        return whole[tuple(cut)].reshape(sizes)

    @staticmethod
    def _laid(tensor: NetTensor) -> Picked:
        """An input in the order of the tensor's ranks."""
        sizes = [rank.size for rank in tensor.ranks()]
        numbers = np.arange(math.prod(sizes))
        if tensor.laid is not None:
            shape, order = tensor.laid
            numbers = numbers.reshape(shape).transpose(order)
        return Picked(tensor.source, numbers.reshape(sizes))

    def _picked(self, view: View) -> Picked:
        """A view as the elements of its tensor."""
        tensor = view.tensor
        if tensor.kind == "constant":
            raise SpecError("an output of the network is a constant")
        shape, ranks = view.shape, tensor.ranks()
        index: dict[Any, Any] = dict(view.offsets())
        for i, axis in enumerate(view.axes):
            grid = np.arange(shape[i]).reshape([-1 if j == i else 1 for j in range(len(shape))])
            for factor in reversed(spread(axis)):
                if factor.axis is not None:
                    index[factor.axis] = index.get(factor.axis, 0) + factor.coefficient * (grid % factor.size)
                grid = grid // factor.size
        numbers, inside = np.zeros(shape, np.int64), np.ones(shape, bool)
        for rank in ranks:
            place = np.asarray(index.get(rank, 0))
            inside &= (place >= 0) & (place < rank.size)
            numbers = numbers * rank.size + np.clip(place, 0, rank.size - 1)
        tensor = self.copied_out.get(tensor, tensor)
        return Picked(self.names.tensors.get(tensor, tensor.source), np.where(inside, numbers, -1), view.padded or 0.0)

    def _cuts(self, read: Mapping[NetTensor, None]) -> Iterator[CutNode]:
        """The nodes between parts, with those before them."""
        sent = {cut.tensor: cut.sent for cut in self.lowered.cuts}
        nodes = {name: node for node in self.model.graph.node for name in node.output if name}
        waiting = [*read, *(view.tensor for view in self.lowered.outputs.values())]
        outputs: dict[str, dict[int, str]] = {}
        seen: set[NetTensor] = set()
        while waiting:
            tensor = waiting.pop()
            if tensor in seen or not (tensor in sent or (tensor.kind == "input" and tensor.node is not None)):
                continue
            seen.add(tensor)
            waiting += [view.tensor for view in sent.get(tensor, ())]
            name = self.names.tensors.get(tensor, tensor.source)
            if tensor.node is None:  # a value of the network that goes through the outermost memory
                yield CutNode(b"", (self._picked(sent[tensor][0]),), {0: name})
                continue
            if tensor.source not in nodes:
                raise SpecError(f"{shown(tensor.source)} is made by no node of the file")
            first = next(output for output in nodes[tensor.source].output if output)
            outputs.setdefault(first, {})[list(nodes[tensor.source].output).index(tensor.source)] = name
        for first, places in outputs.items():
            node = nodes[first]
            yield CutNode(node.SerializeToString(), tuple(map(self._taken, node.input)), places)

    def _taken(self, name: str) -> Picked | RawArray | None:
        """What a cut node takes."""
        if not name:
            return None
        if name in self.constants:
            return np.asarray(self.constants[name])
        view = self.lowered.lowering.values.get(name)
        if not isinstance(view, View):
            raise SpecError(f"{shown(name)} is not known outside of the Einsums")
        picked = self._picked(view)
        value = self.lowered.lowering.graph.values[name]
        return picked if value.floating else replace(picked, kind=self._kind(name))

    def _kind(self, name: str) -> str:
        """The type of what is no floating number, as far as the file says it."""
        from onnx import helper

        for info in (*self.model.graph.input, *self.model.graph.value_info, *self.model.graph.output):
            if info.name == name and info.type.tensor_type.elem_type:
                return str(helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type))
        return "int64"
