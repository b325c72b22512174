"""Multiply-accumulates and parameters of networks are those that are published, or counted by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from fusiest.networks import from_onnx
from tests.networks.builders import Numbers, model_of, node

SHARED = Path(__file__).parents[3] / "shared" / "networks"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

# torchvision's lists: 1.814, 0.301 and 0.386 G. In these files batch
# normalization is folded in, and biases of zero are left out: a few parameters less than listed.
PUBLISHED = {
    "resnet18": (1_814_073_344, 11_679_912),
    "mobilenet_v2": (300_774_272, 3_469_760),
    "efficientnet_b0": (385_814_752, 5_236_192),
}


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.skipif(not SHARED.exists(), reason="no data beside the project: ../shared")
def test_published(name: str) -> None:
    report = from_onnx(SHARED / f"{name}.onnx").report
    assert (report.macs, report.parameters) == PUBLISHED[name]
    assert not report.cuts


def transformer(layers: int, tokens: int, width: int, inner: int, keys: int = 0, gated: bool = False) -> int:
    """Multiply-accumulates of layers of attention and feed-forward."""
    attention = tokens * width * (2 * width + 2 * (keys or width)) + 2 * tokens * tokens * width
    return layers * (attention + (3 if gated else 2) * tokens * width * inner)


@pytest.mark.parametrize(
    ("name", "macs"),
    [
        ("bert", transformer(2, 128, 768, 3072) + 768 * 768),
        ("gpt2", transformer(2, 128, 768, 3072)),
        ("llama3_eager", transformer(2, 128, 512, 1024, keys=128, gated=True)),
    ],
)
@pytest.mark.skipif(not SHARED.exists(), reason="no data beside the project: ../shared")
def test_transformers(name: str, macs: int) -> None:
    report = from_onnx(SHARED / f"{name}.onnx").report
    assert report.macs == macs
    assert not report.cuts


@pytest.mark.skipif(not SHARED.exists(), reason="no data beside the project: ../shared")
def test_bert_is_all_cascades() -> None:
    """A layer has 22 Einsums; embeddings 6, the pooler 1, and the copy of an output that the pooler reads."""
    assert from_onnx(SHARED / "bert.onnx").report.einsums == 2 * 22 + 7 + 1
    assert from_onnx(SHARED / "bert.onnx", softmax="online").report.einsums == 2 * 19 + 7 + 1


@pytest.mark.parametrize("name", ["bert", "gpt2"])
@pytest.mark.skipif(not SHARED.exists(), reason="no data beside the project: ../shared")
def test_ranks_say_what_they_count(name: str) -> None:
    """Heads and what is in one, though GPT-2 has queries, keys and values in one product."""
    sizes = {"M": 128, "P": 128, "D": 768, "H": 12, "E": 64, "F": 3072}
    assert sizes.items() <= from_onnx(SHARED / f"{name}.onnx").workload.rank_sizes.items()


def conv(outputs: int, inputs: int, kernel: int, places: int, groups: int = 1) -> int:
    return outputs * inputs // groups * kernel**2 * places**2


LIGHT_MACS = {
    "bvlc_alexnet": conv(96, 3, 11, 54) + conv(256, 96, 5, 26, 2) + conv(384, 256, 3, 12) + conv(384, 384, 3, 12, 2)
    + conv(256, 384, 3, 12, 2) + 9216 * 4096 + 4096 * 4096 + 4096 * 1000,
    "vgg19": conv(64, 3, 3, 224) + conv(64, 64, 3, 224) + conv(128, 64, 3, 112) + conv(128, 128, 3, 112) + conv(256, 128, 3, 56)
    + 3 * conv(256, 256, 3, 56) + conv(512, 256, 3, 28) + 3 * conv(512, 512, 3, 28) + 4 * conv(512, 512, 3, 14)
    + 25088 * 4096 + 4096 * 4096 + 4096 * 1000,
    "resnet50": 4_089_184_256, "squeezenet": 349_151_936, "densenet121": 2_834_161_664, "inception_v1": 1_431_556_352,
    "inception_v2": 2_018_851_840, "shufflenet": 124_664_528, "zfnet512": 1_481_727_008,
}  # fmt: skip
LIGHT_PARAMETERS = {"vgg19": 143_667_240, "resnet50": 25_557_032, "squeezenet": 1_235_496, "bvlc_alexnet": 60_965_224}


@pytest.mark.parametrize("name", LIGHT_MACS)
def test_the_networks_of_the_onnx_package(name: str) -> None:
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    report = from_onnx(model).report
    assert report.macs == LIGHT_MACS[name] == counted(model)
    assert report.parameters == LIGHT_PARAMETERS.get(name, report.parameters)


def counted(model: onnx.ModelProto) -> int:
    """Multiply-accumulates by ONNX's own inference of shapes."""
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {
        info.name: [d.dim_value for d in info.type.tensor_type.shape.dim]
        for info in (*inferred.value_info, *inferred.input, *inferred.output)
    }
    total = 0
    for one in inferred.node:
        if one.op_type == "Conv":
            w, y = shapes[one.input[1]], shapes[one.output[0]]
            total += y[0] * y[1] * y[2] * y[3] * w[1] * w[2] * w[3]
        elif one.op_type == "Gemm":
            (n,) = (s for s in [shapes[one.output[0]][-1]])
            w = shapes[one.input[1]]
            total += shapes[one.output[0]][0] * w[0] * w[1] // n * n
    return total


