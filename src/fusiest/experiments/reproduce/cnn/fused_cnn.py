"""CNNs with fused layers: Fused-Layer CNN's traffic and storage, the modes of DeFiNES, and what windows are good for."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fusiest.base.errors import FusiestError
from fusiest.experiments.reproduce.cnn.fused_cnn_page import summary
from fusiest.experiments.reproduce.cnn.layer_counts import StackCount, best_cuts, count_stacks, layers_apart
from fusiest.experiments.reproduce.experiment_output import Output, OutputRow
from fusiest.experiments.reproduce.pieces import Data, Settings, Study
from fusiest.mapper import Options, Prior, Step
from fusiest.mapper import run as search
from fusiest.model import Evaluation
from fusiest.report import SERIES
from fusiest.spec import Dataflow, DepthFirst, Spec, dump_mapping, load, load_texts, memory_names, part_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Fused layers of CNNs"
BUFFER = "GlobalBuffer"
MODES: dict[str, tuple[str, str]] = {
    "recomputed": ("recomputed", "recomputed"),
    "columns retained": ("recomputed", "retained"),
    "retained": ("retained", "retained"),
}
NAMES = {
    "unfused": "layer by layer",
    "recomputed": "fully recompute", "columns retained": "H-cached, V-recompute", "retained": "fully cached",
    "free": "optimum without windows", "windows": "fusiest with windows",
}  # fmt: skip
BLOCK = ("block3_expand", "block3_depthwise", "block3_project", "block3_add")
VGG, QUICK_VGG = {"SIZE": 224, "BITS": 32}, {"SIZE": 32, "BITS": 32}
CASES: dict[str, Settings] = {
    "FSRCNN": {"workload": "fsrcnn", "defines": {}, "einsums": None, "stacks": "one"},
    "MobileNetV2 block": {"workload": "mobilenet_v2", "defines": {}, "einsums": BLOCK, "stacks": "any"},
}
QUICK_CASES: dict[str, Settings] = {
    "FSRCNN": {"workload": "fsrcnn", "defines": {"ROWS": 4, "COLUMNS": 4}, "einsums": None, "stacks": "one"},
    "MobileNetV2 block": {"workload": "mobilenet_v2", "defines": {"SIZE": 32}, "einsums": BLOCK, "stacks": "any"},
}
STAGE, QUICK_STAGE = {"SIZE": 224}, {"SIZE": 32}
LIMIT, QUICK_LIMIT = 900.0, 20.0
"""Seconds for the search with windows, which then gives the best so far."""


def run(study: Study, cases: dict[str, Settings] | None = None) -> Output:
    """VGG-E's first layers, the modes of DeFiNES on one architecture, and a block of MobileNetV2 in memories of all sizes."""
    cases = cases if cases is not None else QUICK_CASES if study.quick else CASES
    study.say(Step("VGGNet-E, five convolutions"))
    sizes: Settings = QUICK_VGG if study.quick else VGG
    vgg = study.piece("fused-cnn/vgg", sizes, functools.partial(_vgg, sizes))
    results: dict[str, dict[str, Data]] = {}
    for number, (case, settings) in enumerate(cases.items()):
        for mode, words in NAMES.items():
            study.say(Step(f"{case}: {words}"))
            limit = QUICK_LIMIT if study.quick else LIMIT
            wanted = {**settings, "mode": mode, "limit": limit if mode == "windows" else None}
            name = f"fused-cnn/{number}-{mode.replace(' ', '-')}"
            pieces = results.setdefault(case, {})
            built = tuple(str(pieces[m]["mapping"]) for m in MODES if "mapping" in pieces.get(m, {}))
            pieces[mode] = study.piece(name, wanted, functools.partial(_mapped, wanted, built))
    study.say(Step("MobileNetV2, a block in memories of all sizes"))
    sizes = QUICK_STAGE if study.quick else STAGE
    stage = study.piece("fused-cnn/stage", sizes, functools.partial(_stage, sizes))
    return Output(
        _rows(vgg, results, stage),
        summary(vgg, results, stage, NAMES),
        lambda figure: _draw(figure, vgg, results, stage),
        (8.6, 6.4),
    )


def _flow(mode: str, stacks: str = "any") -> DepthFirst:
    rows, columns = MODES[mode]
    return DepthFirst(stacks=stacks, rows=rows, columns=columns)  # type: ignore[arg-type]


