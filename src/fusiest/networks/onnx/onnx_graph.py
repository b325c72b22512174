"""ONNX files as graphs. Only protobuf is read: no external data, no code, and weights are never looked at.

Everything in a file may be wrong: what makes no sense is an error in one line.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fusiest.base.errors import SpecError, did_you_mean, shown
from fusiest.networks.graph.constants import values_of
from fusiest.networks.graph.graph import (
    MAX_KEPT,
    ONNX_FLOATING,
    RANDOM,
    GraphNode,
    GraphValue,
    NetworkGraph,
    equal_share,
    is_floating,
)
from fusiest.networks.graph.shapes import INFER, Operator, ShapeOf, UnknownShape, checked, together
from fusiest.networks.import_options import MAX_SIZE, ImportOptions
from fusiest.networks.lowering.elementwise import ELEMENTWISE_OPERATORS
from fusiest.networks.onnx.contrib import standard
from fusiest.networks.onnx.model_functions import inlined
from fusiest.spec import check_regular

if TYPE_CHECKING:
    import onnx

MAX_FILE = 2**31
SENSELESS = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError)
"""What attributes of another kind than expected lead to."""
MAX_NODES = 50_000
_UNSIGNED = frozenset([2, 4, 12, 13, 21])
_CHOOSING = frozenset(["TopK", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Equal", "Cast", "OneHot", "Gather", "Slice", "Split",
                       "Identity"])  # fmt: skip
"""From the experts that tokens chose to the tokens of an expert."""
_SCOPE = re.compile(r"'([^']*)'")


def load_onnx(path: str) -> onnx.ModelProto:
    """Parse a file, without its external data."""
    try:
        check_regular(path, os.stat(path))
        if os.path.getsize(path) >= MAX_FILE:
            raise SpecError(f"{path}: larger than 2 GiB, the most that protobuf can read")
        with open(path, "rb") as file:
            return parse_onnx(file.read(), path)
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}") from None


def parse_onnx(content: bytes, path: str) -> onnx.ModelProto:
    """A model from bytes; one line where they are none."""
    try:
        import onnx
    except ImportError:
        raise SpecError(f"{path}: reading ONNX needs the package onnx: pip install 'fusiest[onnx]'") from None
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except Exception as error:  # the parser's own errors have no common base
        raise SpecError(f"{path}: no ONNX model: {shown(error)}") from None
    if not model.graph.node and not model.graph.output:
        raise SpecError(f"{path}: no ONNX model: it has no graph")
    return model


def open_names(model: onnx.ModelProto) -> frozenset[str]:
    """Names of dimensions of inputs that have no size."""
    dims = (dim for info in model.graph.input for dim in info.type.tensor_type.shape.dim)
    return frozenset(dim.dim_param for dim in dims if dim.dim_param)


def read_onnx(model: onnx.ModelProto, name: str, options: ImportOptions) -> NetworkGraph:
    """A model's main graph, with all shapes."""
    reader = _ModelReader(model, name, options)
    try:
        reader.read()
    except SpecError as error:
        raise SpecError(f"{name}: {error.message}") from None
    except SENSELESS as error:
        raise SpecError(f"{name}: it makes no sense: {shown(error)}") from None
    return reader.graph


