"""Values of a network's constants: those of the file and of its external data, or random ones, and what is computed from them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from fusiest.base.errors import SpecError, shown

if TYPE_CHECKING:
    import onnx

RawArray: TypeAlias = "np.ndarray[Any, Any]"
MOST_BYTES = 2**34
"""Of all weights together."""


class Constants(NamedTuple):
    """Values by name, and how many of the weights are in the file, and how many there are."""

    values: Mapping[str, RawArray]
    stored: int
    weights: int


def constant_values(model: onnx.ModelProto, path: str | None, random: bool) -> Constants:
    """All values that depend on no input. Weights that are not there, or all if so asked for, are random, the same every time.

    `path`: of the file, beside which external data may be.
    """
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    found: dict[str, RawArray] = {}
    generator = np.random.default_rng(0)
    total = stored = 0
    for tensor in model.graph.initializer:
        shape = tuple(int(size) for size in tensor.dims)
        total += 8 * math.prod(shape)
        if total > MOST_BYTES:
            raise SpecError(f"the weights take more than {MOST_BYTES // 2**30} GiB as numbers of 64 bits")
        floating = tensor.data_type in (1, 10, 11, 16)
        array = None if random and floating and shape else _stored(tensor, path)
        stored += array is not None
        if array is None and not floating:  # masks let all through, indices are the first
            array = np.full(shape, tensor.data_type == 9, helper.tensor_dtype_to_np_dtype(tensor.data_type))
        found[tensor.name] = array if array is not None else made_up(generator, shape)
    opset = list(model.opset_import)
    for node in model.graph.node:
        if any(a.type in (5, 10) for a in node.attribute) or not all(not name or name in found for name in node.input):
            continue
        if random and node.op_type == "ConstantOfShape":
            found[node.output[0]] = made_up(generator, tuple(int(n) for n in found[node.input[0]]))
            continue
        evaluator = ReferenceEvaluator(_model_of(node, found, opset, numpy_helper))
        results: Any = evaluator.run(None, {})
        found.update(zip([name for name in node.output if name], results, strict=False))
    return Constants(found, stored, len(model.graph.initializer))


def _model_of(node: onnx.NodeProto, known: Mapping[str, RawArray], opset: Any, numpy_helper: Any) -> onnx.ModelProto:
    """One node with constants for its inputs."""
    from onnx import ValueInfoProto, helper

    given = [numpy_helper.from_array(known[name], name) for name in dict.fromkeys(node.input) if name]
    outputs = [ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "constant", [], outputs, initializer=given)
    return helper.make_model(graph, opset_imports=opset)


def made_up(generator: np.random.Generator, shape: tuple[int, ...]) -> RawArray:
    """Random weights: -1, 0 and 1 by a power of 2 that keeps sums small; of vectors, which may be variances, positive numbers."""
    if len(shape) < 2:
        return generator.integers(1, 5, shape).astype(np.float32) / 2
    fan = math.prod(shape) / max(shape[0], shape[-1])
    scale = 2.0 ** -round(math.log2(math.sqrt(max(fan, 1))))
    return generator.integers(-1, 2, shape).astype(np.float32) * np.float32(scale)


def _stored(tensor: onnx.TensorProto, path: str | None) -> RawArray | None:
    """The values of the file, or beside it; None if they are nowhere."""
    from onnx import numpy_helper

    if tensor.data_location == 1 or tensor.external_data:
        return _external(tensor, path)
    try:
        return np.asarray(numpy_helper.to_array(tensor)).reshape(tuple(tensor.dims))
    except Exception:  # the file says another number of values, or a type that is none
        return None


def _external(tensor: onnx.TensorProto, path: str | None) -> RawArray | None:
    """External data, from the folder of the file and nowhere else."""
    from onnx import helper, numpy_helper

    entries = {entry.key: entry.value for entry in tensor.external_data}
    if path is None or "location" not in entries:
        return None
    folder = os.path.realpath(os.path.dirname(path) or ".")
    file = os.path.realpath(os.path.join(folder, entries["location"]))
    if os.path.commonpath([folder, file]) != folder:
        raise SpecError(
            f"{path}: {shown(tensor.name)} is in {shown(entries['location'])}, outside of the file's folder"
        )
    if not os.path.isfile(file):
        return None
    kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    size = math.prod(tensor.dims) * kind.itemsize
    try:
        offset = int(entries.get("offset", 0))
        with open(file, "rb") as stream:
            stream.seek(offset)
            content = stream.read(size)
    except (OSError, ValueError) as error:
        raise SpecError(f"{file}: {shown(error)}") from None
    if len(content) < size:
        raise SpecError(f"{file}: ends before the values of {shown(tensor.name)}")
    whole = type(tensor)()
    whole.CopyFrom(tensor)
    whole.ClearField("external_data")
    whole.ClearField("data_location")
    whole.raw_data = content
    return np.asarray(numpy_helper.to_array(whole))
