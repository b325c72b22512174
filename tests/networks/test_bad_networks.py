"""Networks that are broken, hostile or huge: one line, status 2, in bounded time and memory."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import zipfile
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

import fusiest
from fusiest.base.errors import SpecError
from fusiest.networks import ImportOptions, import_network, network_spec
from fusiest.networks.importing import import_graph
from fusiest.networks.onnx.onnx_graph import parse_onnx, read_onnx
from tests.command_line import run
from tests.networks.builders import Numbers, decoder, model_of, node
from tests.networks.mutations import mutated
from tests.networks.random_graphs import random_graph
from tests.networks.small_program import small_program
from tests.proving import PROVE


def product(**changes: Any) -> onnx.ModelProto:
    """One product, with changes to its nodes or inputs."""
    nodes = changes.get("nodes", [node("MatMul", ["x", "w"], ["y"], "first")])
    return model_of(nodes, changes.get("inputs", {"x": [4, 4]}), {"w": Numbers()(4, 4)}, changes.get("outputs", ["y"]))


def without_shape() -> onnx.ModelProto:
    model = product()
    model.graph.input[0].type.tensor_type.ClearField("shape")
    return model


def with_huge_constant() -> onnx.ModelProto:
    model = product()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.dims[:] = [2**63 - 1, 4]
    return model


CYCLE = [node("Add", ["x", "b"], ["a"], "one"), node("Add", ["a", "x"], ["b"], "other")]
BROKEN = {
    "cycle": (product(nodes=CYCLE, outputs=["b"]), "Add node one"),
    "no shape": (without_shape(), "input x has no shape"),
    "open": (product(inputs={"x": ["n", 4]}), "dimension 'n' is open; give --dim n=SIZE or --batch N"),
    "2^63": (product(inputs={"x": [2**63 - 1, 4]}), "dimension 0 is too large"),
    "huge constant": (with_huge_constant(), "constant w has the shape"),
    "negative": (product(inputs={"x": [-(2**63), 4]}), "is open"),
    "product of sizes": (product(nodes=[node("MatMul", ["x", "x"], ["y"], "n")], inputs={"x": [2**40, 2**40]}), ""),
    "does not fit": (product(inputs={"x": [4, 5]}), "MatMul node first: a product of 4x5 and 4x4"),
    "name of two lines": (product(nodes=[node("MatMul", ["x", "no\nsuch"], ["y"], "a\nb")]), "no"),
    "two of one name": (product(nodes=[node("Relu", ["x"], ["y"], "r"), node("Relu", ["x"], ["y"], "s")]), "two values"),
    "no output": (product(outputs=["z"]), "output z is made by no node"),
    "nothing computed": (product(nodes=[node("Identity", ["x"], ["y"], "i")]), "nothing is computed"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_models(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, said = BROKEN[name]
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    status, out, err = run(capsys, "import", str(tmp_path / "net.onnx"))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_every_truncation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that ends early is no model, or one of fewer nodes."""
    content = decoder(parts=True).SerializeToString()
    for end in (0, 1, 7, *range(100, len(content), len(content) // 9)):
        (tmp_path / "net.onnx").write_bytes(content[:end])
        status, _, err = run(capsys, "import", str(tmp_path / "net.onnx"))
        assert (status, err.count("\n")) in ((2, 1), (0, 0))
        assert status == 2


@pytest.mark.parametrize("content", [b"PK\x03\x04", b"", b"{}", b"workload: {}\n", bytes(range(256)) * 40])
@pytest.mark.parametrize("suffix", ["onnx", "pt2"])
def test_files_of_another_kind(content: bytes, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / f"net.{suffix}").write_bytes(content)
    for command in (["import"], ["map", "tpu_v4i"]):
        status, _, err = run(capsys, *command, str(tmp_path / f"net.{suffix}"))
        assert (status, err.count("\n")) == (2, 1)


def test_names_of_several_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They become names that a file can have."""
    names = ["a\nb", "{{ 1 }}", "é\u2028", 'x" * y', "- {", "# no"]
    nodes = [node("MatMul", [f"v{i}" if i else "x", "w"], [f"v{i + 1}"], name) for i, name in enumerate(names)]
    onnx.save(product(nodes=nodes, outputs=[f"v{len(names)}"]), tmp_path / "net.onnx")
    files = [str(tmp_path / name) for name in ("net.yaml", "nodes.txt", "nodes.json")]
    status, _, err = run(
        capsys, "import", str(tmp_path / "net.onnx"), "-o", files[0], "--report", files[1], "--json", files[2]
    )
    assert (status, err) == (0, "")
    assert fusiest.load(files[0]) == fusiest.load(tmp_path / "net.onnx")
    assert [n["name"] for n in json.loads(Path(files[2]).read_text())["nodes"]] == [
        "a?b",
        *names[1:2],
        "é?",
        *names[3:],
    ]
    assert len(Path(files[1]).read_text().splitlines()) < 30


def test_a_million_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = helper.make_node("Relu", ["x"], ["x"]).SerializeToString()
    many = (b"\x0a" + bytes([len(one)]) + one) * 1_000_000  # field 1 of a graph: its nodes
    model = product()
    model.graph.ClearField("node")
    graph = model.graph.SerializeToString() + many
    model.ClearField("graph")
    size, digits = len(graph), bytearray()
    while size > 127:
        digits.append(size & 127 | 128)
        size >>= 7
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString() + b"\x3a" + bytes([*digits, size]) + graph)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    status, _, err = run(capsys, "import", str(tmp_path / "net.onnx"))
    assert (status, err.count("\n")) == (2, 1)
    assert "1,000,000 nodes, more than 50,000" in err
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 20


def test_external_data_is_not_read(tmp_path: Path) -> None:
    """Two GiB of weights beside the file, and a path that leads elsewhere."""
    nodes = [node("MatMul", ["x", "w"], ["y"], "big"), node("MatMul", ["y", "v"], ["z"], "other")]
    model = product(nodes=nodes, inputs={"x": [16, 2**14]}, outputs=["z"])
    del model.graph.initializer[:]
    for name, shape, place in (("w", [2**14, 2**15], "weights.bin"), ("v", [2**15, 8], "../../../etc/passwd")):
        tensor = model.graph.initializer.add(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=1)
        tensor.external_data.add(key="location", value=place)
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(2**31)  # a hole: no disk is used
    onnx.save(model, tmp_path / "net.onnx")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = fusiest.from_onnx(tmp_path / "net.onnx").report
    assert (report.macs, report.parameters) == (16 * (2**29 + 2**18), 2**29 + 2**18)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < most + 500_000


@pytest.mark.filterwarnings("ignore")
def test_random_changes() -> None:
    """A workload that loads, or one line; `make fuzz-networks` tries many more."""
    done = refused = lines = 0
    for seed in range(2000 if PROVE else 150):
        dice = random.Random(seed)
        drawn = random_graph(seed % 40)
        if not drawn.nodes:
            continue
        try:
            model = mutated(drawn.model(), dice)
        except (ValueError, TypeError):
            continue  # protobuf refuses it
        done += 1
        try:
            read = read_onnx(parse_onnx(model.SerializeToString(), "net"), "net", ImportOptions())
            network_spec(import_graph(read, ImportOptions()))
        except fusiest.SpecError as error:
            refused += 1
            lines = max(lines, len(str(error).splitlines()))
    assert lines == 1
    assert done > 100
    assert 0.1 * done < refused < done


def test_programs_of_torch_with_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every entry of the small program left out in turn."""
    whole = small_program()
    graph = whole["graph_module"]["graph"]
    cases: list[Any] = [{}, [], None, {"graph_module": {}}]
    for i in range(len(graph["nodes"])):
        copy = json.loads(json.dumps(whole))
        del copy["graph_module"]["graph"]["nodes"][i]
        cases.append(copy)
    for name in graph["tensor_values"]:
        copy = json.loads(json.dumps(whole))
        copy["graph_module"]["graph"]["tensor_values"][name]["sizes"][0] = {"as_int": 2**63}
        cases.append(copy)
    for change in ("no such", {"a": 1}, 5, None):  # as the name of an output
        copy = json.loads(json.dumps(whole))
        copy["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"]["as_tensor"]["name"] = change
        cases.append(copy)
    for case in cases:
        with zipfile.ZipFile(tmp_path / "net.pt2", "w") as file:
            file.writestr("net/models/model.json", json.dumps(case))
            file.writestr("net/archive_format", "pt2")
        status, _, err = run(capsys, "import", str(tmp_path / "net.pt2"))
        assert (status, err.count("\n")) == (2, 1)


@pytest.mark.parametrize("name", ["pipe.onnx", "pipe.pt2", "folder.onnx", "/dev/zero"])
def test_only_regular_files_are_read(name: str, tmp_path: Path) -> None:
    """A pipe without a writer would wait for ever; a device would fill the memory."""
    (tmp_path / "folder.onnx").mkdir()
    for pipe in ("pipe.onnx", "pipe.pt2"):
        os.mkfifo(tmp_path / pipe)
    kind = "a directory" if "folder" in name else "not a regular file"
    with pytest.raises(SpecError, match=f"{name}: this is {kind}"):
        import_network(tmp_path / name)


def einsum_of(inputs: dict[str, list[Any]], names: list[str], equation: str) -> onnx.ModelProto:
    return model_of(
        [node("Einsum", names, ["s"], "e", equation=equation), node("Relu", ["s"], ["y"], "r")], inputs, {}, ["y"]
    )


LETTERS = [chr(0x4E00 + i) for i in range(4_000)]
PARTS = [f"x{i}" for i in range(1_500)]
LONG: dict[str, onnx.ModelProto] = {
    "indices": einsum_of(
        {f"x{i}": [2] for i in range(4_000)}, [f"x{i}" for i in range(4_000)], ",".join(LETTERS) + "->"
    ),
    "operands": einsum_of({"x": [2]}, ["x"] * 20_000, ",".join("i" * 20_000) + "->i"),
    "implicit": einsum_of({"x": [2], "w": [2]}, ["x", "w"], "".join(LETTERS) * 25 + ",i"),
    "parts": model_of([node("Concat", PARTS, ["y"], "c", axis=0)], {part: [2] for part in PARTS}, {}, ["y"]),
}


@pytest.mark.parametrize("name", LONG)
def test_long_nodes_take_no_longer_than_their_text(name: str) -> None:
    """Some 100 KB: a cut, a line, or Einsums; not minutes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    with contextlib.suppress(fusiest.FusiestError):
        fusiest.from_onnx(LONG[name])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 20


def test_more_products_than_a_number_counts() -> None:
    """52 indices of 2,000,000 each."""
    names = [f"x{i}" for i in range(52)]
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    model = einsum_of({name: [2_000_000] for name in names}, names, ",".join(letters) + "->a")
    with contextlib.suppress(fusiest.SpecError):
        assert fusiest.from_onnx(model).report.summary()


@pytest.mark.parametrize("text", [b"[" + b"[]," * 20_000_000 + b"[]]", b'{"a":' * 10_000_000, b"[" * 60_000_000])
def test_small_files_stay_small_in_memory(text: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """60 MB of brackets, in a file of some KB: as Python's objects they would be gigabytes."""
    with zipfile.ZipFile(tmp_path / "net.pt2", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("net/archive_format", "pt2")
        file.writestr("net/models/model.json", text)
    assert (tmp_path / "net.pt2").stat().st_size < 600_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status, _, err = run(capsys, "import", str(tmp_path / "net.pt2"))
    assert (status, err.count("\n")) == (2, 1)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000