def _vgg(settings: Settings) -> Data:
    """Feature maps of all stacks of VGG-E's first layers, in all square tiles, kept or made again."""
    spec = load("simple", "vgg_e", defines={**settings, "GlobalBufferSize": "1e15"})
    names = tuple(spec.info.einsums)
    pooled = [[n] for n in names]
    before = [["conv1_1"], ["conv1_2", "pool1"], ["conv2_1"], ["conv2_2", "pool2"], ["conv3_1"]]
    after = [["conv1_1"], ["conv1_2"], ["pool1", "conv2_1"], ["conv2_2"], ["pool2", "conv3_1"]]
    counts = {mode: _all_counts(spec, mode) for mode in ("recomputed", "retained")}
    alone = [c for c in counts["retained"] if len(c.einsums) == 1 and set(c.tiles) == {1}]
    return {
        "apart": layers_apart(spec, pooled),
        "pooled before": layers_apart(spec, before),
        "pooled after": layers_apart(spec, after),
        "fused": layers_apart(spec, [names]),
        "model apart": sum(c.feature_bytes for c in alone),
        "model operations": sum(c.operations for c in alone),
        "whole": {
            mode: [dataclasses.asdict(c) for c in mode_counts if len(c.einsums) == len(names)]
            for mode, mode_counts in counts.items()
        },
        "curves": {mode: _curve(mode_counts, names, weights=False) for mode, mode_counts in counts.items()},
    }


def _all_counts(spec: Spec, mode: str) -> list[StackCount]:
    names = tuple(spec.info.einsums)
    runs = [names[i:j] for j in range(1, len(names) + 1) for i in range(j)]
    return [count for stack in runs for count in count_stacks(spec, stack, _flow(mode), BUFFER)]


def _curve(counts: Sequence[StackCount], names: Sequence[str], weights: bool) -> list[list[float]]:
    """Room on chip, and the least traffic with it; only where there is less than with less room. And operations."""
    rooms = sorted({count.room(weights) for count in counts})
    cuts = ((room, best_cuts(counts, names, room, weights)) for room in rooms)
    return _falling(
        (room, best[0], sum(count.operations for count in best[1])) for room, best in cuts if best is not None
    )


def _mapped(settings: Settings, built: Sequence[str]) -> Data:
    """A workload on the architecture after DeFiNES in one of its modes, by least energy. What is built in the modes is in the
    mapspace of the search with windows, which begins with it."""
    mode = settings["mode"]
    files = ("meta_df", settings["workload"], *(["unfused"] if mode == "unfused" else []))
    spec = load(*files, defines=settings["defines"])
    if settings["einsums"] is not None:
        spec = part_of(spec, settings["einsums"])
    if mode in MODES:
        spec = dataclasses.replace(spec, dataflow=Dataflow(depth_first=_flow(mode, settings["stacks"])))
    windows = "all" if mode == "windows" else "none"
    options = Options(objective=("energy",), windows=windows, jobs=1, time_limit=settings["limit"])
    trees = [load_texts({"built": text}, {}).mapping for text in built] if mode == "windows" else []
    try:
        result = search(spec, options, prior=Prior(start=[tree for tree in trees if tree is not None]))
    except FusiestError as error:
        return {"error": str(error)}
    if result.interrupted:
        raise KeyboardInterrupt
    best = result.best("energy")
    outermost = memory_names(spec.require_arch())[0]
    actions = (pair for e in best.evaluation.einsums.values() for pair in e.actions.items())
    return {
        "energy": best.energy, "latency": best.latency, "optimal": result.optimal, "stopped": result.stopped,
        "traffic": _traffic(best.evaluation, outermost),
        "operations": sum(count for (_, tensor, _), count in actions if not tensor),
        "off_chip": best.evaluation.energy_by_component().get(outermost, 0.0),
        "cpu_seconds": result.stats.cpu_seconds, "tree": str(best.looptree), "mapping": dump_mapping(best.looptree),
    }  # fmt: skip


def _stage(settings: Settings) -> Data:
    """Least off-chip traffic of a block in memories of all sizes: the optimum without windows, and what stacks with them add."""
    figures = {"MainMemoryEnergy": "1", "GlobalBufferSize": "8 * 2**24"}  # traffic alone counts
    whole = load("simple", "mobilenet_v2", defines={**settings, **figures})
    spec = part_of(whole, BLOCK)
    result = search(spec, Options(objective=("energy",), usage=BUFFER, jobs=1))
    if result.interrupted:
        raise KeyboardInterrupt
    free = sorted(
        (m.evaluation.peak_occupancy_bits.get(BUFFER, 0) / 8, _traffic(m.evaluation, "MainMemory"))
        for m in result.mappings
    )
    room = load("simple", "mobilenet_v2", defines={**settings, "GlobalBufferSize": "1e15"})
    block = part_of(room, BLOCK)
    counts = [count for mode in MODES for count in _all_counts(block, mode)]
    stacks = [(size, traffic) for size, traffic, _ in _curve(counts, BLOCK, weights=True)]
    return {"free": _falling(free), "windows": _falling(sorted([*free, *stacks])), "proven": result.optimal}


def _traffic(evaluation: Evaluation, memory: str) -> float:
    """Bytes in and out of a memory whose actions are of a bit."""
    actions = (pair for e in evaluation.einsums.values() for pair in e.actions.items())
    return sum(count for (component, _, _), count in actions if component == memory) / 8


