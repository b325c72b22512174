"""An ONNX graph that is drawn node by node."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.networks.by_reference import NumpyArray, run_node

OPSET = 23


class Draw:
    """A graph that grows; every value is known, so shapes never have to be guessed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, NumpyArray] = {}
        self.inputs: dict[str, NumpyArray] = {}
        self.values: dict[str, NumpyArray] = {}
        self.used: Counter[str] = Counter()
        self.read: set[str] = set()

    def input(self, shape: list[int]) -> str:
        name = f"in{len(self.inputs)}"
        self.inputs[name] = self.values[name] = self.numbers.normal(size=shape)
        return name

    def weight(self, shape: list[int] | tuple[int, ...], scale: float = 0.7) -> str:
        return self.constant(self.numbers.normal(size=shape) * scale)

    def constant(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(array)
        return name

    def add(self, kind: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> list[str]:
        """Add a node, and compute it."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        node = helper.make_node(kind, inputs, names, name=f"{kind}_{len(self.nodes)}", **attributes)
        arrays = [self.values.get(name, self.weights.get(name)) if name else None for name in inputs]
        try:
            results = run_node(node, arrays, OPSET)
        except (ValueError, NotImplementedError):  # the reference's own limits
            raise Refused from None
        if any(
            not np.isfinite(r).all() or np.abs(r).max(initial=0) > 1e4 or r.size > 4000 or 0 in r.shape for r in results
        ):
            raise Refused
        self.nodes.append(node)
        self.used[kind] += 1
        self.read.update(inputs)
        self.values.update(zip(names, (np.asarray(r) for r in results), strict=True))
        return names

    def pick(self, fits: Callable[[NumpyArray], bool] = lambda a: True) -> str:
        """A value of the graph, one of the newest more often."""
        found = [name for name, array in self.values.items() if fits(array) and array.dtype == np.float64]
        if not found:
            raise Refused
        return found[-1] if self.dice.random() < 0.6 else self.dice.choice(found)

    def shape(self, name: str) -> list[int]:
        return list(self.values[name].shape)

    def model(self) -> onnx.ModelProto:
        outputs = [name for name in self.values if name not in self.read and name not in self.inputs][:4]
        infos = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(self.values[name].dtype), self.values[name].shape
            )
            for name in outputs
        ]
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info(n, TensorProto.DOUBLE, a.shape) for n, a in self.inputs.items()],
            infos,
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


class Refused(Exception):
    """What was drawn is no good; nothing was added."""


def image(array: NumpyArray) -> bool:
    return array.ndim == 4 and array.size <= 600
