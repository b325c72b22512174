"""Whole networks at small sizes: their Einsums compute what ONNX's reference computes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.networks.builders import Numbers
from tests.networks.imports import check_values

SHARED = Path(__file__).parents[3] / "shared" / "networks"
pytestmark = pytest.mark.skipif(not SHARED.exists(), reason="no data beside the project: ../shared")

# Sizes of the transformers, each with a small one in its place: widths, heads, tokens, tables.
SMALL: dict[str, dict[int, int]] = {
    "bert": {768: 12, 12: 3, 64: 4, 3072: 20, 128: 6, 30522: 11, 512: 7},
    "gpt2": {768: 12, 2304: 36, 12: 3, 64: 4, 3072: 20, 128: 6, 50257: 11, 1024: 8},
    "llama3_eager": {512: 32, 64: 4, 128: 8, 1024: 20, 1000: 10, 32: 2},
}


def shrunk(name: str, sizes: Mapping[int, int]) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A network of other sizes, with random weights."""
    model, numbers = onnx.load(SHARED / f"{name}.onnx", load_external_data=False), Numbers(3)
    graph = model.graph
    del graph.value_info[:]
    for tensor in graph.initializer:
        _fill(tensor, sizes, numbers)
    inputs: dict[str, Any] = {}
    for info in graph.input:
        dims = info.type.tensor_type.shape.dim
        for dim in dims:
            dim.dim_value = sizes.get(dim.dim_value, dim.dim_value)
        shape = [dim.dim_value for dim in dims]
        whole = info.type.tensor_type.elem_type == TensorProto.INT64
        inputs[info.name] = (
            np.arange(int(np.prod(shape))).reshape(shape) % 5 if whole else numbers(*shape).astype(np.float32)
        )
    for info in graph.output:
        info.type.tensor_type.ClearField("shape")
    return model, inputs


def _fill(tensor: onnx.TensorProto, sizes: Mapping[int, int], numbers: Numbers) -> None:
    shape = [sizes.get(size, size) for size in tensor.dims]
    if not tensor.external_data:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.int64:
            array = np.array([sizes.get(int(n), int(n)) for n in array.reshape(-1)], np.int64).reshape(array.shape)
        elif list(tensor.dims) != shape or array.size > 1000:
            array = np.resize(array, shape)
    elif tensor.data_type == TensorProto.FLOAT:
        fan = max(1, int(np.prod(shape[1:])))
        array = (numbers(*shape) / fan**0.5).astype(np.float32)
    elif tensor.data_type == TensorProto.BOOL:
        array = np.tril(np.ones(shape, bool)) if len(shape) > 1 else np.ones(shape, bool)
    else:
        array = (np.arange(int(np.prod(shape))).reshape(shape) % max(1, shape[-1])).astype(np.int64)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


@pytest.mark.parametrize("softmax", ["cascade", "deferred", "online"])
@pytest.mark.parametrize("name", SMALL)
def test_transformers(name: str, softmax: str) -> None:
    found = check_values(*shrunk(name, SMALL[name]), softmax=softmax)
    assert not found.lowered.cuts


@pytest.mark.parametrize("elementwise", ["fold", "keep"])
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "efficientnet_b0"])
def test_convolutional_networks(name: str, elementwise: str) -> None:
    model, inputs = shrunk(name, {224: 32})
    check_values(model, inputs, elementwise=elementwise)


def test_a_unet() -> None:
    """With groups, attention, a skip connection, resizing and a transposed convolution, as it is."""
    found = check_values(*shrunk("unet", {}))
    assert len(found.lowered.cuts) == 4


def test_no_constant_is_made_up() -> None:
    """The helper fills what the files leave out, and nothing else."""
    tensor = helper.make_tensor("t", TensorProto.INT64, [2], [768, -1])
    _fill(tensor, {768: 12}, Numbers())
    assert numpy_helper.to_array(tensor).tolist() == [12, -1]
