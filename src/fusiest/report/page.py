"""Data and assets into one HTML file that needs nothing else: no network, no other file.

Everything a spec says reaches the page as JSON and is put there as text, never as HTML.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import platform
from importlib import metadata, resources
from typing import Any

from fusiest.report.charts import palette

STYLES = ("report.css",)
COMMON_SCRIPTS = ("format.js", "charts.js", "layout.js", "graph.js", "cards.js")
LIBRARIES = {"plotly": "plotly-cartesian.min.js.gz", "elk": "elk.bundled.js.gz"}
"""Scripts of others by the name that the page unpacks them by."""


def asset(name: str) -> str:
    return resources.files("fusiest.report").joinpath("assets", name).read_text(encoding="utf-8")


def library(name: str) -> bytes:
    """A script of others, compressed as it is kept."""
    return resources.files("fusiest.report").joinpath("assets", "vendor", LIBRARIES[name]).read_bytes()


def tools() -> list[str]:
    """What the page was made with, and in which version."""
    packages = [f"{name} {metadata.version(name)}" for name in ("NumPy", "Numba")]
    return [f"Python {platform.python_version()}", *packages]


def json_text(data: Any) -> str:
    """JSON that may stand in a script element: nothing in it can end the element or start a comment."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def packed(data: Any) -> str:
    """Compressed JSON as text, which the page unpacks when it is needed."""
    squeezed = gzip.compress(json.dumps(data, separators=(",", ":"), allow_nan=False).encode(), mtime=0)
    return base64.b64encode(squeezed).decode()


def page(
    title: str, body: str, data: dict[str, Any], scripts: tuple[str, ...], libraries: tuple[str, ...] = ("plotly",)
) -> str:
    """A whole page: this body, its data, the styles, the scripts that every page has and its own, those of others."""
    colours = {**{name: list(colours) for name, colours in palette.PALETTES.items()}, "plain": palette.PLAIN,
               "hatches": list(palette.HATCHES)}  # fmt: skip
    parts = {
        "TITLE": html.escape(title.encode(errors="replace").decode()),
        "STYLE": "\n".join(asset(name) for name in STYLES),
        "BODY": body,
        "DATA": json_text({**data, "palette": colours, "tools": tools()}),
        "LIBRARIES": "\n".join(
            f'<script type="application/gzip" id="{name}">{base64.b64encode(library(name)).decode()}</script>'
            for name in libraries
        ),
        "SCRIPT": "\n".join(asset(name) for name in COMMON_SCRIPTS + scripts),
    }
    pieces = asset("page.html").split("@@")
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))
