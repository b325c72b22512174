"""The library's whole networks: they are what the imports of the same networks are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import fusiest
from tests.networks.alike import shape_of

SHARED = Path(__file__).parents[3] / "shared" / "networks"

# Published or counted: multiply-accumulates of the whole network, and its Einsums.
NETWORKS: dict[str, tuple[dict[str, Any], int, int]] = {
    "resnet18": ({}, 1_814_073_344, 31),
    "resnet50": ({}, 4_089_184_256, 72),
    "mobilenet_v2": ({}, 300_774_272, 64),
    "vgg_e": ({}, 224**2 * 64 * 9 * (3 + 64) + 112**2 * 128 * 9 * (64 + 128) + 56**2 * 256 * 9 * 128, 7),
    "fsrcnn": ({}, 540 * 960 * 12_464, 8),
    "vit_b_16": ({}, 17_563_828_224, 272),
    "bert_base": ({}, 11_174_215_680, 272),
    "gpt2": ({"N_TOKENS": 128}, 12 * (128 * 768 * (4 * 768 + 2 * 128 + 2 * 3072)) + 128 * 768 * 50257, 270),
    "llama3_8B": (
        {"N_TOKENS": 128, "N_LAYERS": 2},
        2 * 128 * 4096 * (2 * 4096 + 2 * 1024 + 2 * 128 + 3 * 14336),
        1 + 2 * 19,
    ),
    "mixtral_8x7B": (
        {"N_TOKENS": 128},
        128 * 4096 * (2 * 4096 + 2 * 1024 + 2 * 128 + 8 + 2 * 3 * 14336),
        1 + 24,
    ),
    "mamba_130M_step": ({}, 1536 * (3 * 768 + 3 + 2 * 48 + 3 * 16), 22),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_counts(name: str) -> None:
    defines, macs, einsums = NETWORKS[name]
    info = fusiest.load(name, defines=defines).info
    products = [e for e in info.einsums.values() if e.operation == "matmul"]
    assert sum(math.prod(e.bounds.values()) for e in products) == macs
    assert len(info.einsums) == einsums


@pytest.mark.parametrize(
    ("name", "file", "defines"),
    [
        ("resnet18", "resnet18", {}),
        ("mobilenet_v2", "mobilenet_v2", {}),
        ("bert_base", "bert", {"N_LAYERS": 2}),
        ("bert_base", "bert", {"N_LAYERS": 2, "SOFTMAX": "online"}),
        ("gpt2", "gpt2", {"N_LAYERS": 2, "N_TOKENS": 128, "N_WORDS": 0}),
        ("gpt2", "gpt2", {"N_LAYERS": 2, "N_TOKENS": 128, "N_WORDS": 0, "SOFTMAX": "deferred"}),
    ],
)
@pytest.mark.skipif(not SHARED.exists(), reason="no data beside the project: ../shared")
def test_they_are_the_imports(name: str, file: str, defines: dict[str, Any]) -> None:
    """Einsum by Einsum, up to names, for a batch of two."""
    ours = fusiest.load(name, BATCH_SIZE=2, defines=defines)
    theirs = fusiest.from_onnx(SHARED / f"{file}.onnx", batch=2, softmax=defines.get("SOFTMAX", "cascade"))
    assert shape_of(ours) == shape_of(theirs)


@pytest.mark.skipif(not SHARED.exists(), reason="no data beside the project: ../shared")
def test_llama() -> None:
    """The export has tables for the rotary embedding in each layer, ours are the same for all; the last norm comes with the words."""
    sizes = {"WIDTH": 512, "HEADS": 2, "GROUPS": 4, "HEAD_SIZE": 64, "INNER": 1024, "N_TOKENS": 128, "N_LAYERS": 2}
    ours = fusiest.load("llama3_8B", SOFTMAX="cascade", defines=sizes).info
    theirs = fusiest.from_onnx(SHARED / "llama3_eager.onnx")

    def computed(info: Any) -> list[Any]:
        sizes = [[n for n in e.bounds.values() if n > 1] for e in info.einsums.values()]
        return [(e.operation, sorted(s)) for e, s in zip(info.einsums.values(), sizes, strict=True)]

    assert computed(ours) == computed(theirs.info)[:-2]


def test_experts_share_the_tokens() -> None:
    for tokens, working, each in ((1, 2, 1), (3, 6, 1), (128, 8, 32), (130, 8, 33)):
        bounds = fusiest.load("mixtral_8x7B", N_TOKENS=tokens).info.einsums["l0_ffg"].bounds
        assert (bounds["x"], bounds["t"]) == (working, each)
