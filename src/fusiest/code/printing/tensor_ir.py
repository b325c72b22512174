"""Statements as a function in TVM's script: a TensorIR module of one function, which TVM builds for the CPU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fusiest.code.functions import PRIMITIVES
from fusiest.code.lowering.indices import Index, named, plus
from fusiest.code.lowering.statements import Array, End, Loop, Program, Side, Statement, Tile
from fusiest.code.printing.lanes import independent_lanes
from fusiest.code.printing.nest_text import NestText, check_sizes
from fusiest.code.printing.reserved import placed, safe
from fusiest.code.printing.texts import joined
from fusiest.spec import Affine

_FILE = '''\
"""Builds the function of this file with TVM, and runs it: pip install 'fusiest[tvm]'.

python mapping.py          makes its own inputs, and prints the sum of each result
python mapping.py FOLDER   reads FOLDER/NAME.raw for each input, and writes FOLDER/NAME.raw for each result: float64, the last
                           rank first
"""

import math
import pathlib
import sys

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class Mapping:
{function}

INPUTS = {inputs}
OUTPUTS = {outputs}


def made_up(shape, number):
    """Small whole numbers, the same every time."""
    places = np.arange(math.prod(shape), dtype=np.uint32) * np.uint32(2654435761) + np.uint32(number * 40503)
    return (places >> np.uint32(13) & np.uint32(3)).astype(float).reshape(shape)


def run(inputs):
    """Results by name, for arrays of the inputs by name."""
    given = [np.ascontiguousarray(inputs[name], float).reshape(shape) for name, shape in INPUTS.items()]
    arrays = [tvm.runtime.tensor(array) for array in (*given, *map(np.zeros, OUTPUTS.values()))]
    tvm.compile(Mapping, target="llvm")["mapping"](*arrays)
    return {{name: array.numpy() for name, array in zip(OUTPUTS, arrays[len(given) :])}}


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
    given = {{name: np.fromfile(folder / f"{{name}}.raw") if folder else made_up(shape, i)
             for i, (name, shape) in enumerate(INPUTS.items())}}
    for name, array in run(given).items():
        if folder:
            array.tofile(folder / f"{{name}}.raw")
        else:
            print(f"{{name}}: sum {{array.sum():.17g}}")
'''


class TensorIR(NestText):
    """A program as lines of TVM's script. Lanes that are independent of each other are `T.parallel`, within no other ones."""

    comment = "#"
    functions: Mapping[str, str] = {"min": "T.min({0}, {1})", "max": "T.max({0}, {1})"}
    choose = "T.if_then_else({0} == 0, {1}, {2})"
    both, either = " and ", " or "

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.depth = 2
        self.begun: list[int] = []
        """Where blocks begin that are open."""
        self.lanes = independent_lanes(program)
        self.at = self.lows = 0
        self.shifted: dict[str, Affine] = {}
        """Coordinates of a box, whose loops begin at 0."""
        self.side_by_side: int | None = None
        """How many blocks are open around the lanes that run at once, if some do."""

    def function(self, name: str) -> str:
        check_sizes(self.program)
        arrays = [self._allocated(array) for array in self.program.arrays]
        for i, statement in enumerate(self.program.statements):
            self.at = i
            self.statement(statement)
        given = (*self.program.inputs, *self.program.parameters, *self.program.outputs)
        arguments = ", ".join(f'{a.name}: T.Buffer({_shape(a.shape)}, "float64")' for a in given)
        head = ["@T.prim_func", f"def {name}({arguments}):"]
        lines = [
            *(f"    {line}" for line in head),
            *(f"        {line}" for line in arrays),
            *joined(self.lines, "    "),
        ]
        return "\n".join(lines) + "\n"

    def _allocated(self, array: Array) -> str:
        shape = (*(lane.iterations for lane in array.lanes), *array.shape)
        each = " in each instance" if array.lanes else ""
        scope = f"global.{safe(array.memory)}"
        words = f"{array.memory} reserves {array.bits:.15g} bits{each}"
        return f'{array.name} = T.alloc_buffer({_shape(shape)}, "float64", scope="{scope}")  # {words}'

    def statement(self, statement: Statement) -> None:
        super().statement(statement)
        if isinstance(statement, End) and self.side_by_side == len(self.begun):
            self.side_by_side = None

    # --- how TVM's script writes it ---------------------------------------------------------------------------------

    def open(self, text: str) -> None:
        self.add(text if text.endswith(":") else f"{text}:")
        self.begun.append(len(self.lines))
        self.depth += 1

    def close(self) -> None:
        inside = self.lines[self.begun.pop() :]
        if all(line.defines or line.text.startswith("#") for line in inside):
            self.add("T.evaluate(0)")
        self.depth -= 1

    def when(self, test: str) -> str:
        return f"if {test}"

    def each(self, side: Side) -> None:
        """From 0 on, which TVM's analysis of regions wants."""
        low, index = side.low, f"{side.name}_t"  # which no name of a spec is
        if not isinstance(low, Affine):
            self.lows += 1
            self.add(f"{side.name}_low{self.lows}_t = {self.index(low)}")
            low = named(f"{side.name}_low{self.lows}_t")
        count = self.amount([replace(side, low=low, counted=None)])
        if side.step > 1:
            count = f"({count} + {side.step - 1}) // {side.step}"
        self.open(f"for {index} in T.serial({count})")
        self.shifted[side.name] = plus(low, named(index), side.step)

    def end_box(self, count: int) -> None:
        super().end_box(count)
        self.shifted.clear()

    def index(self, index: Index) -> str:
        if isinstance(index, Affine):
            for name in index.coefficients.keys() & self.shifted.keys():
                times = index.coefficients[name]
                index = plus(plus(index, named(name), -times), self.shifted[name], times)
        return super().index(index)

    def loop(self, loop: Loop) -> None:
        comment = f"  # {loop.words}" if loop.words else ""
        kind, more = "serial", ""
        if loop.place:
            more = f', annotations={{"spatial": "{placed(loop.place)}"}}'
            if self.at in self.lanes and self.side_by_side is None:
                kind, self.side_by_side = "parallel", len(self.begun)
        self.add(f"for {loop.index} in T.{kind}({self.index(loop.count)}{more}):{comment}")
        self.begun.append(len(self.lines))
        self.depth += 1

    def let(self, name: str, value: Index) -> None:
        self.add(f"{name} = {self.index(value)}", name)

    def assign(self, target: str, value: str) -> None:
        self.add(f"{target} = {value}")

    def pick(self, test: str, one: str, other: str) -> str:
        return f"T.if_then_else({test}, {one}, {other})"

    def clear(self, array: Array) -> None:
        names = [f"i{rank}_" for rank in range(len(array.lanes) + len(array.shape))]
        sizes = [*(lane.iterations for lane in array.lanes), *array.shape]
        for name, size in zip(names, sizes, strict=True):
            self.open(f"for {name} in T.serial({size})")
        self.assign(f"{array.name}[{', '.join(names)}]", self.number(0))
        self.end_box(len(names))

    def element(self, tile: Tile, at: Sequence[Affine]) -> str:
        return f"{tile.array.name}[{', '.join(self.places(tile, at)) or '0'}]"

    def ceil(self, number: Index, divisor: int) -> str:
        assert isinstance(number, Affine)
        return f"({self.index(plus(number, divisor - 1))}) // {divisor}"

    def call(self, function: str, arguments: Sequence[str]) -> str:
        return PRIMITIVES[function].tvm.format(*arguments)

    def number(self, value: float) -> str:
        text = repr(float(value))
        return f'T.float64("{text}")' if math.isinf(value) else f"T.float64({text})"


def _shape(sizes: Sequence[int]) -> str:
    return str(tuple(sizes) or (1,))


def module_text(program: Program) -> str:
    """A file in Python: the function as a module, and a main that builds and runs it."""
    inputs, outputs = ({a.tensor: tuple(a.shape) or (1,) for a in of} for of in (program.inputs, program.outputs))
    return _FILE.format(function=TensorIR(program).function("mapping"), inputs=repr(inputs), outputs=repr(outputs))