def _falling(points: Iterable[tuple[float, ...]]) -> list[list[float]]:
    """Points with less traffic than all with less room."""
    curve: list[list[float]] = []
    for point in points:
        if not curve or point[1] < curve[-1][1]:
            curve.append([*point])
    return curve


def _rows(vgg: Data, results: dict[str, dict[str, Data]], stage: Data) -> list[OutputRow]:
    fields = ("part", "case", "mode", "storage_bytes", "traffic_bytes", "operations", "energy", "latency", "optimal")
    empty: OutputRow = dict.fromkeys(fields, "")
    rows: list[OutputRow] = [
        {**empty, "part": 1, "case": "VGGNet-E", "mode": mode, "storage_bytes": r, "traffic_bytes": t, "operations": n}
        for mode, curve in vgg["curves"].items()
        for r, t, n in curve
    ]
    for case, modes in results.items():
        for mode, data in modes.items():
            figures = {field: data.get(field) for field in ("operations", "energy", "latency", "optimal")}
            figures["traffic_bytes"] = data.get("traffic")
            rows.append({**empty, "part": 2, "case": case, "mode": NAMES[mode], **figures})
    for kind in ("free", "windows"):
        rows += [
            {
                **empty,
                "part": 3,
                "case": "MobileNetV2 block",
                "mode": kind,
                "storage_bytes": point[0],
                "traffic_bytes": point[1],
            }
            for point in stage[kind]
        ]
    return rows


def _draw(figure: Figure, vgg: Data, results: dict[str, dict[str, Data]], stage: Data) -> None:
    grid = figure.subplots(2, 2, squeeze=False)
    grid[1][1].set_visible(len(results) > 1)
    _draw_curves(grid[0][0], vgg)
    axes = grid[0][1]
    kinds = {"windows": "also stacks with windows", "free": "no windows, optimum"}  # the latter over the former
    for (kind, label), colour in zip(kinds.items(), SERIES[1::-1], strict=False):
        points = stage[kind]
        points = [p for p in points if p[0]]
        axes.step(
            [p[0] / 1024 for p in points], [p[1] / 2**20 for p in points], where="post", color=colour, label=label
        )
    axes.set(xscale="log", yscale="log", xlabel="on-chip memory (KiB)", ylabel="off-chip traffic (MiB)")
    _plain_ticks(axes)
    axes.set_title("MobileNetV2, block 3", loc="left")
    axes.legend(loc="upper right")
    for axes, (case, modes) in zip(grid[1], results.items(), strict=False):
        bars = [(NAMES[mode], data) for mode, data in modes.items() if "energy" in data][::-1]
        off = [data["off_chip"] for _, data in bars]
        unit, scale = ("µJ", 1e6) if max(d["energy"] for _, d in bars) < 1e-3 else ("mJ", 1e3)
        axes.barh([name for name, _ in bars], [scale * joules for joules in off], color=SERIES[0], label="DRAM")
        axes.barh([name for name, _ in bars], [scale * (d["energy"] - joules) for (_, d), joules in zip(bars, off, strict=True)],
                  left=[scale * joules for joules in off], color=SERIES[1], label="on chip")  # fmt: skip
        for i, (_, data) in enumerate(bars):
            axes.annotate(f"{scale * data['energy']:.3g}", (scale * data["energy"], i), (3, 0), textcoords="offset points",
                          va="center", fontsize=7)  # fmt: skip
        axes.set_title(case, loc="left")
        axes.set_xlabel(f"energy ({unit})")
        axes.locator_params(axis="x", nbins=5)
        axes.set_xlim(0, 1.2 * scale * max(d["energy"] for _, d in bars))
        axes.grid(axis="y", visible=False)
        axes.legend(
            loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.2, handlelength=1, columnspacing=1
        )


def _draw_curves(axes: Any, vgg: Data) -> None:
    for (mode, curve), colour in zip(vgg["curves"].items(), SERIES, strict=False):
        axes.step([p[0] / 1e3 for p in curve], [p[1] / 2**20 for p in curve], where="post", color=colour, label=mode)
    overlap = min(vgg["whole"]["retained"], key=lambda c: c["tiles"])["overlap_bytes"]
    axes.plot([overlap / 1e3], [vgg["fused"] / 2**20], "o", color="black", markersize=4, label="overlaps alone")
    if vgg["fused"] > 3e6:  # at the paper's size
        axes.plot([362], [3.6], "x", color="black", markersize=8, label="Fused-Layer CNN")
    axes.axhline(vgg["pooled after"] / 2**20, color="#888888", linewidth=0.8, linestyle="--")
    axes.set(xscale="log", yscale="log", xlabel="feature maps on chip (kB)", ylabel="feature maps off chip (MiB)")
    _plain_ticks(axes)
    axes.set_title("VGGNet-E, first five convolutions", loc="left")
    axes.legend()


def _plain_ticks(axes: Any) -> None:
    """Numbers as they are read, and none in between that would touch."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.set_minor_formatter(lambda value, _: "")
