"""Results whose options are no text: one line, not a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fusiest
from fusiest.base.errors import FusiestError
from tests.command_line import run


@pytest.mark.parametrize(
    "options",
    [{"windows": {}}, {"exchange": []}, {"orders": {"a": 1}}, {"windows": ["all"]}, {"usage": {}}, {"jobs": "x"}],
)
def test_options_that_are_no_text(
    options: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=1, M=4, KN=4)
    document = fusiest.map(spec, "edp", jobs=1).to_json()
    file = tmp_path / "result.json"
    file.write_text(json.dumps({**document, "options": {**document["options"], **options}}))  # type: ignore[dict-item]
    for command in (["compare", str(file), str(file)], ["report", str(file), "-o", str(tmp_path / "r.html")]):
        status, _, err = run(capsys, *command)
        assert (status, err.count("\n")) == (2, 1), err
    with pytest.raises(FusiestError):
        fusiest.Result.load(file)
