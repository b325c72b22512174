"""Where the boxes and edges of a graph go in a chart file: the page's own layout, run here.

The script is the page's, so that both come to the same picture. It is ours and the library's: nothing of a spec is in it
but the texts' lengths and which box leads to which.
"""

from __future__ import annotations

import functools
import gzip
import threading
from dataclasses import dataclass
from typing import Any

from fusiest.base.errors import FusiestError
from fusiest.report.charts.chart import Graph
from fusiest.report.page import asset, library

PixelPoint = tuple[float, float]
_TURNS = 1_000

_SETTING = """
var global = globalThis, exports, module, require;
var waiting = [], placed = null, failed = null;
globalThis.setTimeout = (work) => { waiting.push(work); };
globalThis.clearTimeout = () => {};
"""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """In pixels, y downwards: each box as left, top, width and height, each edge as points."""

    width: float
    height: float
    boxes: list[tuple[float, float, float, float]]
    edges: list[list[PixelPoint]]


def check_dukpy() -> None:
    """Raise, with what to install, if graphs cannot be laid out."""
    try:
        import dukpy  # noqa: F401  (is it installed?)
    except ImportError:
        raise FusiestError("charts as files need DukPy: pip install 'fusiest[charts]'") from None


def arranged(chart: Graph, room: float) -> Arrangement:
    """ELK's layered layout, in rows that are as wide as there is room."""
    check_dukpy()
    lengths = [{"name": "x" * len(box.name), "note": "x" * len(box.note)} for box in chart.boxes]
    edges = [{"source": edge.source, "target": edge.target} for edge in chart.edges]
    engine = _engine(threading.get_ident())
    engine.evaljs(
        "waiting = []; placed = failed = null;"
        "arranged(new ELK(), dukpy.chart, dukpy.room).then((layout) => { placed = layout; }, (error) => { failed = String(error); }); null",
        chart={"boxes": lengths, "edges": edges}, room=room,
    )  # fmt: skip
    for _ in range(_TURNS):
        if engine.evaljs("placed !== null || failed !== null"):
            break
        engine.evaljs("while (waiting.length) waiting.shift()(); null")
    placed: dict[str, Any] | None = engine.evaljs("placed")
    if placed is None:
        raise FusiestError(f"the graph of {len(chart.boxes)} Einsums cannot be laid out: {engine.evaljs('failed')}")
    return Arrangement(
        placed["width"],
        placed["height"],
        [(box["x"], box["y"], box["width"], box["height"]) for box in placed["boxes"]],
        [[(x, y) for x, y in points] for points in placed["edges"]],
    )


@functools.lru_cache(maxsize=1)
def _engine(thread: int) -> Any:
    """Load the library, which takes longer than to lay out a graph. It must not change threads."""
    import dukpy

    engine = dukpy.JSInterpreter()
    engine.evaljs([_SETTING, gzip.decompress(library("elk")).decode(), asset("layout.js"), "null"])
    return engine
