"""What each part of the search is good for: time and surviving partial mappings with one of them switched off."""

from __future__ import annotations

import functools
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from fusiest.base import interrupt, workers
from fusiest.base.errors import FusiestError
from fusiest.experiments.reproduce.experiment_output import Output, OutputRow, table
from fusiest.experiments.reproduce.pieces import Data, Settings, Study
from fusiest.experiments.reproduce.searching import load_compiled, searched
from fusiest.mapper import Options, Step
from fusiest.report import SERIES
from fusiest.spec import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "The search without each of its parts"
SWITCHES: dict[str, dict[str, object]] = {
    "everything on": {},
    "no grouping": {"grouping": False},
    "no consolidation": {"consolidation": False},
    "no first pass": {"coarse": False},
    "no bounds": {"bounds": False},
    "no bounds, no grouping": {"bounds": False, "grouping": False},
    "given order only": {"orders": "given"},
}
CASES: dict[str, dict[str, object]] = {
    "GPT-3 6.7B, 1 x 1024 tokens": {"workload": "gpt3_6.7B", "defines": {"BATCH_SIZE": 1, "N_TOKENS": 1024}},
    "8 products, the paper's shapes": {"workload": "matmuls", "defines": {"N_EINSUMS": 8, "PATTERN": "paper"}},
}
QUICK: dict[str, dict[str, object]] = {
    "4 products, the paper's shapes": {"workload": "matmuls", "defines": {"N_EINSUMS": 4, "PATTERN": "paper"}}
}
LIMIT, QUICK_LIMIT = 120.0, 10.0
"""Seconds, after which a search is given up."""


def run(study: Study, cases: dict[str, dict[str, object]] | None = None) -> Output:
    """The whole front of each case, on the TPU v4i."""
    cases = cases or (QUICK if study.quick else CASES)
    limit = QUICK_LIMIT if study.quick else LIMIT
    rows: list[OutputRow] = []
    load_compiled()
    for number, (case, settings) in enumerate(cases.items()):
        for name, switches in SWITCHES.items():
            study.say(Step(f"{case}: {name}"))
            wanted = {**settings, "switches": switches, "limit": limit}
            piece = f"ablation/{number}-{name.replace(',', '').replace(' ', '-')}"
            data = study.piece(piece, wanted, functools.partial(_limited, wanted))
            rows.append({"case": case, "search": name, **data})
    return Output(rows, _summary(rows, limit), lambda figure: _draw(figure, rows), (7.4, 1.4 + 1.5 * len(cases)))


def _limited(settings: Settings) -> Data:
    """In a process of its own, which can be ended wherever it is: a search looks at the time only between its steps."""
    context = workers.context()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, settings))
    with interrupt.deferred():
        process.start()
    sender.close()
    limit = settings["limit"]
    try:
        if receiver.poll(limit):
            return receiver.recv()
        return {"cpu_seconds": limit, "peak_survivors": None, "pairs": None, "finished": False, "edp": None}
    except EOFError:
        raise FusiestError("a search was ended from outside: is there enough memory?") from None
    finally:
        process.terminate()
        process.join()


def _send(sender: Connection, settings: Settings) -> None:
    interrupt.ignore()
    sender.send(_search(settings))


def _search(settings: Settings) -> Data:
    spec = load("tpu_v4i", settings["workload"], defines=settings["defines"])
    options = Options(jobs=1, **settings["switches"])
    begin = time.process_time()
    result = searched(spec, options)
    return {
        "cpu_seconds": time.process_time() - begin,
        "peak_survivors": result.stats.most_survivors,
        "pairs": sum(step.pairs for step in result.stats.funnel),
        "finished": True,
        "edp": result.best("edp").edp,
    }


def _draw(figure: Figure, rows: list[OutputRow]) -> None:
    cases = list(dict.fromkeys(row["case"] for row in rows))
    grid = figure.subplots(len(cases), 2, squeeze=False)
    for (left, right), case in zip(grid, cases, strict=True):
        case_rows = [row for row in rows if row["case"] == case][::-1]
        for axes, field, label in (
            (left, "cpu_seconds", "CPU seconds"),
            (right, "peak_survivors", "most surviving partial mappings"),
        ):
            values = [max(row[field] or 0, 1e-9) for row in case_rows]
            bars = axes.barh([row["search"] for row in case_rows], values, color=SERIES[0])
            for bar, row, value in zip(bars, case_rows, values, strict=True):
                bar.set_color("#222222" if row["search"] == "everything on" else SERIES[0])
                text = f"{value:,.1f}" if field == "cpu_seconds" else f"{int(value):,}"
                if not row["finished"]:
                    text = f"> {text}" if field == "cpu_seconds" else "not known"
                axes.annotate(text, (value, bar.get_y() + bar.get_height() / 2), (3, 0),
                              textcoords="offset points", va="center", fontsize=7)  # fmt: skip
            axes.set_xlabel(label)
            axes.set_xlim(0, 1.25 * max(values))
            axes.locator_params(axis="x", nbins=4)
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
            axes.grid(axis="y", visible=False)
        right.set_yticklabels([])
        left.set_title(case, loc="left")


def _summary(rows: list[OutputRow], limit: float) -> str:
    lines = [
        [
            row["case"],
            row["search"],
            f"{row['cpu_seconds']:.1f} s" if row["finished"] else f"given up after {limit:g} s",
            f"{row['peak_survivors']:,}" if row["finished"] else "-",
            f"{row['pairs']:,}" if row["finished"] else "-",
        ]
        for row in rows
    ]
    return f"""
CPU time, the most partial mappings that survived a join (in any pass), and pairs of rows joined in the last pass.
The result is the same each time: {_whether_same(rows)}.

{table(["case", "search", "CPU time", "survivors", "pairs"], lines)}

- Grouping: partial mappings meet only pmappings with the same interface; without it each is compared with each. Where the
  first pass and the bounds leave few, that costs little, so it is measured without bounds too.
- Consolidation: space taken by finished Einsums is summed up; without it each Einsum's stays a criterion, and fewer partial
  mappings dominate others.
- First pass: mappings to beat, from a coarse search. Bounds: partial mappings that cannot beat them are dropped.
- Orders: with the given order only, fewer sets of finished Einsums are visited; the optimum may then be worse.

## Beside the paper

The paper describes these parts (its section 6.3 the ε pass) but measures none of them alone, so there is no number to compare
with. Our first pass prunes by ε = 0.2 as the paper's does, but shares it out over the joins and keeps a few thousand partial
mappings per set at most: one for each way to tile the exchanged tensors would already be too many.
"""


def _whether_same(rows: list[OutputRow]) -> str:
    finished = [row for row in rows if row["finished"] and row["search"] != "given order only"]
    for case in {row["case"] for row in finished}:
        edps = {f"{row['edp']:.9g}" for row in finished if row["case"] == case}
        if len(edps) > 1:
            return f"no, {case} gave {', '.join(sorted(edps))} Js"
    return "yes, checked for all searches that finished"
