"""Padding behind an axis of a kernel of one element, and what a report says that cuts leave out."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from fusiest.networks import from_onnx
from tests.networks.builders import Numbers, model_of, node
from tests.networks.imports import check_values

PADDED: dict[str, tuple[list[int], list[int], dict[str, Any], int]] = {
    "one row": ([1, 2, 5, 8], [4, 2, 1, 3], {"pads": [0, 0, 2, 0]}, 1008),
    "one row in groups": ([1, 8, 5, 8], [4, 2, 1, 3], {"pads": [0, 0, 2, 0], "group": 4}, 1008),
    "one column": ([1, 2, 5, 8], [4, 2, 3, 1], {"pads": [0, 0, 0, 3]}, 4 * 3 * 11 * 2 * 3),
    "one element": ([1, 2, 3, 4], [4, 2, 1, 1], {"pads": [0, 0, 1, 2]}, 4 * 4 * 6 * 2),
    "before and after": ([1, 2, 3, 4], [4, 2, 1, 1], {"pads": [1, 0, 1, 2]}, 4 * 5 * 6 * 2),
    "one axis": ([1, 2, 6], [3, 2, 1], {"pads": [0, 1]}, 3 * 7 * 2),
    "strided": ([1, 2, 6], [3, 2, 1], {"pads": [0, 3], "strides": [2]}, 3 * 5 * 2),
}


@pytest.mark.parametrize("name", PADDED)
def test_padding_behind_a_kernel_of_one(name: str) -> None:
    """One Einsum, whose values are those of ONNX's reference."""
    shape, kernel, more, macs = PADDED[name]
    numbers = Numbers()
    nodes = [node("Conv", ["x", "w"], ["c"], "c", **more), node("Relu", ["c"], ["y"], "r")]
    model = model_of(nodes, {"x": shape}, {"w": numbers(*kernel)}, ["y"])
    report = from_onnx(model).report
    assert (report.cuts, report.macs) == ((), macs)
    check_values(model, {"x": numbers(*shape)})


def lost(*nodes: onnx.NodeProto, opset: int = 23, **shapes: list[int]) -> dict[str, Any]:
    """What is said of nodes between two products of 64 multiply-accumulates each."""
    between = [node("MatMul", ["x", "w"], ["a"], "first"), *nodes, node("MatMul", ["b", "w"], ["y"], "last")]
    weights = {name: Numbers()(*shape) for name, shape in {"w": [4, 4], **shapes}.items()}
    document: dict[str, Any] = from_onnx(model_of(between, {"x": [4, 4]}, weights, ["y"], opset)).report.to_json()
    return document


def test_lost_products_are_counted() -> None:
    """A diagonal is cut: its 4 x 4 products are a share of all."""
    said = lost(node("Einsum", ["a", "v"], ["b"], "e", equation="ii,ij->ij"), v=[4, 4])
    assert said["cuts"] == 1
    assert said["macs"] == 128
    assert said["lost_share_of_macs"] == 16 / 144
    assert said["cut_share_of_macs"] == 1.0
    assert said["cut_nodes_of_unknown_macs"] == 0
    assert said["cut_share_of_values"] <= 1.0


def test_what_cannot_be_counted_is_said() -> None:
    nodes = [node("CumSum", ["x", "axis"], ["s"], "c"), node("Relu", ["s"], ["y"], "r")]
    report = from_onnx(model_of(nodes, {"x": [4, 4]}, {"axis": [0]}, ["y"])).report
    (line,) = [line for line in report.summary() if "lost in cuts" in line]
    assert "and those of 1 cut nodes that fusiest cannot count" in line
    assert report.cut_values <= report.values
