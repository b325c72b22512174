"""Networks as programs: with their weights, they compute what ONNX's reference does."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import fusiest
from fusiest.base.errors import SpecError
from fusiest.code import network_files
from fusiest.code.networks import run_network
from fusiest.networks import NetworkSpec, from_onnx
from tests.code.compiled import needs_compiler, plain_compiler
from tests.command_line import Capture, run
from tests.networks.random_graphs import random_graph
from tests.proving import PROVE

CHUNK = 20 if PROVE else 10
CHUNKS = 20 if PROVE else 1
OPTIONS = [{}, {}, {"softmax": "online"}, {"softmax": "deferred"}, {"elementwise": "keep"}]
Arrays = Mapping[str, np.ndarray[Any, Any]]


def imported(seed: int) -> tuple[NetworkSpec, onnx.ModelProto, Arrays] | None:
    """A random network as a workload, if any of its nodes is an Einsum."""
    drawn = random_graph(seed)
    if not drawn.nodes:
        return None
    model = drawn.model()
    try:
        return from_onnx(model, **OPTIONS[seed % len(OPTIONS)]), model, drawn.inputs
    except SpecError as error:
        if "no node became an Einsum" not in str(error):
            raise
        return None


def check(model: onnx.ModelProto, inputs: Arrays, found: Arrays) -> None:
    """The results are those of ONNX's reference, which has but the precision of the network's numbers."""
    for output, expected in zip(model.graph.output, ReferenceEvaluator(model).run(None, dict(inputs)), strict=True):
        array = found[output.name]
        scale = np.abs(expected[np.isfinite(expected)]).max(initial=1)
        assert array.shape == expected.shape
        assert np.allclose(array, expected, rtol=1e-5, atol=1e-5 * scale, equal_nan=True), output.name


def compiled(files: Mapping[str, str | bytes], folder: Path) -> Any:
    """The script of the folder, as a module, beside its compiled functions."""
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    settings = (f"CC={' '.join(plain_compiler())}", "CFLAGS=-O1 -Wall -Werror")
    done = subprocess.run(
        ["make", "-s", *settings, "network.so"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    spec = importlib.util.spec_from_file_location(f"run_{folder.name}", folder / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_compiler
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.filterwarnings("ignore")
def test_random_networks(chunk: int, tmp_path: Path) -> None:
    """The energy-optimal mapping of each, with a buffer that does not hold it all."""
    compared, refused, seen = 0, Counter[str](), Counter[str]()
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        drawn = imported(seed)
        if drawn is None:
            continue
        spec, model, inputs = drawn
        full = fusiest.load("simple", spec, GlobalBufferSize=4096, MainMemoryEnergy=100)
        try:
            best = fusiest.map(full, "energy", time_limit=20).best()
            files = network_files(full, spec.meaning(), best.looptree)
        except fusiest.NoMapping:
            continue
        except SpecError as error:
            refused[str(error)] += 1
            continue
        folder = tmp_path / f"n{seed}"
        folder.mkdir()
        check(model, inputs, compiled(files, folder).run(inputs)[0])
        plan = json.loads(str(files["network.json"]))
        seen["cuts"] += any("cut" in step for step in plan["steps"])
        seen["parts"] += sum("part" in step for step in plan["steps"]) > 1
        seen["weights"] += bool(plan["stored"])
        compared += 1
    assert compared >= 0.5 * CHUNK, refused
    assert min(seen[name] for name in ("cuts", "parts", "weights")) > 0


@pytest.mark.parametrize("chunk", range(CHUNKS * 2))
@pytest.mark.filterwarnings("ignore")
def test_random_networks_in_numpy(chunk: int) -> None:
    compared = 0
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        drawn = imported(seed)
        if drawn is not None:
            spec, model, inputs = drawn
            check(model, inputs, run_network(spec, spec.meaning(), inputs))
            compared += 1
    assert compared >= 0.7 * CHUNK


def small_network(path: Path, stored: bool = True) -> onnx.ModelProto:
    """A convolution, a bias, and a node that is no Einsum; without its weights, if they are not `stored`."""
    weights = np.arange(16, dtype=np.float32).reshape(4, 2, 1, 2) - 7
    kept = helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.ravel())
    if not stored:
        kept.ClearField("float_data")
        kept.data_location = TensorProto.EXTERNAL
        kept.external_data.add(key="location", value="gone.bin")
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["y"], strides=[1, 2]),
        helper.make_node("TopK", ["y", "k"], ["z", "i"], axis=1),
        helper.make_node("Relu", ["z"], ["r"]),
    ]
    kinds = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", (1, 2, 3, 8)), ("r", (1, 2, 3, 4)))
    ]
    constants = [
        kept,
        helper.make_tensor("b", TensorProto.FLOAT, (4,), [1, -2, 3, -4]),
        helper.make_tensor("k", TensorProto.INT64, (1,), [2]),
    ]
    graph = helper.make_graph(nodes, "small", kinds[:1], kinds[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    onnx.save(model, path)
    return model


@needs_compiler
def test_a_network_runs_from_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    model = small_network(tmp_path / "small.onnx")
    network, best, folder = (str(tmp_path / name) for name in ("small.onnx", "best.yaml", "out"))
    assert run(capsys, "map", "simple", network, "--mapping", best)[0] == 0
    status, out, err = run(capsys, "code", "simple", network, best, "--weights", "-o", folder)
    assert (status, err) == (0, "")
    assert out == f"{folder}: network.c, network.json, network.npz, run.py, Makefile\n"
    inputs = {"x": np.random.default_rng(0).integers(-4, 5, (1, 2, 3, 8)).astype(np.float32)}
    np.savez(tmp_path / "in.npz", **inputs)
    subprocess.run(["make", "-s", "-C", folder, f"CC={' '.join(plain_compiler())}"], check=True)
    command = [sys.executable, f"{folder}/run.py", tmp_path / "in.npz", "-o", tmp_path / "out.npz"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("r: 1 x 2 x 3 x 4, sum ")
    check(model, inputs, np.load(tmp_path / "out.npz"))


def test_weights_that_are_not_there_are_random_and_said_to_be(tmp_path: Path, capsys: Capture) -> None:
    small_network(tmp_path / "small.onnx", stored=False)
    network, best, folder = (str(tmp_path / name) for name in ("small.onnx", "best.yaml", "out"))
    run(capsys, "map", "simple", network, "--mapping", best)
    status, _, err = run(capsys, "code", "simple", network, best, "--weights", "-o", folder)
    assert (status, err) == (0, "note: 1 of 3 weights are not in the file, and random ones take their place\n")


def test_weights_outside_of_the_folder_are_not_read(tmp_path: Path, capsys: Capture) -> None:
    model = small_network(tmp_path / "small.onnx", stored=False)
    inner = tmp_path / "inner"
    inner.mkdir()
    model.graph.initializer[0].external_data[0].value = "../secret.bin"
    (tmp_path / "secret.bin").write_bytes(b"\0" * 64)
    onnx.save(model, inner / "small.onnx")
    best = str(tmp_path / "best.yaml")
    run(capsys, "map", "simple", str(inner / "small.onnx"), "--mapping", best)
    status, _, err = run(
        capsys, "code", "simple", str(inner / "small.onnx"), best, "--weights", "-o", str(tmp_path / "out")
    )
    assert (status, err.count("\n")) == (2, 1)
    assert "outside of the file's folder" in err
