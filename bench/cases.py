"""The table of benchmark cases: what is searched, and what AccelForge is reported to take for the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class BenchCase:
    """One measurement. With `einsums`, only their pmappings are explored (phase 1); else the whole workload is mapped."""

    name: str
    about: str
    files: tuple[str, ...]
    defines: dict[str, object] = field(default_factory=dict)
    einsums: tuple[str, ...] = ()
    objective: str = "energy,latency"
    orders: str = "given"
    published_seconds: float | None = None
    """What AccelForge 1.0.467 is reported to take, on two cores."""
    cold: bool = False
    """With an empty cache of compiled code, as on first use."""
    imperfect: bool = False
    """Also tiles that do not divide."""

    @property
    def chip(self) -> str:
        """The architecture, by the name of its file."""
        return Path(self.files[0]).stem

    @property
    def command(self) -> str:
        """What a user would type; phase 1 alone has no command."""
        defines = "".join(f" -D {name}={value}" for name, value in self.defines.items())
        files = " ".join(f"bench/{Path(file).name}" if file.endswith(".yaml") else file for file in self.files)
        if self.einsums:
            return f"fusiest.pmappings of {', '.join(self.einsums)}: {files}{defines}"
        imperfect = " --imperfect" * self.imperfect
        return f"fusiest map {files}{defines} --objective {self.objective} --orders {self.orders}{imperfect}"


_CONV = str(HERE / "conv.yaml")
_EYERISS = str(HERE / "eyeriss.yaml")
_GPT3_EINSUMS = ("I", "V", "K", "Q", "QK", "QK_softmax", "AV", "Z", "FFA", "FFB")
_GPT3_LARGE: dict[str, object] = {"BATCH_SIZE": 64, "N_TOKENS": 4096}
_MATMULS: dict[str, object] = {"M": 8192, "KN": 4096}
_RESNET: dict[str, object] = {"CHANNELS": 64, "SIZE": 56}

CASES = (
    BenchCase(
        name="pmappings-matmul",
        about="pmappings of the middle one of 3 matmuls, 8192 x 4096 x 4096",
        files=("tpu_v4i", "matmuls"),
        defines={"N_EINSUMS": 3, **_MATMULS},
        einsums=("Matmul1",),
    ),
    BenchCase(
        name="pmappings-gpt3",
        about="pmappings of all 10 Einsums of GPT-3 6.7B, 64 x 4096 tokens",
        files=("tpu_v4i", "gpt3_6.7B"),
        defines=_GPT3_LARGE,
        einsums=_GPT3_EINSUMS,
    ),
    BenchCase(
        name="pmappings-gpt3-QK",
        about="pmappings of QK of GPT-3 6.7B, 64 x 4096 tokens",
        files=("tpu_v4i", "gpt3_6.7B"),
        defines=_GPT3_LARGE,
        einsums=("QK",),
    ),
    BenchCase(
        name="pmappings-gpt3-AV",
        about="pmappings of AV of GPT-3 6.7B, 64 x 4096 tokens",
        files=("tpu_v4i", "gpt3_6.7B"),
        defines=_GPT3_LARGE,
        einsums=("AV",),
    ),
    BenchCase(
        name="pmappings-conv-tpu",
        about="pmappings of a ResNet-18 convolution, 64 x 64 channels, 56 x 56, 3 x 3",
        files=("tpu_v4i", _CONV),
        defines=_RESNET,
        einsums=("Conv",),
    ),
    BenchCase(
        name="pmappings-conv-eyeriss",
        about="pmappings of the same convolution, batch 4",
        files=(_EYERISS, _CONV),
        defines={"BATCH_SIZE": 4, **_RESNET},
        einsums=("Conv",),
    ),
    *(
        BenchCase(
            name=f"matmuls-{n}",
            about=f"{n} matmul{'s' if n > 1 else ''}, 8192 x 4096 x 4096, front",
            files=("tpu_v4i", "matmuls"),
            defines={"N_EINSUMS": n, **_MATMULS},
            published_seconds=seconds,
        )
        for n, seconds in ((1, 8.0), (2, 28.0), (4, 66.0))
    ),
    BenchCase(
        name="gpt3-small-energy",
        about="GPT-3 6.7B, 1 x 1024 tokens, energy",
        files=("tpu_v4i", "gpt3_6.7B"),
        defines={"BATCH_SIZE": 1, "N_TOKENS": 1024},
        objective="energy",
        published_seconds=675.0,
    ),
    BenchCase(
        name="gpt3-edp",
        about="GPT-3 6.7B, 64 x 4096 tokens, energy-delay product",
        files=("tpu_v4i", "gpt3_6.7B"),
        defines=_GPT3_LARGE,
        objective="edp",
        published_seconds=992.0,
    ),
    BenchCase(
        name="gpt3-front",
        about="GPT-3 6.7B, 64 x 4096 tokens, front",
        files=("tpu_v4i", "gpt3_6.7B"),
        defines=_GPT3_LARGE,
    ),
    BenchCase(
        name="gpt3-edp-all-orders",
        about="GPT-3 6.7B, 64 x 4096 tokens, energy-delay product, all orders of Einsums",
        files=("tpu_v4i", "gpt3_6.7B"),
        defines=_GPT3_LARGE,
        objective="edp",
        orders="all",
    ),
    *(
        BenchCase(
            name=f"chain-{n}",
            about=f"the paper's chain of {n} matmuls, front",
            files=("tpu_v4i", "matmuls"),
            defines={"N_EINSUMS": n, "PATTERN": "paper"},
        )
        for n in (8, 64)
    ),
    *(
        BenchCase(
            name=f"chain-snowcat-{n}",
            about=f"a chain of {n} matmuls, front",
            files=("snowcat", "matmuls"),
            defines={"N_EINSUMS": n},
            orders="all",
        )
        for n in (64, 512)
    ),
    *(
        BenchCase(
            name=f"gpt3-2-layers-{name}",
            about=f"2 layers of GPT-3 6.7B (20 Einsums), 64 x 4096 tokens, {name}, all orders of Einsums",
            files=("tpu_v4i", str(HERE / "gpt3_layers.yaml")),
            defines={"N_LAYERS": 2, **_GPT3_LARGE},
            objective=objective,
            orders="all",
        )
        for name, objective in (("latency", "latency"), ("front", "energy,latency"))
    ),
    *(
        BenchCase(
            name=f"{network.replace('_', '-')}-edp",
            about=f"{title}, energy-delay product, all orders of Einsums",
            files=("tpu_v4i", network),
            objective="edp",
            orders="all",
        )
        for network, title in (("resnet18", "ResNet-18"), ("mobilenet_v2", "MobileNetV2"), ("bert_base", "BERT-base"))
    ),
    BenchCase(
        name="gpt3-32-layers-edp",
        about="32 layers of GPT-3 6.7B (320 Einsums), 64 x 4096 tokens, energy-delay product",
        files=("tpu_v4i", str(HERE / "gpt3_layers.yaml")),
        defines={"N_LAYERS": 32, **_GPT3_LARGE},
        objective="edp",
    ),
    BenchCase(
        name="imperfect-matmul",
        about="1 matmul, 1000 x 1000 x 1000, with tiles that do not divide, energy-delay product",
        files=("tpu_v4i", "matmuls"),
        defines={"N_EINSUMS": 1, "M": 1000, "KN": 1000},
        objective="edp",
        imperfect=True,
    ),
    BenchCase(
        name="imperfect-conv-tpu",
        about="a ResNet-18 convolution, 64 x 64 channels, 56 x 56, 3 x 3, with tiles that do not divide, energy-delay product",
        files=("tpu_v4i", _CONV),
        defines=_RESNET,
        objective="edp",
        imperfect=True,
    ),
    BenchCase(
        name="cold-start",
        about="1 matmul, 8192 x 4096 x 4096, front, on first use: the search is compiled",
        files=("tpu_v4i", "matmuls"),
        defines={"N_EINSUMS": 1, **_MATMULS},
        cold=True,
    ),
)

README_CASES = (
    "matmuls-1",
    "matmuls-4",
    "gpt3-small-energy",
    "gpt3-edp",
    "gpt3-32-layers-edp",
    "resnet18-edp",
    "mobilenet-v2-edp",
    "bert-base-edp",
    "imperfect-conv-tpu",
    "chain-snowcat-512",
)
"""The rows of the README's table."""


def find(name: str) -> BenchCase:
    """The case of this name."""
    for case in CASES:
        if case.name == name:
            return case
    raise SystemExit(f"bench: there is no case '{name}'; known: {', '.join(case.name for case in CASES)}")
