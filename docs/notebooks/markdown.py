"""Notebooks as pages of the site: each cell as Markdown, with the outputs that are stored in the notebook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from docutils.nodes import document
from myst_parser.parsers.sphinx_ import MystParser


class NotebookParser(MystParser):
    """Reads .ipynb files without Jupyter."""

    supported = ("ipynb",)

    def parse(self, inputstring: str, document: document) -> None:
        super().parse(markdown(json.loads(inputstring)), document)


def markdown(notebook: dict[str, Any]) -> str:
    """The whole notebook as Markdown."""
    return "\n\n".join(part for cell in notebook["cells"] for part in _parts(cell))


def _parts(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        yield _output(output)


def _output(output: dict[str, Any]) -> str:
    """Pictures and HTML as they are, text in a box."""
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text'])}```"
    data = output["data"]
    if "image/png" in data:
        return _raw(f'<img alt="what the cell above draws" src="data:image/png;base64,{data["image/png"]}">')
    if "text/html" in data:
        return _raw("".join(data["text/html"]))
    return f"```text\n{''.join(data['text/plain'])}\n```"


def _raw(html: str) -> str:
    """HTML that Markdown leaves alone, blank lines and all."""
    return f"``````{{raw}} html\n{html}\n``````"
