"""Runs the notebooks and stores what they print and draw: `python docs/notebooks/run.py`. Needs no Jupyter.

A cell's outputs are what it printed, then the value of its last line, unless that ends in `;`, then figures.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def load(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with new outputs. Files that it writes go to a temporary folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    before = Path.cwd()
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for number, cell in enumerate(notebook["cells"]):
                code = cell["cell_type"] == "code"
                cells.append({**cell, "outputs": outputs("".join(cell["source"]), names, number)} if code else cell)
        finally:
            os.chdir(before)
    return {**notebook, "cells": cells}


def outputs(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """What one cell shows."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    where = f"<cell {number}>"
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)})
    if value is not None and not source.rstrip().endswith(";"):
        found.append({"output_type": "display_data", "data": _data(value), "metadata": {}})
    return found + [
        {"output_type": "display_data", "data": {"image/png": picture}, "metadata": {}} for picture in _figures()
    ]


def _data(value: Any) -> dict[str, Any]:
    if hasattr(value, "_repr_html_"):
        return {"text/html": value._repr_html_().splitlines(keepends=True), "text/plain": [type(value).__name__]}
    return {"text/plain": repr(value).splitlines(keepends=True)}


def _figures() -> list[str]:
    """The open Matplotlib figures as PNG, then closed."""
    from matplotlib import pyplot

    found = []
    for number in pyplot.get_fignums():
        data = io.BytesIO()
        pyplot.figure(number).savefig(data, format="png", dpi=100, bbox_inches="tight", metadata={"Software": None})
        found.append(base64.b64encode(data.getvalue()).decode())
    pyplot.close("all")
    return found


def main() -> None:
    os.environ.setdefault("MPLBACKEND", "Agg")
    for path in NOTEBOOKS:
        if path.stem == "network" and not all(map(find_spec, ("torch", "torchvision"))):
            print(f"{path.name}: left as it is, for it needs torch and torchvision")
            continue
        text = json.dumps(run(load(path)), indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8")
        print(path.name)


if __name__ == "__main__":
    main()
