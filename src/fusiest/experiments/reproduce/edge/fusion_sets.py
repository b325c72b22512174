"""Which Einsums the optimum fuses on the edge accelerator, beside their computational intensity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusiest.experiments.reproduce.edge.cases import OURS, best_mapping, lengths, thousands
from fusiest.experiments.reproduce.experiment_output import Output, OutputRow, table
from fusiest.experiments.reproduce.pieces import Data, Study
from fusiest.model import CONVENTION, footprint, operations
from fusiest.report import SETS
from fusiest.spec import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Fused sets on the edge accelerator"
ALONE = "#222222"


def run(study: Study) -> Output:
    """The shortest and the longest sequence."""
    tokens = lengths(study)[0], lengths(study)[-1]
    mappings = {n: best_mapping(study, n, OURS) for n in tokens}
    rows: list[OutputRow] = [row for n, data in mappings.items() for row in _rows(n, data)]
    return Output(rows, _summary(rows, tokens), lambda figure: _draw(figure, rows, tokens), (7.4, 2.8))


def intensity(tokens: int) -> dict[str, float]:
    """Operations per byte of an Einsum's tensors, each moved once. A copy has none."""
    spec = load("edge_transformer", "gpt3_6.7B", N_TOKENS=tokens, BATCH_SIZE=1)
    intensities = {}
    for name, info in spec.info.einsums.items():
        if info.is_copy_operation:
            continue
        values = [
            footprint(access, info.bounds) * info.bits_per_value[tensor] / 8 for tensor, access in info.accesses.items()
        ]
        intensities[name] = operations(info) / info.n_instances / sum(values)
    return intensities


def _rows(tokens: int, data: Data) -> list[OutputRow]:
    set_of = {einsum: i for i, fused in enumerate(data["fused"]) for einsum in fused}
    sizes = {i: len(fused) for i, fused in enumerate(data["fused"])}
    return [
        {
            "tokens": tokens,
            "einsum": name,
            "operations_per_byte": value,
            "fused_set": set_of[name] if sizes[set_of[name]] > 1 else "",
        }
        for name, value in intensity(tokens).items()
    ]


def _draw(figure: Figure, rows: list[OutputRow], tokens: tuple[int, ...]) -> None:
    panels = figure.subplots(1, len(tokens), sharey=True)
    for axes, n in zip(panels, tokens, strict=True):
        panel_rows = [row for row in rows if row["tokens"] == n]
        sets = list(dict.fromkeys(row["fused_set"] for row in panel_rows if row["fused_set"] != ""))
        colours = [ALONE if row["fused_set"] == "" else SETS[sets.index(row["fused_set"])] for row in panel_rows]
        axes.bar(range(len(panel_rows)), [row["operations_per_byte"] for row in panel_rows], color=colours)
        axes.set_xticks(
            range(len(panel_rows)),
            [row["einsum"].replace("QK_softmax", "softmax") for row in panel_rows],
            rotation=45,
            ha="right",
        )
        axes.set_yscale("log")
        axes.grid(axis="x", visible=False)
        for i, name in enumerate(sets):
            members = ", ".join(
                r["einsum"].replace("QK_softmax", "softmax") for r in panel_rows if r["fused_set"] == name
            )
            axes.bar([0], [0], color=SETS[i], label=f"fused: {members}")
        if any(row["fused_set"] == "" for row in panel_rows):
            axes.bar([0], [0], color=ALONE, label="not fused")
        legend = axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2, handlelength=1)
        legend.set_title(f"{thousands(n)} tokens", {"size": 9, "weight": "bold"})
        legend.set_alignment("left")
    panels[0].set_ylabel("operations per byte")


def _summary(rows: list[OutputRow], tokens: tuple[int, ...]) -> str:
    lines = [
        [
            thousands(n),
            row["einsum"],
            f"{row['operations_per_byte']:.4g}",
            "alone" if row["fused_set"] == "" else f"set {row['fused_set']}",
        ]
        for n in tokens
        for row in rows
        if row["tokens"] == n
    ]
    return f"""
Operations per byte of an Einsum's tensors, each moved once, and what the optimal mapping fuses. {CONVENTION}

{table(["tokens", "Einsum", "operations per byte", "fused"], lines)}

## Beside the paper

The paper shows this as a figure without numbers. What it says of it, checked on these mappings:

{chr(10).join(f"- {claim}: {'yes' if holds else 'no'}" for claim, holds in _claims(rows, tokens))}
"""


def _claims(rows: list[OutputRow], tokens: tuple[int, ...]) -> list[tuple[str, bool]]:
    def sets(n: int) -> dict[str, object]:
        return {row["einsum"]: row["fused_set"] for row in rows if row["tokens"] == n}

    def together(n: int, a: str, b: str) -> bool:
        return sets(n)[a] == sets(n)[b] != ""

    claims = []
    for n in tokens:
        by_intensity = sorted((row for row in rows if row["tokens"] == n), key=lambda row: row["operations_per_byte"])
        fused = [row["fused_set"] != "" for row in by_intensity]
        least = by_intensity[0]["einsum"]
        claims.append((f"at {thousands(n)} tokens, the Einsum of least intensity ({least}) is fused", fused[0]))
        first = fused == sorted(fused, reverse=True)
        claims.append(
            (f"at {thousands(n)} tokens, every fused Einsum has less intensity than every unfused one", first)
        )
    claims.append((f"AV and Z are fused at {thousands(tokens[0])} tokens", together(tokens[0], "AV", "Z")))
    claims.append((f"AV and Z are not fused at {thousands(tokens[-1])} tokens", not together(tokens[-1], "AV", "Z")))
    changes = _partition(sets(tokens[0])) != _partition(sets(tokens[-1]))
    claims.append(("the best fusion depends on the length", changes))
    return claims


def _partition(sets: dict[str, object]) -> set[frozenset[str]]:
    """Einsums that are fused with each other."""
    return {frozenset(e for e in sets if e == einsum or sets[e] == number != "") for einsum, number in sets.items()}
