"""The notebooks run, without Jupyter, and what is stored in them is what they print."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PICTURES = ("image/png", "text/html")
TREE = re.compile(r"^[│├└─ ]*(?:for|parallel-for|\[).*")


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    pytest.importorskip("matplotlib", reason="no Matplotlib: pip install 'fusiest[notebooks]'")
    os.environ.setdefault("MPLBACKEND", "Agg")
    spec = importlib.util.spec_from_file_location("run_notebooks", FOLDER / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(cell: dict[str, Any]) -> list[object]:
    """A cell's text outputs without the lines of LoopTrees, and that there is a picture, not its pixels or paths.

    Which of several mappings that cost the same is found may change; what it costs may not.
    """
    return [
        [line for line in output["text"] if not TREE.match(line)]
        if "text" in output
        else {k: k in PICTURES or v for k, v in output["data"].items()}
        for output in cell["outputs"]
    ]


SMALLER = {
    "which-chip": (("STEPS = 10", "STEPS = 1"), ("[16, 32, 48, 64, 80]", "[16, 32]"), ("mobilenet_28", "matmuls"))
}
"""What makes a notebook that takes a minute one that takes seconds; its outputs are others then."""


def test_there_are_six() -> None:
    names = ["buffer-cost", "buffer-size", "dataflow-constraint", "first-mapping", "network", "which-chip"]
    assert [path.stem for path in NOTEBOOKS] == names


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_true(path: Path, runner: ModuleType) -> None:
    stored = runner.load(path)
    if path.stem == "network":
        pytest.importorskip("torch", reason="torch is not installed: make test-torch")
        from tests.networks.torch_models import torchvision

        torchvision()
    for old, new in SMALLER.get(path.stem, ()):
        assert any(old in "".join(cell["source"]) for cell in stored["cells"])
        stored["cells"] = [
            {**cell, "source": [line.replace(old, new) for line in cell["source"]]} for cell in stored["cells"]
        ]
    again = runner.run(stored)
    if path.stem in SMALLER:
        return
    for before, now in zip(stored["cells"], again["cells"], strict=True):
        if before["cell_type"] == "code":
            assert shown(before) == shown(now), "run python docs/notebooks/run.py"


def test_cells_share_names_and_end_in_a_value(runner: ModuleType) -> None:
    names: dict[str, Any] = {}
    assert runner.outputs("x = 2\nprint(x)\nx + 1", names, 0) == [
        {"output_type": "stream", "name": "stdout", "text": ["2\n"]},
        {"output_type": "display_data", "data": {"text/plain": ["3"]}, "metadata": {}},
    ]
    assert runner.outputs("x;", names, 1) == []
    with pytest.raises(NameError):
        runner.outputs("y", names, 2)
