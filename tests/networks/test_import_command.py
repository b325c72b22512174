"""`fusiest import`, networks as workloads of other commands, and `fusiest.from_onnx`."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

import fusiest
from tests.command_line import run
from tests.networks.alike import shape_of
from tests.networks.builders import Numbers, decoder, model_of, node


@pytest.fixture
def network(tmp_path: Path) -> str:
    onnx.save(decoder(parts=True), tmp_path / "decoder.onnx")
    return str(tmp_path / "decoder.onnx")


def cnn(batch: int | str = 1) -> onnx.ModelProto:
    """A convolution, a function, pooling, a classifier."""
    numbers = Numbers()
    nodes = [
        node("Conv", ["x", "conv.weight", "b"], ["y"], "conv", pads=[1, 1, 1, 1]), node("Relu", ["y"], ["r"], "relu"),
        node("MaxPool", ["r"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]), node("Flatten", ["p"], ["f"], "flatten"),
        node("Gemm", ["f", "fc.weight"], ["z"], "fc", transB=1),
    ]  # fmt: skip
    weights = {"conv.weight": numbers(4, 3, 3, 3), "b": numbers(4), "fc.weight": numbers(5, 64)}
    return model_of(nodes, {"x": [batch, 3, 8, 8]}, weights, ["z"])


def test_the_workload_and_the_report(network: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {name: str(tmp_path / name) for name in ("net.yaml", "nodes.txt", "nodes.json")}
    status, out, err = run(
        capsys,
        "import",
        network,
        "-o",
        files["net.yaml"],
        "--report",
        files["nodes.txt"],
        "--json",
        files["nodes.json"],
    )
    assert (status, err) == (0, "")
    assert "23 Einsums" in out
    found = json.loads(Path(files["nodes.json"]).read_text())
    assert found["einsums"] == 23
    assert len(found["nodes"]) == len(onnx.load(network).graph.node)
    assert {n["became"] for n in found["nodes"]} == {"einsums", "view", "folded"}
    assert {n["name"]: n["detail"] for n in found["nodes"]}["l0.act"] == "into l0_gate"
    assert found["macs"] == sum(size for size in (6 * 16 * 16 * 2, 6 * 16 * 8 * 2, 2 * 6 * 6 * 16, 3 * 6 * 16 * 8))
    listed = Path(files["nodes.txt"]).read_text()
    assert all(n["name"] in listed for n in found["nodes"])
    spec = fusiest.load(files["net.yaml"])
    assert shape_of(spec) == shape_of(fusiest.from_onnx(network))
    assert spec == fusiest.load(network)


def test_the_file_maps_the_same(network: str, tmp_path: Path) -> None:
    spec = fusiest.from_onnx(network)
    (tmp_path / "net.yaml").write_text(spec.to_yaml())
    both = [fusiest.load("tpu_v4i", source) for source in (spec, tmp_path / "net.yaml")]
    best = [fusiest.map(one, "edp", orders="given").best("edp") for one in both]
    assert (best[0].energy, best[0].latency) == (best[1].energy, best[1].latency)
    assert fusiest.load("tpu_v4i", spec).workload == fusiest.load("tpu_v4i", network).workload


def test_every_command_takes_a_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(cnn(), tmp_path / "cnn.onnx")
    net, mapping = str(tmp_path / "cnn.onnx"), str(tmp_path / "best.yaml")
    assert run(capsys, "show", net)[0] == 0
    assert run(capsys, "map", "simple", net, "--objective", "energy", "--mapping", mapping, "--quiet")[0] == 0
    assert run(capsys, "evaluate", "simple", net, mapping)[0] == 0


def test_batches(tmp_path: Path) -> None:
    """A batch around a network of one sample is what an open first dimension of that size is."""
    onnx.save(cnn("n"), tmp_path / "open.onnx")
    around = fusiest.from_onnx(cnn(), batch=4)
    given = fusiest.from_onnx(str(tmp_path / "open.onnx"), dims={"n": 4})
    assert shape_of(around) == shape_of(given)
    assert shape_of(fusiest.load(tmp_path / "open.onnx", n=4)) == shape_of(given)
    assert shape_of(fusiest.load(tmp_path / "open.onnx", batch=4)) == shape_of(given)
    assert around.report.macs == 4 * fusiest.from_onnx(cnn()).report.macs


def test_bits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(cnn(), tmp_path / "cnn.onnx")
    out = str(tmp_path / "cnn.yaml")
    assert run(capsys, "import", str(tmp_path / "cnn.onnx"), "-o", out, "--bits", "weight=4,Other=16")[0] == 0
    info = fusiest.load(out).info.einsums["conv"]
    assert info.bits_per_value == {"x": 16, "conv_weight": 4, "conv": 16}
    assert fusiest.load(tmp_path / "cnn.onnx", bits="weight=4,Other=16") == fusiest.load(out)
    assert set(fusiest.from_onnx(cnn(), bits=32).info.einsums["fc"].bits_per_value.values()) == {32}


def test_a_section(network: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = fusiest.from_onnx(network, first="l0.qk", last="l0.av")
    assert next(iter(part.info.einsums)) == "l0_qk"
    assert list(part.info.einsums)[-1] == "l0_av"
    assert len(part.info.einsums) == 6
    status, _, err = run(capsys, "import", network, "--from", "l0.softmx")
    assert (status, err.count("\n")) == (2, 1)
    assert "did you mean 'l0.softmax'?" in err


def test_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["y"], "first"),
        node("CumSum", ["y", "axis"], ["z"], "sums"),
        node("MatMul", ["z", "w"], ["o"], "last"),
    ]
    model = model_of(nodes, {"x": [4, 4]}, {"w": Numbers()(4, 4), "axis": [0]}, ["o"])
    onnx.save(model, tmp_path / "cut.onnx")
    status, out, err = run(capsys, "import", str(tmp_path / "cut.onnx"))
    assert (status, err) == (0, "")
    assert "cut at CumSum sums: no Einsum says CumSum" in out
    status, _, err = run(capsys, "import", str(tmp_path / "cut.onnx"), "--strict")
    assert (status, err.count("\n")) == (2, 1)
    report = fusiest.from_onnx(model).report
    assert report.to_json()["cut_share_of_macs"] == 1.0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--softmax", "none"],
        ["--elementwise", "x"],
        ["--bits", "x"],
        ["--bits", "0"],
        ["--batch", "0"],
        ["--dim", "n"],
        ["--dim", "n=4"],
    ],
)
def test_options_that_make_no_sense(arguments: list[str], network: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "import", network, *arguments)
    assert (status, err.count("\n")) == (2, 1)


def test_names_are_those_of_modules() -> None:
    text = fusiest.from_onnx(cnn()).to_yaml()
    assert '"conv[c4, p8, q8] = relu(x[c3, H: p8 + r3 - 1, W: q8 + s3 - 1] * conv_weight[c4, c3, r3, s3])"' in text
    assert '"pool[c4, p4, q4] = max(conv[c4, P8: 2*p4 + r2, Q8: 2*q4 + s2])"' in text
    assert "# Conv conv, with Relu relu" in text


def test_outputs_go_to_stdout_one_at_a_time(network: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = set(tmp_path.iterdir())
    status, out, _ = run(capsys, "import", network, "--json", "-")
    assert (status, json.loads(out)["einsums"]) == (0, 23)
    status, out, _ = run(capsys, "import", network, "--report", "-")
    assert status == 0
    assert "l0.act" in out
    status, out, _ = run(capsys, "import", network, "-o", "-")
    assert status == 0
    assert "einsums:" in out
    status, out, err = run(capsys, "import", network, "-o", "-", "--json", "-")
    assert (status, out, err) == (2, "", "--json -: --output writes it, too; only one can go to stdout\n")
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("option", ["-o", "--report", "--json"])
def test_the_network_is_not_overwritten(
    option: str, network: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Path(network).read_bytes()
    status, out, err = run(capsys, "import", network, option, str(tmp_path / "." / "decoder.onnx"))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "would overwrite it, and it is read here" in err
    assert Path(network).read_bytes() == whole
