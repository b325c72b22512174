"""Mappings as TVM modules: built for the CPU, they give NumPy's values."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusiest
from fusiest.code.functions import FOLDED, PRIMITIVES
from fusiest.code.in_numpy import input_arrays, numpy_function
from fusiest.code.lowering.statements import Program
from fusiest.code.printing.tensor_ir import TensorIR
from fusiest.code.programs import program_of
from tests.code.test_c import drawn
from tests.command_line import MATMULS, Capture, run

needs_tvm = pytest.mark.skipif(importlib.util.find_spec("tvm") is None, reason="tvm is not installed: make test-tvm")
COUNT = {"plain": 60, "windows": 20, "formulas": 40, "windows formulas": 20}


def built(text: str) -> Any:
    """The functions of a module."""
    import tvm
    from tvm.script import from_source

    return tvm.compile(from_source(f"@I.ir_module\nclass Module:\n{text}"), target="llvm")


def called(function: Any, program: Program, inputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
    """The results of a function."""
    import tvm

    given = [np.ascontiguousarray(inputs[a.tensor], float).reshape(a.shape or (1,)) for a in program.inputs]
    made = [np.zeros(a.shape or (1,)) for a in program.outputs]
    arrays = [tvm.runtime.tensor(array) for array in (*given, *made)]
    function(*arrays)
    return {a.tensor: found.numpy() for a, found in zip(program.outputs, arrays[len(given) :], strict=True)}


@needs_tvm
@pytest.mark.parametrize("kind", COUNT)
def test_random_mappings(kind: str) -> None:
    cases = drawn(kind, range(COUNT[kind]))
    programs = [program_of(case.spec, case.tree) for case in cases]
    text = "\n".join(TensorIR(program).function(f"mapping_{i}") for i, program in enumerate(programs))
    library = built(text)
    for i, (case, program) in enumerate(zip(cases, programs, strict=True)):
        inputs = input_arrays(case.spec.info, None)
        found, expected = called(library[f"mapping_{i}"], program, inputs), fusiest.run(case.spec, inputs)
        for tensor, array in found.items():
            known = np.isfinite(expected[tensor])
            scale = np.abs(expected[tensor][known]).max(initial=1)
            values = array.reshape(expected[tensor].shape)
            assert np.allclose(values[known], expected[tensor][known], rtol=1e-9, atol=1e-9 * scale), (case, tensor)


def test_independent_lanes_are_parallel() -> None:
    """In each kind some are; lanes that add to one element are not."""
    for kind in COUNT:
        texts = [TensorIR(program_of(case.spec, case.tree)).function("m") for case in drawn(kind, range(40))]
        assert sum("T.parallel(" in text for text in texts) > (1 if "windows" in kind else 5)
        assert any("T.serial(" in line and "spatial" in line for text in texts for line in text.splitlines())


@needs_tvm
def test_functions_are_those_of_numpy() -> None:
    """Every primitive function, where it has a value."""
    a, b = np.array([0.3, 0.7, 0.4, 0.5, 0.9, 0.25]), np.array([0.2, 2, 3, 0.5, -1, 1])
    for name, primitive in PRIMITIVES.items():
        one = a + 1 if name == "acosh" else a
        arguments = [one, b, one * b][: 2 if name in FOLDED else primitive.arity]
        text = primitive.tvm.format("A[i]", "B[i]", "(A[i] * B[i])")
        buffers = ", ".join(f'{x}: T.Buffer((6,), "float64")' for x in "ABZ")
        function = (
            f"    @T.prim_func\n    def f({buffers}):\n        for i in T.serial(6):\n            Z[i] = {text}\n"
        )
        import tvm

        arrays = [tvm.runtime.tensor(array) for array in (one, b, np.zeros(6))]
        built(function)["f"](*arrays)
        assert np.allclose(arrays[2].numpy(), numpy_function(name)(*arguments), rtol=1e-12, atol=1e-13), name


@needs_tvm
def test_the_file_runs(tmp_path: Path, capsys: Capture) -> None:
    command = ("code", *MATMULS, "-D", "M=8", "-D", "KN=4", "--language", "tvm")
    status, out, _ = run(capsys, *command, "-o", str(tmp_path))
    assert (status, out) == (0, f"{tmp_path}: mapping.py\n")
    done = subprocess.run([sys.executable, tmp_path / "mapping.py"], capture_output=True, text=True, check=True)
    values = fusiest.run(fusiest.load(*MATMULS, M=8, KN=4))
    assert dict(re.findall(r"(\w+): sum (\S+)", done.stdout)) == {n: f"{a.sum():.17g}" for n, a in values.items()}
