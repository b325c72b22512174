"""Generated C, many mappings to a file: compiled, run, and held against NumPy's values and the model's counts."""

from __future__ import annotations

import functools
import importlib.util
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusiest
from fusiest.code.bodies import Body
from fusiest.code.in_numpy import input_arrays
from fusiest.code.lowering.statements import Program
from fusiest.code.printing.c.counting import Counters, runtime
from fusiest.code.printing.c.function import CText, helpers
from fusiest.code.programs import program_of
from fusiest.looptree import LoopTree
from fusiest.model import take_apart

FLAGS = ("-std=c99", "-O1", "-Wall", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
RawArray = np.ndarray[Any, Any]
_NONE = "no C compiler: install gcc or clang, or pip install ziglang"


@functools.cache
def compiler() -> tuple[str, ...]:
    """The system's C compiler, with sanitizers if it has them; else that of the package ziglang; else nothing."""
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            probe = [name, *SANITIZERS, "-x", "c", "-", "-o", "/dev/null"]
            done = subprocess.run(
                probe, input="int main(void) { return 0; }", capture_output=True, text=True, check=False
            )
            return (name, *SANITIZERS) if done.returncode == 0 else (name,)
    if importlib.util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "cc")
    return ()


def plain_compiler() -> tuple[str, ...]:
    """The same without sanitizers, for what Python itself loads."""
    return tuple(word for word in compiler() if word not in SANITIZERS)


needs_compiler = pytest.mark.skipif(not compiler(), reason=_NONE)


@dataclass
class Job:
    """A mapping that is to be compiled."""

    spec: fusiest.Spec
    program: Program
    counters: Counters
    text: str
    inputs: Mapping[str, RawArray]
    results: Mapping[str, RawArray]
    """What it must compute."""
    case: object = None


class Batch:
    """Mappings in one file, each a function."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.first, self.rooms = 0, 0

    def add(
        self,
        spec: fusiest.Spec,
        tree: LoopTree,
        case: object = None,
        inputs: Mapping[str, RawArray] | None = None,
        bodies: Mapping[str, Body] | None = None,
        results: Mapping[str, RawArray] | None = None,
    ) -> Job:
        arrays = inputs if inputs is not None else input_arrays(spec.info, None)
        program = program_of(spec, tree, bodies, {tensor: array.shape for tensor, array in arrays.items()})
        counters = Counters(program, take_apart(spec, tree), fusiest.evaluate(spec, tree), self.first, self.rooms)
        self.first += len(counters.numbers)
        self.rooms += len(counters.ordered)
        text = CText(program, counters).function(f"mapping_{len(self.jobs)}")
        if results is None:
            results = fusiest.run(spec, arrays)
        self.jobs.append(Job(spec, program, counters, text, arrays, results, case))
        return self.jobs[-1]

    def run(self, folder: Path, flags: Sequence[str] = FLAGS) -> None:
        """Compile and run it; every value, count and high-water mark must be right."""
        (folder / "all.c").write_text(self._text())
        command = [*compiler(), *flags, "-o", "all", "all.c", "-lm"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]
        (folder / "in.raw").write_bytes(b"".join(self._given(job) for job in self.jobs))
        done = subprocess.run(["./all"], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]
        found = _Raw((folder / "out.raw").read_bytes())
        values = [
            {a.tensor: found.array(a.outside.size if a.outside else ()) for a in j.program.outputs} for j in self.jobs
        ]
        total, unit = (found.take(self.first or 1, np.uint64) for _ in range(2))
        for job, outputs in zip(self.jobs, values, strict=True):
            peaks = found.take(len(job.counters.memories), np.float64)
            wrong = [*_wrong_values(job, outputs), *_wrong_counts(job, total, unit), *_wrong_peaks(job, peaks)]
            assert not wrong, f"{wrong[:10]}\n{job.case!r}\n{job.text}"

    def _text(self) -> str:
        functions = "\n".join(job.text for job in self.jobs)
        lines = [line for number, job in enumerate(self.jobs) for line in _call(number, job)]
        counting = runtime([job.counters for job in self.jobs])
        return helpers(functions) + counting + functions + _MAIN % "\n".join(lines)

    @staticmethod
    def _given(job: Job) -> bytes:
        return b"".join(np.ascontiguousarray(job.inputs[a.tensor], float).tobytes() for a in job.program.inputs)


_MAIN = """
#include <stdio.h>
#include <stdlib.h>
static void *array(FILE *in, size_t n) {
  value *a = calloc(n, sizeof(value));
  if (!a || (in && fread(a, sizeof(value), n, in) != n)) exit(2);
  return a;
}
static void save(void *a, size_t n, FILE *out) { fwrite(a, sizeof(value), n, out); }
int main(void) {
  FILE *in = fopen("in.raw", "rb"), *out = fopen("out.raw", "wb");
%s
  fwrite(total, sizeof total, 1, out); fwrite(unit, sizeof unit, 1, out); fwrite(peak, sizeof peak, 1, out);
  fclose(in);
  return fclose(out);
}
"""


def _call(number: int, job: Job) -> Iterator[str]:
    """One function with its inputs and results."""
    inputs, outputs = job.program.inputs, job.program.outputs
    names = [f"a_{number}_{i}" for i in range(len(inputs) + len(outputs))]
    for name, array in zip(names, (*inputs, *outputs), strict=True):
        yield f"  void *{name} = array({'in' if array in inputs else 'NULL'}, {array.elements});"
    yield f"  mapping_{number}({', '.join(names)});"
    for name, array in zip(names[len(inputs) :], outputs, strict=True):
        yield f"  save({name}, {array.elements}, out);"
    for name in names:
        yield f"  free({name});"


class _Raw:
    """A file that is read from its beginning to its end."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def take(self, count: int, kind: Any) -> RawArray:
        found = np.frombuffer(self.content, kind, count, self.at)
        self.at += count * 8
        return found

    def array(self, shape: Sequence[int]) -> RawArray:
        return self.take(math.prod(shape), np.float64).reshape(shape)


