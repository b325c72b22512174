"""`--profile`: where the time went."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.command_line import run


def test_every_phase_has_its_time(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    profile, document = tmp_path / "profile.csv", tmp_path / "result.json"
    status, _, _ = run(
        capsys, "map", "simple", "matmuls", "-D", "N_EINSUMS=3", "-D", "M=16", "-D", "KN=16", "--jobs", "1", "--quiet",
        "--profile", str(profile), "--json", str(document),
    )  # fmt: skip
    rows = list(csv.DictReader(profile.open()))
    assert status == 0
    phases = list(dict.fromkeys(row["phase"] for row in rows))
    # The first pass proves its mapping here: no exact joining is left.
    assert phases[1:] == ["preparing", "exploring", "first pass", "checking"]
    spent = sum(float(row["seconds"]) for row in rows)
    assert spent >= json.loads(document.read_text())["stats"]["wall_seconds"] - 0.01