class _ModelReader:
    """One model on its way into a graph."""

    def __init__(self, model: onnx.ModelProto, name: str, options: ImportOptions) -> None:
        self.model, self.options = model, options
        self.graph = NetworkGraph(name)
        self.versions = {entry.domain or "ai.onnx": int(entry.version) for entry in model.opset_import}
        self.open: set[str] = set()
        self.shares: dict[str, int] = {}
        self.empty: set[str] = set()
        """Which experts tokens chose, and what is made of that: how many tokens each expert has."""

    def read(self) -> None:
        graph = self.model.graph
        if len(graph.node) > MAX_NODES:
            raise SpecError(f"{len(graph.node):,} nodes, more than {MAX_NODES:,}")
        for tensor in graph.initializer:
            self._constant(tensor)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            self._define(GraphValue(name, tuple(sparse.dims), constant=True, parameter=True))
        for info in graph.input:
            if info.name not in self.graph.values:
                floating = info.type.tensor_type.elem_type in ONNX_FLOATING
                self._define(GraphValue(info.name, self._input_shape(info), floating=floating))
                self.graph.inputs.append(info.name)
        unknown = self.options.dims.keys() - self.open
        for name in sorted(unknown):
            raise SpecError(
                f"--dim {shown(name)}: no input has an open dimension of that name{did_you_mean(name, self.open)}"
            )
        self.infos = {info.name: info for info in (*graph.value_info, *graph.output)}
        for i, node in enumerate(self._inlined(graph.node)):
            self._node(node, i)
        for info in graph.output:
            if info.name not in self.graph.values:
                raise SpecError(f"output {shown(info.name)} is made by no node")
            self.graph.outputs.append(info.name)
        if not self.graph.outputs:
            raise SpecError("the graph has no output")

    # --- values ---------------------------------------------------------------------------------------------------

    def _define(self, value: GraphValue) -> None:
        if value.name in self.graph.values:
            raise SpecError(f"two values are named {shown(value.name)}")
        self.graph.values[value.name] = value

    def _constant(self, tensor: onnx.TensorProto, name: str = "") -> None:
        shape = tuple(int(size) for size in tensor.dims)
        if any(size < 0 or size > MAX_SIZE for size in shape):
            raise SpecError(f"constant {shown(tensor.name)} has the shape {shown('x'.join(map(str, shape)))}")
        floating = tensor.data_type in ONNX_FLOATING
        self._define(
            GraphValue(
                name or tensor.name,
                shape,
                constant=True,
                data=_small_data(tensor, shape),
                floating=floating,
                unsigned=tensor.data_type in _UNSIGNED,
                parameter=floating and len(shape) > 0 and math.prod(shape) > 0,
            )
        )

    def _input_shape(self, info: onnx.ValueInfoProto) -> ShapeOf:
        kind = info.type.tensor_type
        if not info.type.HasField("tensor_type") or not kind.HasField("shape"):
            raise SpecError(f"input {shown(info.name)} has no shape")
        sizes: list[int] = []
        for i, dim in enumerate(kind.shape.dim):
            size = dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else 0
            if not size:
                size = self._open_size(info.name, i, dim.dim_param)
            if size > MAX_SIZE:
                raise SpecError(f"input {shown(info.name)}: dimension {i} is too large: {size}")
            sizes.append(size)
        return checked(sizes)

    def _open_size(self, name: str, axis: int, parameter: str) -> int:
        if parameter:
            self.open.add(parameter)
        if parameter in self.options.dims:
            return self.options.dims[parameter]
        if axis == 0 and self.options.batch is not None:
            return 1  # the batch is put around the whole network
        how = f"--dim {parameter}=SIZE" if parameter else "a file with all shapes"
        batch = " or --batch N" if axis == 0 else ""
        dimension = f"'{shown(parameter)}'" if parameter else f"{axis}"
        raise SpecError(f"input {shown(name)}: dimension {dimension} is open; give {how}{batch}")

    # --- nodes ----------------------------------------------------------------------------------------------------

    def _inlined(self, nodes: Any) -> Iterator[onnx.NodeProto]:
        """The nodes, those of the model's own functions and of compound operators in place of their calls."""
        functions = {(f.domain, f.name, f.overload): f for f in self.model.functions}
        for node in inlined(nodes, functions, MAX_NODES) if functions else nodes:
            yield from standard(node, lambda name: self.graph.values[name].shape if name in self.graph.values else ())

    def _node(self, node: onnx.NodeProto, index: int) -> None:
        if any(isinstance(text, bytes) for text in (node.name, node.op_type, node.domain, *node.input, *node.output)):
            raise SpecError(f"node {index} has a name that is no text")
        name = node.name or f"{node.op_type}_{index}"
        kind = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        try:
            inputs = [self._input(value_name) for value_name in node.input]
            attributes = {a.name: _attribute(a) for a in node.attribute if not _is_graph(a)}
            if kind == "Constant":
                self._constant_node(node, attributes)
                self.graph.nodes.append(GraphNode(name, kind, (), tuple(node.output)))
                return
            original, kind, inputs = _as_cast(kind, inputs, attributes)
            captured = sorted(_captured(node)) if any(map(_is_graph, node.attribute)) else []
            inner = [value_name for value_name in captured if value_name in self.graph.values]
            op = Operator(kind, inputs, attributes, len(node.output), self.versions.get(node.domain or "ai.onnx", 1))
            shapes = self._shapes(op, node)
            self._check_not_empty(op, shapes)
        except SpecError as error:
            raise SpecError(f"{shown(node.op_type)} node {shown(name)}: {error.message}") from None
        except SENSELESS as error:
            raise SpecError(f"{shown(node.op_type)} node {shown(name)}: it makes no sense: {shown(error)}") from None
        constant = all(value is None or value.constant for value in inputs) and not inner and kind not in RANDOM
        outputs = tuple(node.output)
        if not constant or not self.empty.isdisjoint(node.input):
            outputs = self._without_empty(node, shapes)
            if not any(outputs):
                self.graph.nodes.append(GraphNode(name, "Constant", (), tuple(node.output)))
                return
        shaped = kind in ("Shape", "Size")
        data = values_of(op, shapes[0]) if constant or shaped else None
        is_constant = constant or (shaped and data is not None)
        weights = kind == "ConstantOfShape" and _fills_with_floats(attributes) and math.prod(shapes[0]) > 1
        floating = weights or is_floating(kind, inputs, attributes)
        for output, shape in zip(outputs, shapes, strict=True):
            if output:
                self._define(GraphValue(output, shape, is_constant, data, floating=floating, parameter=weights))
        names = tuple(
            value_name if value is not None else ""
            for value_name, value in zip(node.input, inputs, strict=False)
            if value_name not in self.empty
        )
        self.graph.nodes.append(GraphNode(name, kind, names + tuple(inner), outputs, attributes, _path(node), original))

    def _without_empty(self, node: onnx.NodeProto, shapes: Sequence[ShapeOf]) -> tuple[str, ...]:
        """The outputs, those left out that have no elements: what is cut off where nothing is left, and made of that."""
        for output, shape in zip(node.output, shapes, strict=True):
            if output and 0 in shape:
                self.empty.add(output)
                self._define(GraphValue(output, shape, constant=True, data=np.zeros(shape), floating=True))
        return tuple("" if output in self.empty else output for output in node.output)

    def _check_not_empty(self, op: Operator, shapes: Sequence[ShapeOf]) -> None:
        """What has no elements may be put beside others; what else makes something of it is not known."""
        empty = next((value.name for value in op.inputs if value is not None and value.name in self.empty), None)
        if empty is not None and op.kind != "Concat" and not all(0 in shape for shape in shapes):
            raise SpecError(f"its input {shown(empty)} is empty")

    def _input(self, name: str) -> GraphValue | None:
        if not name:
            return None
        value = self.graph.values.get(name)
        if value is None:
            raise SpecError(
                f"{shown(name)} is not made before it is used: the graph has a cycle, or the file is broken"
            )
        return value

    def _constant_node(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        for attribute in node.attribute:
            if attribute.name == "value":
                self._constant(attribute.t, node.output[0])
                return
            if attribute.name == "sparse_value":
                shape = tuple(int(size) for size in attribute.sparse_tensor.dims)
                self._define(GraphValue(node.output[0], checked(shape), constant=True, parameter=True))
                return
        (value,) = attributes.values() or [0.0]
        data = np.asarray(value) if not isinstance(value, (bytes, str)) else np.zeros(())
        floating = bool(np.issubdtype(data.dtype, np.floating))
        small_data = data if data.size <= MAX_KEPT else None
        self._define(GraphValue(node.output[0], data.shape, constant=True, data=small_data, floating=floating))

    def _shapes(self, op: Operator, node: onnx.NodeProto) -> list[ShapeOf]:
        function = INFER.get(op.kind) or (together if op.kind in ELEMENTWISE_OPERATORS else None)
        try:
            share = self._share(op, node)
            if op.kind == "NonZero" and share:
                return [(len(op.shape()), share)]
            if function is None:
                raise UnknownShape(f"the operator {shown(op.kind)} is not known")
            return function(op)
        except UnknownShape as error:
            stated = [self._stated_shape(name) for name in node.output]
            if None in stated:
                raise SpecError(f"its shape is not in the file and does not follow: {error}") from None
            op.attributes["unresolved"] = str(error)
            return [shape for shape in stated if shape is not None]

    def _share(self, op: Operator, node: onnx.NodeProto) -> int:
        """How many tokens each expert has, if this is about choosing experts."""
        share = next((self.shares[name] for name in node.input if name in self.shares), 0)
        k = op.inputs[1].data if op.kind == "TopK" and len(op.inputs) > 1 and op.inputs[1] is not None else None
        if k is not None and k.size == 1 and op.shape():
            share = equal_share(op.shape(), int(k.reshape(-1)[0]))
        if share and op.kind in _CHOOSING:
            self.shares.update((name, share) for name in node.output)
        return share

    def _stated_shape(self, name: str) -> ShapeOf | None:
        """A shape that the file tells, if it does."""
        info = self.infos.get(name)
        if not name:
            return ()
        if info is None or not info.type.HasField("tensor_type") or not info.type.tensor_type.HasField("shape"):
            return None
        dims = info.type.tensor_type.shape.dim
        sizes = [dim.dim_value or self.options.dims.get(dim.dim_param, 0) for dim in dims]
        if self.options.batch is not None and sizes and sizes[0] == 0:
            sizes[0] = 1
        return checked(sizes) if all(0 < size <= MAX_SIZE for size in sizes) else None


def _as_cast(
    kind: str, inputs: list[GraphValue | None], attributes: dict[str, Any]
) -> tuple[str, str, list[GraphValue | None]]:
    """A cast to the type of another value is a cast: neither shape nor values of the other matter."""
    if kind != "CastLike" or len(inputs) != 2 or inputs[1] is None:
        return "", kind, inputs
    attributes["to"] = 1 if inputs[1].floating else 7
    return kind, "Cast", inputs[:1]


def _fills_with_floats(attributes: Mapping[str, Any]) -> bool:
    """Whether a constant of some shape may stand for weights, as in files that are published without them."""
    value = attributes.get("value")
    return not isinstance(value, np.ndarray) or bool(np.issubdtype(value.dtype, np.floating))


def _small_data(tensor: onnx.TensorProto, shape: ShapeOf) -> np.ndarray[Any, Any] | None:
    """The values, if they are few and in the file."""
    if math.prod(shape) > MAX_KEPT or tensor.data_location == 1 or tensor.external_data:
        return None
    from onnx import numpy_helper

    try:
        return np.asarray(numpy_helper.to_array(tensor)).reshape(shape)
    except Exception:  # the file says another number of values, or a type that is none
        return None


def _attribute(attribute: onnx.AttributeProto) -> Any:
    """An attribute as a plain value; tensors that are few values as arrays."""
    match attribute.type:
        case 1:
            return attribute.f
        case 2:
            return attribute.i
        case 3:
            return attribute.s.decode("utf-8", "replace")
        case 4:
            return _small_data(attribute.t, tuple(int(size) for size in attribute.t.dims))
        case 6:
            return list(attribute.floats[:MAX_KEPT])
        case 7:
            return list(attribute.ints[:MAX_KEPT])
        case 8:
            return [text.decode("utf-8", "replace") for text in attribute.strings[:MAX_KEPT]]
    return None


def _is_graph(attribute: onnx.AttributeProto) -> bool:
    return attribute.type in (5, 10)


def _captured(node: onnx.NodeProto) -> set[str]:
    """Names that a node's inner graphs use, wherever they come from."""
    names: set[str] = set()
    waiting = [node]
    while waiting:
        for attribute in waiting.pop().attribute:
            for graph in (*([attribute.g] if attribute.type == 5 else []), *attribute.graphs):
                for inner in graph.node:
                    names.update(inner.input)
                    waiting.append(inner)
                names.update(info.name for info in graph.output)
    return names


def _path(node: onnx.NodeProto) -> str:
    """The module that a node is in, from what exporters leave in the file."""
    for entry in node.metadata_props:
        if entry.key == "pkg.torch.onnx.name_scopes":
            scopes = _SCOPE.findall(entry.value[:10_000])
            return scopes[-2] if len(scopes) > 1 else ""
    if node.name.startswith("/"):
        path = ""
        for segment in node.name.strip("/").split("/")[:-1]:
            path = segment if segment.startswith(path + ".") or not path else f"{path}.{segment}"
        return path
    return ""
