"""`fusiest code`: what it writes, what it refuses, and what the program prints."""

from __future__ import annotations

import gzip
import json
import math
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusiest
from fusiest.code.programs import program_of
from tests.code.compiled import compiler, needs_compiler
from tests.command_line import MATMULS, Capture, run

SMALL = (*MATMULS, "-D", "N_EINSUMS=2", "-D", "M=8", "-D", "KN=4")


def make(folder: Path, *arguments: str) -> str:
    """What `make` prints, with the compiler of the tests."""
    settings = (f"CC={' '.join(compiler())}", "CFLAGS=-O1 -Wall -Wextra -pedantic -Werror")
    done = subprocess.run(
        ["make", "-s", *settings, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def differences(a: Any, b: Any, path: str = "") -> list[str]:
    """Where two JSON documents differ by more than rounding."""
    if isinstance(b, dict):
        assert isinstance(a, dict)
        unlike = [f"{path}/{name}" for name in a.keys() ^ b.keys()]
        return unlike + [
            found for name in a.keys() & b.keys() for found in differences(a[name], b[name], f"{path}/{name}")
        ]
    same = a == pytest.approx(b, rel=1e-12) if isinstance(b, float) else a == b
    return [] if same else [f"{path}: {a}, not {b}"]


@pytest.mark.parametrize("language", ["c", "pseudocode"])
def test_a_function_goes_to_stdout(language: str, capsys: Capture) -> None:
    status, out, err = run(capsys, "code", *SMALL, "--language", language)
    spec = fusiest.load(*MATMULS, N_EINSUMS=2, M=8, KN=4)
    assert (status, err) == (0, "")
    assert "fetch" in out
    best = fusiest.map(fusiest.load("simple", "matmuls", N_EINSUMS=2, M=8, KN=4)).best()
    assert spec.mapping is not None
    assert "fetch" in best.code(language)


@needs_compiler
def test_a_folder_computes_and_counts(tmp_path: Path, capsys: Capture) -> None:
    """The sums are NumPy's; the counts are those of `evaluate --json`, and `compare` takes them."""
    folder = tmp_path / "out"
    status, out, err = run(capsys, "code", *SMALL, "-o", str(folder), "--count")
    assert (status, err) == (0, "")
    assert "mapping_count.c" in out
    spec = fusiest.load(*MATMULS, N_EINSUMS=2, M=8, KN=4)
    (name, values), *_ = fusiest.run(spec).items()
    assert make(folder, "run").strip() == f"{name}: sum {values.sum():.17g}"
    counts = make(folder, "count")
    run(capsys, "evaluate", *SMALL, "--json", str(tmp_path / "model.json"))
    counted, model = json.loads(counts), json.loads((tmp_path / "model.json").read_text())
    told = {"created", "command"}
    assert differences(*({k: v for k, v in one.items() if k not in told} for one in (counted, model))) == []
    (tmp_path / "counts.json").write_text(counts)
    status, out, _ = run(capsys, "compare", str(tmp_path / "model.json"), str(tmp_path / "counts.json"))
    assert status == 0
    assert "LoopTrees are equal" in out


@needs_compiler
def test_raw_files_go_in_and_out(tmp_path: Path, capsys: Capture) -> None:
    run(capsys, "code", *SMALL, "-o", str(tmp_path))
    spec, generator = fusiest.load(*MATMULS, N_EINSUMS=2, M=8, KN=4), np.random.default_rng(1)
    inputs = {"T0": generator.random((8, 4)), "W0": generator.random((4, 4)), "W1": generator.random((4, 4))}
    data = tmp_path / "data"
    data.mkdir()
    for name, array in inputs.items():
        array.tofile(data / f"{name}.raw")
    make(tmp_path, "run", f"DATA={data}")
    found = np.fromfile(data / "T2.raw").reshape(8, 4)
    assert found == pytest.approx(fusiest.run(spec, inputs)["T2"])
    (data / "W0.raw").write_bytes(b"short")
    done = subprocess.run([tmp_path / "mapping", data], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"{data}/W0.raw: is not as large as the tensor\n")


@needs_compiler
@pytest.mark.parametrize(
    ("style", "line"), [("ramulator", r"(LD|ST) 0x[0-9a-f]+"), ("dramsim", r"0x[0-9a-f]+ (READ|WRITE) \d+")]
)
def test_a_trace_has_every_access(style: str, line: str, tmp_path: Path, capsys: Capture) -> None:
    """The main memory's lines of 64 bytes: all of each tensor is touched, and nothing beyond them."""
    status, _, _ = run(capsys, "code", *SMALL, "-o", str(tmp_path), "--trace", "MainMemory", "--trace-format", style)
    assert status == 0
    make(tmp_path, "trace")
    lines = gzip.decompress((tmp_path / "trace.gz").read_bytes()).decode().splitlines()
    assert lines
    assert all(re.fullmatch(line, found) for found in lines)
    addresses = {int(found, 16) for text in lines for found in re.findall("0x[0-9a-f]+", text)}
    spec = fusiest.load(*MATMULS, N_EINSUMS=2, M=8, KN=4)
    program = program_of(spec)
    sizes = [array.elements * array.width / 8 for array in (*program.inputs, *program.outputs)]
    assert addresses == {64 * i for i in range(sum(math.ceil(size / 64) for size in sizes))}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--count"], "--count makes several files: name a folder for them by -o DIR"),
        (["--trace", "MainMemory"], "--trace makes several files: name a folder for them by -o DIR"),
        (
            ["-o", "x", "--trace", "MainMemry"],
            "the mapping holds nothing in a memory MainMemry; did you mean 'MainMemory'?",
        ),
        (["-o", "x", "--count", "--language", "pseudocode"], "--count does not go with --language pseudocode"),
        (["-o", "x", "--weights"], "--weights wants the network as an ONNX file for its workload"),
        (["-o", "x", "--weights", "--count"], "--count does not go with --weights"),
        (["--language", "d"], "there is no code in 'd'"),
    ],
)
def test_what_does_not_go_together(
    options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, "code", *SMALL, *options)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "x").exists()
