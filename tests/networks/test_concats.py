"""What concatenations put together: patches of an image behind a class token, dense blocks. Nothing is cut, and the values are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from fusiest.base.errors import SpecError
from tests.networks.builders import Numbers, model_of, node
from tests.networks.imports import check_values, imported

SHAPE = [1, 3, 4, 6]


def tokens(samples: int = 1, stride: int = 2, again: bool = False) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Patches of 2 x 2, a class token, positions, a product."""
    numbers = Numbers(2)
    shape = [samples, *SHAPE[1:]]
    places = [(size - 2) // stride + 1 for size in shape[2:]]
    count = int(np.prod(places))
    weights = {
        "w": numbers(5, 3, 2, 2), "b": numbers(5), "flat": np.array([samples, 5, count]), "class": numbers(samples, 1, 5),
        "places": numbers(1, count + 1, 5), "v": numbers(5, 4),
    }  # fmt: skip
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], "conv_proj", strides=[stride, stride]),
        node("Reshape", ["c", "flat"], ["r"], "flatten"),
        node("Transpose", ["r"], ["t"], "turn", perm=[0, 2, 1]),
        node("Concat", ["class", "t"], ["a"], "cat", axis=1),
        node("Add", ["a", "places"], ["p"], "positions"),
        node("MatMul", ["p", "v"], ["y"], "out"),
        *([node("Relu", ["x"], ["z"], "again")] if again else []),
    ]
    model = model_of(nodes, {"x": shape}, weights, ["y", "z"] if again else ["y"])
    return model, {"x": numbers(*shape)}


@pytest.mark.parametrize("samples", [1, 2])
def test_patches_are_a_product(samples: int) -> None:
    found = check_values(*tokens(samples))
    assert not found.lowered.cuts
    bounds = {name: sorted(e.bounds.values()) for name, e in found.spec.info.einsums.items()}
    assert bounds["conv_proj"] == [*([2] if samples > 1 else []), 5, 6, 12]
    assert len(bounds) == 4, "the patches, the class token, the positions, the product"


@pytest.mark.parametrize(("stride", "again"), [(1, False), (2, True)])
def test_what_is_cut_still(stride: int, again: bool) -> None:
    """Windows that overlap, and an image that somebody else reads: rows and columns are not one rank."""
    found = check_values(*tokens(stride=stride, again=again))
    assert [cut.node.operator for cut in found.lowered.cuts] == ["Transpose"]


def test_a_batch() -> None:
    info = imported(tokens()[0], batch=4).spec.info
    assert all(4 in e.bounds.values() for e in info.einsums.values())


def test_a_dense_block() -> None:
    """Each layer reads all before it: what was put together for one is a part of what the next one reads."""
    numbers, nodes, weights = Numbers(4), [], {}
    parts = ["x0"]
    weights["w"] = numbers(4, 3, 1, 1)
    nodes.append(node("Conv", ["x", "w"], ["x0"], "stem"))
    for i in range(1, 5):
        nodes.append(node("Concat", list(parts), [f"t{i}"], f"cat{i}", axis=1))
        weights[f"w{i}"] = numbers(2, 4 + 2 * (i - 1), 3, 3)
        nodes.append(node("Conv", [f"t{i}", f"w{i}"], [f"x{i}"], f"conv{i}", pads=[1] * 4))
        parts.append(f"x{i}")
    nodes.append(node("Concat", parts, ["t5"], "cat5", axis=1))
    weights["v"] = numbers(3, 12, 1, 1)
    nodes.append(node("Conv", ["t5", "v"], ["y"], "out"))
    found = check_values(model_of(nodes, {"x": [1, 3, 4, 4]}, weights, ["y"]), {"x": numbers(1, 3, 4, 4)})
    assert not found.lowered.cuts
    moves = [name for name in found.spec.info.einsums if name.startswith("cat")]
    assert len(found.spec.info.einsums) - len(moves) == 6
    assert len(moves) <= 5


EMPTY = {"zero": np.array([0]), "whole": np.array([8]), "end": np.array([2**63 - 1]), "axis": np.array([2]), "minus": np.array([-1]),
         "sizes": np.array([5, 0, 3])}  # fmt: skip
REST = [
    node("Slice", ["x", "zero", "whole", "axis"], ["turned"]),
    node("Slice", ["x", "whole", "end", "axis"], ["rest"]),
    node("Cast", ["rest"], ["rest64"], to=onnx.TensorProto.DOUBLE),
]


@pytest.mark.parametrize(
    "nodes",
    [
        [*REST, node("Concat", ["turned", "rest64"], ["y"], axis=-1)],
        [node("Split", ["x", "sizes"], ["a", "none", "b"], axis=2), node("Concat", ["b", "none", "a"], ["y"], axis=2)],
        [node("Shape", ["x"], ["s"]), node("Slice", ["s", "zero", "zero", "zero"], ["before"]),
         node("Concat", ["before", "minus"], ["flat"], axis=0), node("Reshape", ["x", "flat"], ["r"]),
         node("Reshape", ["r", "s"], ["y"])],
    ],
    ids=["rotary embedding of whole heads", "split", "shape"],
)  # fmt: skip
def test_parts_without_elements_vanish(nodes: list[onnx.NodeProto]) -> None:
    """What is left of heads that are rotated whole; a part of size 0; the dimensions before the first."""
    numbers = Numbers(4)
    product = node("MatMul", ["y", "w"], ["z"])
    model = model_of([*nodes, product], {"x": [2, 4, 8]}, {**EMPTY, "w": numbers(8, 3)}, ["z"])
    found = check_values(model, {"x": numbers(2, 4, 8)})
    assert not any(einsum.operation == "cut" for einsum in found.spec.require_workload().einsums)


def test_what_else_is_made_of_nothing_is_refused() -> None:
    model = model_of([*REST, node("ReduceSum", ["rest64"], ["y"])], {"x": [2, 4, 8]}, EMPTY, ["y"])
    with pytest.raises(SpecError, match="ReduceSum_3: its input rest64 is empty"):
        imported(model)
