"""A sweep as one HTML page, made like a report: fronts, the best per area and workload, curves, sensitivities, all designs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from fusiest.base.objective import OBJECTIVES
from fusiest.report import Bars, Chart, Cloud, Points, Series, asset, page
from fusiest.show import si
from fusiest.sweeps.file.parameters import TiedParameter, in_order, number_of_value, unit_of, value_text
from fusiest.sweeps.file.sweepfile import FIGURES, Wanted
from fusiest.sweeps.session import Sweep
from fusiest.sweeps.views.answers import Answer, unproven_words
from fusiest.sweeps.views.best_designs import DesignFigures, allowed, front_of, headings, preference, score

MOST_ROWS, MOST_LINES, MOST_POINTS = 500, 300, 5_000


def sweep_html(sweep: Sweep, title: str, reports: Mapping[int, Mapping[str, str]] | None = None) -> str:
    """The page; `reports`: by a design's number and a workload's label, where the report of its mapping is."""
    data = sweep_data(sweep, title)
    curves = "\n".join(f'<div data-chart="{name}"></div>' for name in data["charts"] if name.startswith("curve-"))
    shown = {str(number): dict(links) for number, links in (reports or {}).items()}
    area = '<div data-chart="area"></div>' if "area" in data["charts"] else ""
    body = asset("sweep.html").replace("@CURVES@", curves).replace("@AREA@", area)
    return page(title, body, {**data, "reports": shown}, ("sweep.js",))


def in_view(sweep: Sweep) -> list[DesignFigures]:
    """Designs in the order in which reports of their mappings are of interest: the best, the fronts, then all others."""
    want, designs = sweep.wanted, sweep.designs()
    ranked = _ranked(designs, want)
    fronts = [*front_of(ranked, ("energy", "latency")), *front_of(ranked, ("edp", "area"))]
    best_of_each = [min(ranked, key=lambda d: d["edp"].parts[w.label]) for w in sweep.file.workloads if ranked]
    return list(
        {figures.design.number: figures for figures in (*sweep.best(), *best_of_each, *fronts, *ranked)}.values()
    )


def sweep_data(sweep: Sweep, title: str) -> dict[str, Any]:
    """All that the page shows."""
    from fusiest import __version__

    want = sweep.wanted
    ranked = _ranked(sweep.designs(), want)
    names = [n for n in sweep.driver.designs.grid.names if len({a.design.values[n] for a in sweep.answers}) > 1]
    # What follows from others shows nothing new in a chart, nor does what is the same in all designs that are left.
    followers = {p.name for p in sweep.file.parameters if isinstance(p, TiedParameter)}
    drawn = [n for n in names if n not in followers and len({d.design.values[n] for d in ranked}) > 1]
    best = sweep.best()
    by = want.minimize or want.pareto[0]
    charts: dict[str, Chart] = {
        "front": _front(ranked),
        **({"area": _by_area(ranked, want, by)} if len({float(d["area"]) for d in ranked}) > 1 else {}),
        "sensitivity": _sensitivity(ranked, drawn, want, by),
        **{f"curve-{i}": chart for i, name in enumerate(drawn) if (chart := _curve(ranked, name, want, by))},
    }
    return {
        "title": title,
        "note": f"{want.words}; {sweep.counts}",
        "version": __version__,
        "parameters": names,
        "costs": [[name, head, OBJECTIVES[name].unit] for name, head in headings(sweep.file.workloads).items()],
        "facts": [
            ["Designs", f"{len(ranked):,} with a mapping of every workload"],
            ["Asked for", want.words],
            *(
                [["Not shown", f"{sweep.counts.pruned:,} pruned runs: the best needs none of them, curves may"]]
                if sweep.counts.pruned
                else []
            ),
            *([["Not proven", words]] if (words := unproven_words(sweep.answers)) else []),
            *([["Windows", words]] if (words := sweep.without_windows()) else []),
        ],
        "best": [_row(figures, names) for figures in best[:MOST_ROWS]],
        "workloads": _workloads(sweep, ranked, names),
        "designs": [_row(figures, names) for figures in ranked[:MOST_ROWS]],
        "count": len(ranked),
        "failures": _failures(sweep.answers),
        "charts": {name: asdict(chart) for name, chart in charts.items()},
        **_parallel(ranked[:MOST_LINES], drawn),
    }


DesignFigure = Callable[[DesignFigures], float]
"""What a chart shows of a design."""


def _ranked(designs: Sequence[DesignFigures], want: Wanted) -> list[DesignFigures]:
    """The best first; those that conditions rule out, last."""
    return sorted(designs, key=lambda figures: (not allowed(figures, want), score(figures, want), preference(figures)))


def _row(figures: DesignFigures, names: Sequence[str]) -> dict[str, Any]:
    return {
        "number": figures.design.number, "values": [value_text(name, figures.design.values[name]) for name in names],
        **{name: float(figures[name]) for name in FIGURES},
    }  # fmt: skip


def _workloads(sweep: Sweep, ranked: Sequence[DesignFigures], names: Sequence[str]) -> list[dict[str, Any]]:
    """The design that is best for each workload alone."""
    rows = []
    for workload in sweep.file.workloads if ranked else ():
        label = workload.label
        best = min(ranked, key=lambda d: d["edp"].parts[label])
        costs = {name: best[name].parts[label] for name in ("energy", "latency")}
        times = f", all {workload.n_instances:,} runs" if workload.n_instances > 1 else ""
        rows.append({**_row(best, names), **costs, "label": label + times})
    return rows


def _failures(answers: Sequence[Answer]) -> list[list[str]]:
    failures = Counter((a.row.status, a.row.reason) for a in answers if a.how == "failed")
    return [[status, f"{count:,}", reason] for (status, reason), count in failures.most_common(MOST_ROWS)]


def _cloud(
    name: str, color: str, designs: Sequence[DesignFigures], x: DesignFigure, y: DesignFigure, **more: Any
) -> Cloud:
    labels = [f"{figures.design.number}: {figures.design}" for figures in designs]
    numbers = [figures.design.number for figures in designs]
    xs, ys = [x(d) for d in designs], [y(d) for d in designs]
    return Cloud(name=name, color=color, xs=xs, ys=ys, labels=labels, numbers=numbers, **more)


def _front(ranked: Sequence[DesignFigures]) -> Points:
    """All designs, and those that no other beats in both."""
    best = front_of(list(ranked), ("energy", "latency"))
    dominated = [figures for figures in ranked[:MOST_POINTS] if figures not in best]
    costs: tuple[DesignFigure, DesignFigure] = (lambda d: float(d["latency"])), (lambda d: float(d["energy"]))
    clouds = [
        _cloud("other designs", "other", dominated, *costs, marker="small"),
        _cloud("front", "found", best, *costs, steps=True),
    ]
    return Points(title="Energy and latency", x_axis="latency", x_unit="s", y_axis="energy", y_unit="J", clouds=clouds)


def _by_area(ranked: Sequence[DesignFigures], want: Wanted, by: str) -> Points:
    """The best that a chip of so much area can be."""
    best: list[DesignFigures] = []
    for figures in sorted(ranked, key=lambda d: (float(d["area"]), score(d, want))):
        if not best or score(figures, want) < score(best[-1], want):
            best.append(figures)
    shown = list(ranked[:MOST_POINTS])
    axes: tuple[DesignFigure, DesignFigure] = (lambda d: 1e6 * float(d["area"])), (lambda d: score(d, want))
    clouds = [
        _cloud("designs", "other", shown, *axes, marker="small"),
        _cloud("best for its area", "found", best, *axes, steps=True),
    ]
    return Points(title=f"{by} by area", x_axis="area in mm²", x_unit="", y_axis=by, y_unit=_unit(by), clouds=clouds)


def _sensitivity(ranked: Sequence[DesignFigures], names: Sequence[str], want: Wanted, by: str) -> Bars:
    """How much a parameter matters: the best with its worst value, over the best with its best value."""
    ratios = []
    for name in names:
        least = [min(score(d, want) for d in ranked if d.design.values[name] == v) for v in _values(ranked, name)]
        ratios.append(max(least) / min(least) if min(least) > 0 else None)
    series = [Series(name="worst value over best value, others at their best", color="found", values=ratios)]
    return Bars(
        title=f"What {by} depends on", axis="ratio", unit="", categories=list(names), series=series, level=1.0,
        level_name="no effect",
    )  # fmt: skip


def _curve(ranked: Sequence[DesignFigures], name: str, want: Wanted, by: str) -> Points | None:
    """Against one parameter: others at their best, and others as in the best design."""
    values = _values(ranked, name)
    numbers = [number for v in values if (number := number_of_value(v)) is not None]
    units = {unit_of(name, v) for v in values}
    if len(numbers) < len(values) or len(units) > 1:
        return None
    dimension = units.pop()
    unit, scale = ("B", 0.125) if dimension == "bit" else (dimension, 1.0)

    def by_value(d: DesignFigures) -> float:
        return scale * (number_of_value(d.design.values[name]) or 0.0)

    by_score = partial(score, want=want)
    best = [min((d for d in ranked if d.design.values[name] == v), key=by_score) for v in values]
    first = ranked[0].design.values
    free = _free(ranked, name)
    alike_designs = [d for d in ranked if all(d.design.values[n] == first[n] for n in first if n not in free)]
    alike_designs.sort(key=by_value)
    clouds = [
        _cloud("others at their best", "found", best, by_value, by_score, steps=False),
        _cloud("others as in the best design", "bound", alike_designs, by_value, by_score, marker="diamond"),
    ]
    spread = min(numbers) > 0 and max(numbers) / min(numbers) > 20
    return Points(
        title=f"{by} against {name}",
        x_axis=name,
        x_unit=unit,
        y_axis=by,
        y_unit=_unit(by),
        clouds=clouds,
        log_x=spread,
    )


def _free(ranked: Sequence[DesignFigures], name: str) -> set[str]:
    """A parameter, and those that follow from it alone: they have one value for each of its values."""
    names = {name}
    for other in ranked[0].design.values:
        pairs = {(d.design.values[name], d.design.values[other]) for d in ranked}
        if len(pairs) == len({d.design.values[name] for d in ranked}):
            names.add(other)
    return names


def _unit(name: str) -> str:
    return OBJECTIVES[name].unit if name in OBJECTIVES else ""


def _values(ranked: Sequence[DesignFigures], name: str) -> list[Any]:
    values = {d.design.values[name] for d in ranked}
    return sorted(values, key=in_order)


def _parallel(designs: Sequence[DesignFigures], names: Sequence[str]) -> dict[str, Any]:
    """Axes with what is at their ends, and each design as shares of them."""
    columns: list[tuple[str, list[Any], str]] = [(name, [d.design.values[name] for d in designs], "") for name in names]
    columns += [(name, [float(d[name]) for d in designs], _unit(name)) for name in OBJECTIVES]
    columns.append(("area, mm²", [1e6 * float(d["area"]) for d in designs], ""))
    axes, shares = [], []
    for name, values, unit in columns:
        order = {v: i for i, v in enumerate(sorted(set(values), key=in_order))}
        ends = list(order) or [0]
        low, high = (value_text(name, end) if name in names else _shown(end, unit) for end in (ends[0], ends[-1]))
        axes.append({"name": name, "low": low, "high": high})
        by_rank = name in names or any(isinstance(v, str) for v in values)
        width = (ends[-1] - ends[0] or 1) if not by_rank else max(1, len(order) - 1)
        shares.append([order[v] / width if by_rank else (v - ends[0]) / width for v in values])
    lines = [
        {
            "name": f"{d.design.number}: {d.design}",
            "number": d.design.number,
            "shares": [column[i] for column in shares],
        }
        for i, d in enumerate(designs)
    ]
    return {"parallel": axes, "lines": lines}


def _shown(value: Any, unit: str) -> str:
    if isinstance(value, (int, float)) and unit:
        return si(float(value), unit)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
