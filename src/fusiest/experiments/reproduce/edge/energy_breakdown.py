"""Where the energy goes on the edge accelerator: by component, and off chip by kind of tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusiest.experiments.reproduce.edge.cases import DATAFLOWS, MEMORY, OURS, best_mapping, lengths, thousands
from fusiest.experiments.reproduce.experiment_output import Output, OutputRow, table
from fusiest.experiments.reproduce.pieces import Data, Study
from fusiest.report import COMPONENTS, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Energy on the edge accelerator, by component and by kind of tensor"
PARTS = {MEMORY: "off-chip memory", "GlobalBuffer": "global buffer", "compute": "compute"}
WEIGHTS, KEYS, OTHERS, ENDS = "weights", "K and V", "other intermediates", "input and output"
KINDS = (WEIGHTS, KEYS, OTHERS, ENDS)
COMPARED = (OURS, "transfusion")


def run(study: Study) -> Output:
    """The mappings of `edge-transformer`, taken apart."""
    mappings = {(n, d): best_mapping(study, n, d) for n in lengths(study) for d in COMPARED}
    rows: list[OutputRow] = [
        {"tokens": tokens, "dataflow": dataflow, **_parts(data, tokens), **_kinds(data, tokens)}
        for (tokens, dataflow), data in mappings.items()
        if data is not None
    ]
    return Output(rows, _summary(rows), lambda figure: _draw(figure, rows), (7.4, 3.0))


def kind_of(tensor: str) -> str:
    """What a tensor of the GPT-3 workloads is."""
    if tensor.startswith("W"):
        return WEIGHTS
    if tensor in ("K", "V"):
        return KEYS
    return ENDS if tensor in ("I_in", "I", "FFB") else OTHERS


def _parts(data: Data, tokens: int) -> dict[str, float]:
    """Joules per token by component."""
    energies = dict.fromkeys(PARTS.values(), 0.0)
    for key, joules in data["energies"].items():
        energies[PARTS.get(key.partition("/")[0], "compute")] += joules / tokens
    return energies


def _kinds(data: Data, tokens: int) -> dict[str, float]:
    """Off-chip joules per token by kind of tensor."""
    energies = dict.fromkeys(KINDS, 0.0)
    for key, joules in data["energies"].items():
        component, _, tensor = key.partition("/")
        if component == MEMORY:
            energies[kind_of(tensor)] += joules / tokens
    return energies


def _draw(figure: Figure, rows: list[OutputRow]) -> None:
    left, right = figure.subplots(1, 2)
    _stack(left, rows, list(PARTS.values()), (COMPONENTS[0], COMPONENTS[2], COMPONENTS[5]), "energy per token (µJ)")
    _stack(right, rows, list(KINDS), (SERIES[0], SERIES[1], SERIES[2], SERIES[7]), "off-chip energy per token (µJ)")


def _stack(axes: Axes, rows: list[OutputRow], parts: list[str], colours: tuple[str, ...], label: str) -> None:
    """Two bars per length: ours, then TransFusion's."""
    tokens = sorted({row["tokens"] for row in rows})
    places = [3 * tokens.index(row["tokens"]) + COMPARED.index(row["dataflow"]) for row in rows]
    below = [0.0] * len(rows)
    for part, colour in zip(parts, colours, strict=True):
        heights = [1e6 * row[part] for row in rows]
        axes.bar(places, heights, 0.9, below, color=colour, label=part)
        below = [a + b for a, b in zip(below, heights, strict=True)]
    for x, top, row in zip(places, below, rows, strict=True):
        name = "fusiest" if row["dataflow"] == OURS else "TransF."
        axes.annotate(name, (x, top), (0, 2), textcoords="offset points", ha="center", fontsize=6, rotation=90)
    axes.set_xticks([3 * i + 0.5 for i in range(len(tokens))], [thousands(n) for n in tokens])
    axes.set(xlabel="tokens", ylabel=label, ylim=(0, 1.15 * max(below)))
    axes.grid(axis="x", visible=False)
    axes.legend(loc="upper left")


def _summary(rows: list[OutputRow]) -> str:
    def number(tokens: object, dataflow: str, part: str) -> float:
        return next(float(r[part]) for r in rows if (r["tokens"], r["dataflow"]) == (tokens, dataflow))

    both = [n for n in dict.fromkeys(row["tokens"] for row in rows) if sum(r["tokens"] == n for r in rows) == 2]
    lines = [
        [thousands(n), part, *(f"{number(n, d, part) * 1e6:.4g}" for d in COMPARED)]
        for n in (both[0], both[-1])
        for part in (*PARTS.values(), *KINDS)
    ]
    last = both[-1]
    claims = [
        ("TransFusion keeps other intermediates on chip", number(last, "transfusion", OTHERS) == 0),
        ("the optimum moves some of them off chip", number(last, OURS, OTHERS) > 0),
        ("TransFusion spends more on weights", number(last, "transfusion", WEIGHTS) > number(last, OURS, WEIGHTS)),
        ("TransFusion spends more on K and V", number(last, "transfusion", KEYS) > number(last, OURS, KEYS)),
        (
            "the optimum spends less off chip",
            number(last, "transfusion", PARTS[MEMORY]) > number(last, OURS, PARTS[MEMORY]),
        ),
    ]
    checked = "\n".join(f"- {claim}: {'yes' if holds else 'no'}" for claim, holds in claims)
    return f"""
Microjoules per token. The last four parts are shares of the off-chip memory's.

{table(["tokens", "part", *(DATAFLOWS[d] for d in COMPARED)], lines)}

## Beside the paper

The paper shows this as a figure without numbers. What it says of it, checked at {thousands(last)} tokens:

{checked}

The layer's input and output stand apart here: the paper names weights, K and V, and other intermediates only.
"""