def _wrong_values(job: Job, outputs: Mapping[str, RawArray]) -> list[str]:
    wrong = []
    for tensor, array in outputs.items():
        expected = job.results[tensor]
        known = np.isfinite(expected)  # a maximum over padding alone is infinite, and what follows from it nothing
        scale = np.abs(expected[known]).max(initial=1)
        if not np.allclose(array[known], expected[known], rtol=1e-9, atol=1e-9 * scale):
            wrong.append(f"{tensor}: {array.ravel()[:8]}, not {expected.ravel()[:8]}")
    return wrong


def _wrong_counts(job: Job, total: RawArray, unit: RawArray) -> list[str]:
    wrong = []
    for (einsum, key), number in job.counters.numbers.items():
        component, tensor, action = key
        evaluation = job.counters.evaluation.einsums[einsum]
        a = job.counters.parts.bound[einsum][component].actions[action]
        each = (1 / a.values_per_action[tensor] if tensor else 1) * a.actions_scale
        instances = job.spec.info.einsums[einsum].n_instances
        pairs = (("total", int(total[number]) * each * instances, evaluation.actions[key]),
                 ("unit", int(unit[number]) * each, evaluation.per_unit[key]))  # fmt: skip
        wrong += [
            f"{einsum} {key} {kind}: {a}, not {b}" for kind, a, b in pairs if not math.isclose(a, b, rel_tol=1e-12)
        ]
    return wrong


def _wrong_peaks(job: Job, peaks: RawArray) -> list[str]:
    expected = job.counters.evaluation.peak_occupancy_bits
    found = dict(zip(job.counters.memories, peaks, strict=True))
    names = [*dict.fromkeys([*expected, *found])]
    return [
        f"{name}: {found.get(name)} bits, not {expected.get(name)}"
        for name in names
        if not math.isclose(found.get(name, 0), expected.get(name, 0), rel_tol=1e-12)
    ]
