"""Importing in tests: every stage at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from fusiest.networks.import_options import ImportOptions
from fusiest.networks.importing import lowered_graph
from fusiest.networks.onnx.onnx_graph import read_onnx
from fusiest.networks.output.readable_names import NetNames, named
from fusiest.networks.output.write_yaml import workload_yaml
from fusiest.networks.passes.lowered import Lowered
from fusiest.spec.reading.loading import load_texts
from fusiest.spec.spec import Spec
from tests.networks.by_reference import constant_values
from tests.networks.interpreter import Interpreter


@dataclass
class Imported:
    model: onnx.ModelProto
    lowered: Lowered
    names: NetNames
    text: str
    spec: Spec


def imported(model: onnx.ModelProto, **options: Any) -> Imported:
    lowered = lowered_graph(read_onnx(model, "test.onnx", ImportOptions(**options)), ImportOptions(**options))
    names = named(lowered)
    text = workload_yaml(lowered, names, ["test"])
    return Imported(model, lowered, names, text, load_texts({"test.yaml": text}, {}))


def weights_of(model: onnx.ModelProto) -> dict[str, np.ndarray[Any, Any]]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def check_values(model: onnx.ModelProto, inputs: dict[str, Any], **options: Any) -> Imported:
    """The imported Einsums give what ONNX's reference gives."""
    found = imported(model, **options)
    expected = ReferenceEvaluator(model).run(None, inputs)
    constants = constant_values(model, weights_of(model))
    outputs = Interpreter(model, found.lowered, found.names, found.spec).run(inputs, constants)
    for info, array in zip(model.graph.output, expected, strict=True):
        got = outputs[info.name]
        assert got.shape == array.shape, (info.name, got.shape, array.shape)
        scale = max(1.0, float(np.abs(array).max(initial=0)))
        assert np.allclose(got, array, rtol=1e-5, atol=1e-5 * scale, equal_nan=True), (
            info.name,
            float(np.abs(got - array).max()),
        )
    return found
