"""A run of the tests says at its end why tests were skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
MARKED = """
import pytest

@pytest.mark.skipif(True, reason="no such program: make it")
@pytest.mark.parametrize("n", range(3))
def test_marked(n): ...

def test_within(): pytest.skip("not on Mondays")

def test_runs(): ...
"""


@pytest.mark.parametrize("processes", [[], ["-n", "2"]], ids=["alone", "two processes"])
def test_one_table_gives_each_reason_once(tmp_path: Path, processes: list[str]) -> None:
    (tmp_path / "test_marked.py").write_text(MARKED)
    (tmp_path / "test_missing.py").write_text(
        'import pytest\npytest.importorskip("no_such_module", reason="no such program: make it")\n'
    )
    options = ["-q", "-c", os.devnull, "--rootdir", str(tmp_path), "-p", "tests.conftest", *processes]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)], capture_output=True, text=True, cwd=PROJECT,
        check=False, env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    lines = run.stdout.splitlines()
    table = lines[lines.index("skipped          why") :]
    assert table[1:3] == ["1 file, 3 tests  no such program: make it", "         1 test  not on Mondays"]
    assert table[3] == "1 passed, 5 skipped" or table[3].startswith("1 passed, 5 skipped in")
