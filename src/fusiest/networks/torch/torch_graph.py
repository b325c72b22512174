"""Programs of torch.export as graphs: each call becomes operators with ONNX's names. The table is in `aten`.

A call that is in neither is an operator of its own name, which nothing lowers: it will be a cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusiest.base.errors import SpecError, shown
from fusiest.networks.graph.graph import GraphNode, GraphValue, NetworkGraph, entered_in
from fusiest.networks.torch.programs import TensorName, TorchCall, TorchProgram

TorchShape = tuple[int, ...]


@dataclass(slots=True)
class AtenCall:
    """A call on its way into the graph: arguments by name, and nodes to add."""

    reader: TorchReader
    call: TorchCall
    added: int = 0

    # --- arguments ------------------------------------------------------------------------------------------------

    def get(self, name: str, default: Any = None) -> Any:
        """An argument that is no tensor."""
        value = self.call.arguments.get(name)
        return default if value is None else value

    def tensor(self, *names: str) -> str:
        """The graph's name of a tensor argument, under whichever name it has; empty if it is left out."""
        for name in names:
            argument = self.call.arguments.get(name)
            if isinstance(argument, TensorName):
                return self.reader.name(argument.name)
        return ""

    def operand(self, *names: str) -> str:
        """A tensor argument, or a number as a constant."""
        tensor = self.tensor(*names)
        if tensor:
            return tensor
        value = next((self.call.arguments[n] for n in names if self.call.arguments.get(n) is not None), 0)
        return self.constant(value)

    def tensors(self, name: str) -> list[str]:
        """A list of tensors; empty names where one is left out."""
        arguments = self.call.arguments.get(name) or []
        return [self.reader.name(argument.name) if isinstance(argument, TensorName) else "" for argument in arguments]

    def shape(self, name: str) -> TorchShape:
        return self.reader.graph.values[name].shape

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.call.outputs

    @property
    def result(self) -> TorchShape:
        """The shape of the first output."""
        return self.reader.program.tensors[self.call.outputs[0]].shape

    def rank(self) -> int:
        """The number of axes of the argument `self` or `input`."""
        return len(self.shape(self.tensor("self", "input")))

    def axis(self) -> int:
        """The argument `dim`: one of these axes."""
        return int(self.get("dim", 0)) % max(self.rank(), 1)

    def listed(self, name: str, count: int, default: int) -> list[int]:
        """Numbers for each axis of an image: one for all, or a list."""
        value = self.get(name, [])
        numbers = [int(number) for number in ([value] if isinstance(value, int) else value)]
        return numbers * count if len(numbers) == 1 else numbers or [default] * count

    # --- nodes ----------------------------------------------------------------------------------------------------

    def constant(self, value: Any) -> str:
        """A constant with these values."""
        self.added += 1
        name = f"{self.call.name}.constant{self.added}"
        data = np.asarray(value)
        self.reader.graph.values[name] = GraphValue(
            name, data.shape, True, data, bool(np.issubdtype(data.dtype, np.floating))
        )
        return name

    def node(self, operator: str, inputs: Sequence[str], output: str | TorchShape = "", **attributes: Any) -> str:
        """Add a node. Its output is the call's, unless another output's name or the shape of a value in between is given."""
        values = self.reader.graph.values
        name = output if isinstance(output, str) and output else self.call.outputs[0]
        shape = self.reader.program.tensors[name].shape if not isinstance(output, tuple) else output
        if isinstance(output, tuple):
            self.added += 1
            name = f"{self.call.name}.{self.added}"
        constant = all(values[operand].constant for operand in inputs if operand)
        floating = self.reader.program.tensors[name].floating if name in self.reader.program.tensors else True
        values[name] = GraphValue(name, shape, constant, None, floating)
        self.reader.graph.nodes.append(
            GraphNode(self._name(name), operator, tuple(inputs), (name,), attributes, self.call.path, self.call.target)
        )
        return name

    def _name(self, output: str) -> str:
        return self.call.name if output == self.call.outputs[0] else output

    def several(self, operator: str, inputs: Sequence[str], **attributes: Any) -> None:
        """Add a node with all outputs of the call."""
        values, tensors = self.reader.graph.values, self.reader.program.tensors
        constant = all(values[operand].constant for operand in inputs if operand)
        for name in self.call.outputs:
            if name in tensors:
                values[name] = GraphValue(name, tensors[name].shape, constant, None, tensors[name].floating)
        outputs = tuple(name if name in tensors else "" for name in self.call.outputs)
        self.reader.graph.nodes.append(
            GraphNode(self.call.name, operator, tuple(inputs), outputs, attributes, self.call.path, self.call.target)
        )

    def alias(self, name: str) -> None:
        """The output is an input, and nothing happens."""
        self.node("Identity", [name])


AtenFunction = Callable[[AtenCall], None]
ATEN: dict[str, AtenFunction] = {}
"""What each call becomes."""
converts = entered_in(ATEN, "aten.")


class TorchReader:
    """One program on its way into a graph."""

    def __init__(self, program: TorchProgram) -> None:
        self.program = program
        self.graph = NetworkGraph(program.name)
        self.names: dict[str, str] = {}
        """Where a tensor has another name in the graph: weights, and what was overwritten in place."""
        for names, parameter in ((program.parameters, True), (program.constants, False)):
            for name, path in names.items():
                tensor = program.tensors[name]
                self.names[name] = path
                self.graph.values[path] = GraphValue(
                    path, tensor.shape, True, None, tensor.floating, parameter=parameter
                )
        for name in program.inputs:
            self.graph.values[name] = GraphValue(
                name, program.tensors[name].shape, floating=program.tensors[name].floating
            )
            self.graph.inputs.append(name)

    def name(self, tensor: str) -> str:
        """The graph's name for a tensor that has been made."""
        graph_name = self.names.get(tensor, tensor)
        if graph_name not in self.graph.values:
            raise SpecError(f"{self.program.name}: {tensor} is not made before it is used")
        return graph_name

    def read(self) -> NetworkGraph:
        for call in self.program.calls:
            self._call(call)
        for name in self.program.outputs:
            self.graph.outputs.append(self.name(name))
        if not self.graph.outputs:
            raise SpecError(f"{self.program.name}: the program has no output")
        return self.graph

    def _call(self, call: TorchCall) -> None:
        target = call.target
        in_place = target.endswith("_") and not target.endswith("__")
        if not any(name in self.program.tensors for name in call.outputs):
            return  # checks and symbols
        function = ATEN.get(target[:-1] if in_place else target)
        aten_call = AtenCall(self, call)
        try:
            if function is not None:
                function(aten_call)
            else:
                _unknown(aten_call)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
            raise SpecError(
                f"{self.program.name}: call {call.name} of {target}: its arguments make no sense ({error!r})"
            ) from None
        first = call.arguments.get("self", call.arguments.get("input"))
        if in_place and isinstance(first, TensorName):
            self.names[first.name] = call.outputs[0]


def _unknown(call: AtenCall) -> None:
    """A call that nobody knows. Without tensors it makes constants."""
    inputs: list[str] = []
    for name, value in call.call.arguments.items():
        if isinstance(value, TensorName):
            inputs.append(call.tensor(name))
        elif isinstance(value, list):
            inputs += [tensor for tensor in call.tensors(name) if tensor]
    call.several(call.call.target, inputs)


def read_program(program: TorchProgram) -> NetworkGraph:
    """The graph of a program."""
    from fusiest.networks.torch import aten  # noqa: F401  (enters its calls)

    try:
        return TorchReader(program).read()
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise SpecError(f"{program.name}: it makes no sense: {shown(repr(error))}") from None
