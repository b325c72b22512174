"""Transposed convolutions, as sums over the elements of the kernel: values, and multiply-accumulates by hand."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest

from fusiest.networks import from_onnx
from tests.networks.builders import Numbers, model_of, node
from tests.networks.by_reference import NumpyArray
from tests.networks.imports import imported, weights_of
from tests.networks.interpreter import Interpreter

CASES: dict[str, tuple[list[int], list[int], dict[str, Any]]] = {
    "doubled": ([2, 2, 4, 3], [2, 3, 4, 4], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "doubled by three": ([1, 2, 4, 4], [2, 3, 3, 3], {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}),
    "one axis": ([1, 2, 4, 4], [2, 3, 4, 3], {"strides": [2, 1], "pads": [0, 1, 2, 1]}),
    "in groups": ([1, 4, 3, 3], [4, 3, 4, 4], {"strides": [2, 2], "pads": [1] * 4, "group": 2}),
    "depthwise": ([1, 3, 5], [3, 1, 6], {"strides": [3], "pads": [1, 2], "group": 3}),
    "dilated": ([1, 2, 4], [2, 3, 4], {"strides": [2], "dilations": [3], "pads": [4, 4]}),
}


def transposed(x: NumpyArray, w: NumpyArray, more: dict[str, Any]) -> NumpyArray:
    """Every element of the input times the kernel, added up where it belongs; then the padding is cut off."""
    n, groups = x.ndim - 2, more.get("group", 1)
    strides, dilations, pads, extra = (
        more.get(name, [default] * count)
        for name, default, count in (
            ("strides", 1, n),
            ("dilations", 1, n),
            ("pads", 0, 2 * n),
            ("output_padding", 0, n),
        )
    )
    spans = [strides[i] * (x.shape[2 + i] - 1) + 1 for i in range(n)]
    sizes = [spans[i] + dilations[i] * (w.shape[2 + i] - 1) + extra[i] for i in range(n)]
    full = np.zeros([x.shape[0], w.shape[1] * groups, *sizes])
    for r in itertools.product(*map(range, w.shape[2:])):
        begin = [dilations[i] * r[i] for i in range(n)]
        places = tuple(slice(begin[i], begin[i] + spans[i], strides[i]) for i in range(n))
        split = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
        kernel = w[(..., *r)].reshape(groups, -1, w.shape[1])
        full[(slice(None), slice(None), *places)] += np.einsum("bgc...,gck->bgk...", split, kernel).reshape(
            x.shape[0], -1, *x.shape[2:]
        )
    cropped: NumpyArray = full[(..., *(slice(pads[i], sizes[i] - pads[n + i]) for i in range(n)))]
    return cropped


def model(name: str, *after: onnx.NodeProto, **weights: NumpyArray) -> tuple[onnx.ModelProto, NumpyArray]:
    inputs, kernel, more = CASES[name]
    numbers = Numbers()
    nodes = [node("ConvTranspose", ["x", "w", "b"], ["y"], "up", **more), *after]
    constants = {"w": numbers(*kernel), "b": numbers(kernel[1] * more.get("group", 1)), **weights}
    return model_of(nodes, {"x": inputs}, constants, [nodes[-1].output[0]]), numbers(*inputs)


@pytest.mark.parametrize("name", CASES)
def test_every_phase_is_a_convolution(name: str) -> None:
    built, x = model(name)
    found = imported(built)
    weights = weights_of(built)
    got = Interpreter(built, found.lowered, found.names, found.spec).run({"x": x}, weights)["y"]
    expected = transposed(x, weights["w"], CASES[name][2])
    assert np.allclose(got, expected + weights["b"].reshape(-1, *[1] * (x.ndim - 2)))
    report = from_onnx(built).report
    assert not report.cuts
    assert report.parameters == weights["w"].size + weights["b"].size
    if name != "dilated":  # there the padding is larger than what overlaps
        assert report.macs == x.size * weights["w"][0].size


def test_what_comes_after() -> None:
    """A function and a product of each place read the phases as they are; a window over them is a cut."""
    numbers = Numbers()
    point = node("Conv", ["r", "v"], ["z"], "point")
    relu = node("Relu", ["y"], ["r"], "relu")
    assert not from_onnx(model("doubled", relu, point, v=numbers(2, 3, 1, 1))[0]).report.cuts
    cuts = from_onnx(model("doubled", relu, point, v=numbers(2, 3, 3, 3))[0]).report.cuts
    assert [cut.detail for cut in cuts] == ["a window over 4x2, which is no single rank"]


def test_phases_that_are_not_alike() -> None:
    """Nine places of stride 2: the phases have five and four."""
    nodes = [node("ConvTranspose", ["x", "w"], ["y"], "up", strides=[2]), node("MatMul", ["y", "v"], ["z"], "rest")]
    numbers = Numbers()
    report = from_onnx(model_of(nodes, {"x": [1, 2, 4]}, {"w": numbers(2, 3, 3), "v": numbers(9, 2)}, ["z"])).report
    assert [cut.detail for cut in report.cuts] == ["its windows of 3 at stride 2 have phases that are not alike"]
