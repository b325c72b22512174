"""The page of the experiment on fused CNNs: our counts beside the papers', and what makes the difference."""

from __future__ import annotations

from collections.abc import Mapping

from fusiest.experiments.reproduce.experiment_output import percent, table
from fusiest.experiments.reproduce.pieces import Data

PAPER_APART, PAPER_FUSED, PAPER_STORAGE = 77.0, 3.6, 362.0
"""Fused-Layer CNN, MICRO 2016, abstract: MB of feature maps per image layer by layer and fused, KB on chip for that."""


def summary(vgg: Data, results: Mapping[str, Mapping[str, Data]], stage: Data, names: Mapping[str, str]) -> str:
    """Markdown, without a title."""
    return f"{_fused_layer(vgg)}\n\n{_defines(results, names)}\n\n{_stage(stage)}\n"


def _mib(value: float) -> str:
    return f"{value / 2**20:.2f} MiB"


def _kb(value: float) -> str:
    return f"{value / 1e3:,.1f} kB"


def _fused_layer(vgg: Data) -> str:
    whole = {mode: sorted(counts, key=lambda c: c["tiles"][0]) for mode, counts in vgg["whole"].items()}
    first = whole["retained"][0]
    lines = [
        [mode, " x ".join(map(str, c["tiles"])), _mib(c["feature_bytes"]), _kb(c["storage_bytes"]),
         _kb(c["overlap_bytes"]) if mode == "retained" else "-", f"{c['operations'] / vgg['model operations']:.2f}x"]
        for mode, counts in whole.items() for c in counts
    ]  # fmt: skip
    head = ["overlaps", "tile of the result", "off chip", "on chip", "overlaps alone", "operations"]
    return f"""
## Fused-Layer CNN: VGGNet-E, five convolutions with two poolings, 32 bits

Feature maps that are read or written off chip per image. The paper's figures are those of its abstract.

{
        table(
            ["", "ours", "the paper's (224 x 224)"],
            [
                ["layer by layer, pooling read by the layer after", _mib(vgg["pooled after"]), f"{PAPER_APART:g} MB"],
                ["... poolings as layers of their own", _mib(vgg["apart"]), "-"],
                ["... pooling done by the layer before", _mib(vgg["pooled before"]), "-"],
                ["all fused", _mib(vgg["fused"]), f"{PAPER_FUSED:g} MB"],
                [
                    "overlaps kept on chip for that, tiles of 1 x 1",
                    _kb(first["overlap_bytes"]),
                    f"{PAPER_STORAGE:g} KB",
                ],
            ],
        )
    }

- The paper's traffic layer by layer is that of five layers that write what they make before pooling: pooling is part of the layer
  that reads it. As layers of their own, poolings add {
        _mib(vgg["apart"] - vgg["pooled after"])
    }; done before writing, they save
  {_mib(vgg["pooled after"] - vgg["pooled before"])}. Its MB are then MiB.
- Its storage is that of what tiles leave to their neighbours: two rows of all columns, and two columns of a tile's rows, of the input
  and of each feature map that a 3 x 3 convolution reads. Its KB are then kB.
- The model reads padding, too: {_mib(vgg["model apart"])} layer by layer with poolings of their own
  ({percent(vgg["model apart"] / vgg["apart"] - 1)} more), {_mib(first["feature_bytes"])} all fused.
- Our mappings hold {_kb(first["storage_bytes"])}. Whole windows of rows, all columns of the new ones too, are {
        _kb(first["window_bytes"])
    };
  a buffer that moves by rows and columns at once is not in the model. The rest, {
        _kb(first["storage_bytes"] - first["window_bytes"])
    }, is
  the first pyramid's: it is made at once, so that its windows are longer than all others, and what poolings read.
- One pyramid of all layers, in all square tiles:

{table(head, lines)}

The chart has the least traffic of all ways to cut the layers into stacks, for all sizes of memory.
"""


def _defines(results: Mapping[str, Mapping[str, Data]], names: Mapping[str, str]) -> str:
    lines = []
    for case, modes in results.items():
        base = modes["unfused"].get("energy")
        for mode, data in modes.items():
            if "error" in data:
                lines.append([f"{case}: {names[mode]}", "none fits", "-", "-", "-", "-", "-"])
                continue
            proof = "proven" if data["optimal"] else "out of time" if data["stopped"] else "tried"
            lines.append(
                [f"{case}: {names[mode]}", f"{1e3 * data['energy']:.4g} mJ", f"{base / data['energy']:.2f}x" if base else "-",
                 f"{1e3 * data['latency']:.4g} ms", _mib(data["traffic"]), f"{data['operations'] / 1e6:,.1f} M", proof]
            )  # fmt: skip
    head = ["", "energy", "less than layer by layer", "latency", "off chip", "operations", "optimum"]
    return f"""
## DeFiNES: depth-first in three modes

Least energy on `meta_df`, after an architecture of the paper's. The modes are our dataflows `defines-recompute`,
`defines-h-cached` and `defines-cached`: FSRCNN in one stack, as its weights fit on chip, the block cut in the best way.

{table(head, lines)}

{_best(results, names)}
The paper's own energies are of its cost model and of an architecture with two more buffers, so they are not put beside ours.
"""


def _best(results: Mapping[str, Mapping[str, Data]], names: Mapping[str, str]) -> str:
    """Which mode is best, and what the searches make of it."""
    lines = []
    for case, modes in results.items():
        energies = {mode: data["energy"] for mode, data in modes.items() if "energy" in data}
        built = {mode: e for mode, e in energies.items() if mode in ("recomputed", "columns retained", "retained")}
        if built and "free" in energies and "windows" in energies:
            best = min(built, key=lambda mode: built[mode])
            lines.append(
                f"- {case}: of the three, {names[best]} takes least. The optimum without windows takes "
                f"{energies['free'] / built[best]:.3f} times that, the search with windows {energies['windows'] / built[best]:.3f} times."
            )
    return "\n".join(lines) + "\n" if lines else ""


def _stage(stage: Data) -> str:
    rooms = [4, 8, 16, 32, 64, 128, 256, 512, 1024]

    def traffic(points: list[list[float]], kib: float) -> float | None:
        return min((p[1] for p in points if p[0] <= 1024 * kib), default=None)

    lines = []
    for kib in rooms:
        free, windows = traffic(stage["free"], kib), traffic(stage["windows"], kib)
        ratio = f"{free / windows:.2f}x" if free and windows else "-"
        lines.append(
            [f"{kib} KiB", *("none fits" if value is None else _mib(value) for value in (free, windows)), ratio]
        )
    return f"""
## A block of MobileNetV2 in memories of all sizes

Least off-chip traffic, weights included, of block 3 (expand, depthwise, project, add). Without windows: the proven optimum of all
mappings. With windows: that, or the best cut into stacks of square tiles, overlaps kept or made again, if it is less; the residual
input is read twice there.

{table(["memory", "no windows", "windows", "less"], lines)}
"""
