"""A downloaded folder holds code under the names of modules: no command that is started there runs any of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fusiest

NAMES = ("numpy", "yaml", "numba", "sitecustomize", "usercustomize", "signal", "struct", "pickle", "socket", "six")
SWEEP = ["sweep", "sweep.yaml", "--quiet", "--store", "runs"]
TEXT = """
sweep:
  arch: simple
  workloads: [{file: matmuls, defines: {N_EINSUMS: 1, M: 4, KN: 4}}]
  parameters: {GlobalBufferSize: [4096]}
  objective: edp
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text("open('ran', 'a').write(__name__ + '\\n')\n")
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: cache\n")
    (tmp_path / "sweep.yaml").write_text(TEXT)
    return tmp_path


def start(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(fusiest.__file__).parents[1])}
    environment.pop("PYTHONSAFEPATH", None)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    ran = (folder / "ran").read_text() if (folder / "ran").exists() else ""
    assert ran == "", f"the folder's own code has run: {ran}"
    return done


def test_a_sweep_in_a_foreign_folder(hostile: Path) -> None:
    """The program as pip installs it: beside the folder's own `fusiest.py`."""
    (hostile / "fusiest.py").write_text("open('ran', 'a').write('fusiest')\n")
    code = "import sys; del sys.path[0]; from fusiest.__main__ import main; sys.argv[0] = 'fusiest'; main()"
    done = start(hostile, sys.executable, "-c", code, *SWEEP, "--jobs", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 of 1 run" in done.stdout
    assert not (hostile / "cache").exists(), "compiled code of the folder would have been loaded"


def test_the_module_in_a_foreign_folder(hostile: Path) -> None:
    done = start(hostile, sys.executable, "-m", "fusiest", *SWEEP, "--jobs", "1")
    assert (done.returncode, done.stderr) == (0, "")


def test_jobs_of_a_cluster_in_a_foreign_folder(hostile: Path) -> None:
    """A scheduler here and a job on this machine, started in that folder."""
    pytest.importorskip("dask_jobqueue", reason="no Dask: pip install 'fusiest[cluster]'")
    (hostile / "local.yaml").write_text(
        "cluster: {system: local, jobs: 1}\njobqueue: {local: {cores: 1, memory: 2GB, processes: 1}}\n"
    )
    code = "import sys; del sys.path[0]; from fusiest.__main__ import main; sys.argv[0] = 'fusiest'; main()"
    done = start(hostile, sys.executable, "-c", code, *SWEEP, "--cluster", "local.yaml")
    assert (done.returncode, done.stderr) == (0, "")