@pytest.mark.parametrize(("tokens", "share"), [(8, 4), (1, 1), (5, 3)])
def test_experts(tokens: int, share: int) -> None:
    """Each of four experts has as many tokens, though which ones depends on data."""
    numbers = Numbers()
    weights = {"gate": numbers(6, 4), "two": np.array([2]), "depth": np.array(4), "off_on": np.array([0.0, 1.0])}
    weights |= {f"w{i}": numbers(6, 5) for i in range(4)} | {f"i{i}": np.array(i) for i in range(4)}
    weights["row"] = np.array(0)
    nodes = [
        node("MatMul", ["x", "gate"], ["scores"], "router"), node("TopK", ["scores", "two"], ["best", "chosen"], "topk"),
        node("OneHot", ["chosen", "depth", "off_on"], ["hot"], "hot"), node("Transpose", ["hot"], ["mask"], "turn", perm=[2, 0, 1]),
    ]  # fmt: skip
    for i in range(4):
        nodes += [
            node("Gather", ["mask", f"i{i}"], [f"m{i}"], f"mask{i}", axis=0), node("NonZero", [f"m{i}"], [f"z{i}"], f"find{i}"),
            node("Gather", [f"z{i}", "row"], [f"t{i}"], f"tokens{i}", axis=0), node("Gather", ["x", f"t{i}"], [f"g{i}"], f"get{i}", axis=0),
            node("MatMul", [f"g{i}", f"w{i}"], [f"y{i}"], f"expert{i}"),
        ]  # fmt: skip
    report = from_onnx(model_of(nodes, {"x": [tokens, 6]}, weights, ["y0", "y1", "y2", "y3"])).report
    assert report.macs == tokens * 6 * 4 + 4 * share * 6 * 5


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrences(kind: str, gates: int, layout: int) -> None:
    """Five steps of a batch of two, forwards and backwards, width 3 to 4."""
    numbers = Numbers()
    weights = {"w": numbers(2, 4 * gates, 3), "r": numbers(2, 4 * gates, 4)}
    nodes = [node(kind, ["x", "w", "r"], ["y"], "steps", hidden_size=4, layout=layout, direction="bidirectional")]
    shape = [2, 5, 3] if layout else [5, 2, 3]
    spec = from_onnx(model_of(nodes, {"x": shape}, weights, ["y"]))
    assert spec.report.macs == 5 * 2 * 2 * 4 * gates * (3 + 4)
    assert [e.n_instances for e in spec.info.einsums.values()] == [1, 5]
    assert "run 5 times" in spec.report.cuts[0].detail
