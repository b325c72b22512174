"""Data and assets into one HTML file that needs nothing else: no network, no other file.

Everything a spec says reaches the page as JSON and is put there as text, never as HTML.
"""

from __future__ import annotations

import base64
import gzip
import html
import importlib.util
import json
from importlib import resources
from pathlib import Path
from typing import Any

from fusiest.errors import FusiestError
from fusiest.report import palette

STYLES = ("report.css",)
COMMON_SCRIPTS = ("format.js", "charts.js", "cards.js")


def check_plotly() -> Path:
    """Where Plotly's minified script is: in its Python package, which need not be imported for it."""
    found = importlib.util.find_spec("plotly")
    if found is None or found.origin is None:
        raise FusiestError("reports need Plotly: pip install 'fusiest[report]'")
    return Path(found.origin).parent / "package_data" / "plotly.min.js"


def asset(name: str) -> str:
    return resources.files("fusiest.report").joinpath("assets", name).read_text(encoding="utf-8")


def json_text(data: Any) -> str:
    """JSON that may stand in a script element: nothing in it can end the element or start a comment."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def packed(data: Any) -> str:
    """Compressed JSON as text, which the page unpacks when it is needed."""
    squeezed = gzip.compress(json.dumps(data, separators=(",", ":"), allow_nan=False).encode(), mtime=0)
    return base64.b64encode(squeezed).decode()


def page(title: str, body: str, data: dict[str, Any], scripts: tuple[str, ...] = ("tree.js", "report.js")) -> str:
    """A whole page: this body, its data, the styles, the scripts that every page has and its own."""
    colours = {**{name: list(colours) for name, colours in palette.PALETTES.items()}, "plain": palette.PLAIN,
               "hatches": list(palette.HATCHES)}  # fmt: skip
    parts = {
        "TITLE": html.escape(title.encode(errors="replace").decode()),
        "STYLE": "\n".join(asset(name) for name in STYLES),
        "BODY": body,
        "DATA": json_text({**data, "palette": colours}),
        "PLOTLY": check_plotly().read_text(encoding="utf-8"),
        "SCRIPT": "\n".join(asset(name) for name in COMMON_SCRIPTS + scripts),
    }
    pieces = asset("page.html").split("@@")
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))
