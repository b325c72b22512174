"""Sweeps on a real Dask cluster on this machine: `make test-cluster` installs what this needs. Anything may be killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import fusiest
from fusiest.sweeps import Store
from fusiest.sweeps.runs.cluster import ClusterHands
from fusiest.sweeps.runs.clusterfile import load_cluster
from fusiest.sweeps.runs.dask_worker import RunLimits
from fusiest.sweeps.store.upkeep import check_store
from tests.command_line import run
from tests.proving import PROVE

ROOT = Path(__file__).parents[2]
SIZES = 60
DRIVER = f"""
import sys, fusiest
from fusiest.base.errors import FusiestError
from fusiest.sweeps import Reuse, session
from fusiest.sweeps.runs.dask_worker import RunLimits
session.RunLimits = lambda time, memory: RunLimits(time, memory, "tests.sweeps.tasks:quick")
sizes = [10_000 + i for i in range({SIZES})]
sweep = fusiest.sweep(arch="simple", workloads=["matmuls"], parameters={{"GlobalBufferSize": sizes}}, objective="edp",
                      cluster=sys.argv[1], store=sys.argv[2], reuse=Reuse(covered=False))
try:
    print(sweep.run().counts.known)
except FusiestError as error:
    sys.exit(str(error))
"""


class DaskCluster:
    """A scheduler and two workers, each worker with its nanny."""

    def __init__(self, folder: Path, extra: dict[str, str] | None = None) -> None:
        self.folder, self.processes = folder, list[subprocess.Popen[bytes]]()
        self.environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "FUSIEST_TEST_LOG": str(folder / "log"), **(extra or {}),
                            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "10"}  # fmt: skip
        file = folder / f"scheduler{random.random()}.json"
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
        for _ in range(2):
            self._start("worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-dashboard",
                        "--local-directory", str(folder / "scratch"))  # fmt: skip
        deadline = time.monotonic() + 120
        while not (file.exists() and file.read_text()) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.address = str(json.loads(file.read_text())["address"])

    def _start(self, what: str, *arguments: str) -> None:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *arguments]
        self.processes.append(
            subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )

    def __enter__(self) -> DaskCluster:
        return self

    def __exit__(self, *_: object) -> None:
        import psutil

        for process in reversed(self.processes):
            with contextlib.suppress(psutil.NoSuchProcess):
                for child in psutil.Process(process.pid).children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        child.kill()
            process.kill()
            process.wait()

    def kill(self, what: str) -> None:
        """`kill -9` of the scheduler, a nanny, or a worker (its nanny's child that is no tracker of resources)."""
        import psutil

        chosen = self.processes[0 if what == "scheduler" else 1]
        if what != "worker":
            os.kill(chosen.pid, signal.SIGKILL)
            return
        for child in psutil.Process(chosen.pid).children():
            if "resource_tracker" not in " ".join(child.cmdline()):
                child.kill()


@pytest.fixture
def needs_dask() -> None:
    pytest.importorskip("distributed", reason="no Dask: pip install 'fusiest[cluster]'")


def drive(cluster: DaskCluster, store: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", DRIVER, cluster.address, str(store)]
    return subprocess.Popen(command, env=cluster.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def rows(store: Path) -> list[tuple[Any, ...]]:
    if not (store / "runs.sqlite").exists():
        return []
    try:
        with contextlib.closing(sqlite3.connect(store / "runs.sqlite")) as database:
            return database.execute("SELECT hash, status, energy, latency, object FROM runs ORDER BY hash").fetchall()
    except sqlite3.OperationalError:  # not made yet
        return []


def done(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


@pytest.mark.usefixtures("needs_dask")
def test_anything_may_be_killed(tmp_path: Path) -> None:
    """At random times; then the same command ends with the same store, and nothing finished was run again."""
    chance, whole = random.Random(1), None
    kinds = ["nothing", *(["worker", "nanny", "scheduler", "driver"] * (5 if PROVE else 1))]
    for number, what in enumerate(kinds):
        folder = tmp_path / str(number)
        folder.mkdir()
        again = False
        with DaskCluster(folder) as cluster:
            driver = drive(cluster, folder / "runs")
            wait_for(folder / "runs", chance.randrange(1, SIZES - 10), driver)
            if what == "driver":
                driver.kill()
                again = True
            elif what != "nothing":
                cluster.kill(what)
            _, said = driver.communicate(timeout=300)
            if what == "scheduler":
                assert (driver.returncode, said.count("\n")) == (1, 1), said
                assert "is gone; all answers so far are kept, and the same command goes on" in said
                again = True
            if what == "driver":
                go_on(cluster, folder)
                again = False
            elif what != "scheduler":
                assert driver.returncode == 0, said
        if again:
            with DaskCluster(folder) as cluster:
                go_on(cluster, folder)
        whole = whole or rows(folder / "runs")
        assert rows(folder / "runs") == whole
        assert len(whole) == SIZES
        with Store(folder / "runs") as store:
            assert check_store(store, evaluate=False) == []
            assert store.database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        left = [p.name for p in (folder / "runs").iterdir() if p.name.startswith(".")]
        assert len(left) <= (what == "driver"), left


def wait_for(store: Path, count: int, driver: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 200
    while len(rows(store)) < count and time.monotonic() < deadline and driver.poll() is None:
        time.sleep(0.02)


def go_on(cluster: DaskCluster, folder: Path) -> None:
    """The same command: what was kept is known, and not done again."""
    kept = {str(round(row[2])) for row in rows(folder / "runs")}
    time.sleep(1.5)  # what was under way ends
    before = len(done(folder / "log"))
    driver = drive(cluster, folder / "runs")
    out, said = driver.communicate(timeout=300)
    assert driver.returncode == 0, said
    assert int(out) == len(kept)
    assert not kept & set(done(folder / "log")[before:])


@pytest.mark.usefixtures("needs_dask")
def test_searches_on_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answers are those of one machine; a worker of another version, or none, is one line."""
    command = ["sweep", "simple", "matmuls", "-D", "GlobalBufferSize=2048,65536", "-D", "M=8", "-D", "KN=8", "--quiet"]
    with DaskCluster(tmp_path) as cluster:
        status, _, said = run(capsys, *command, "--cluster", cluster.address, "--store", str(tmp_path / "there"))
        assert (status, said) == (0, "")
    assert run(capsys, *command, "--jobs", "1", "--store", str(tmp_path / "here"))[0] == 0
    assert [row[:4] for row in rows(tmp_path / "there")] == [row[:4] for row in rows(tmp_path / "here")]
    status, _, said = run(capsys, *command, "--cluster", cluster.address, "--store", str(tmp_path / "new"))
    assert (status, said.count("\n")) == (2, 1)
    assert "cannot connect" in said


@pytest.mark.usefixtures("needs_dask")
def test_a_worker_of_another_version(tmp_path: Path) -> None:
    (tmp_path / "old" / "fusiest-0.0.1.dist-info").mkdir(parents=True)
    (tmp_path / "old" / "fusiest-0.0.1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: fusiest\nVersion: 0.0.1\n"
    )
    with DaskCluster(tmp_path, {"PYTHONPATH": str(tmp_path / "old")}) as cluster:
        hands = ClusterHands(cluster.address, RunLimits(), tmp_path)
        with pytest.raises(fusiest.FusiestError, match=r"has fusiest 0\.0\.1, but here is"):
            connect_until_refused(hands)


def connect_until_refused(hands: ClusterHands) -> None:
    """Until the first worker is there."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with hands:
            time.sleep(0.2)


@pytest.mark.usefixtures("needs_dask")
def test_the_documented_file_with_local_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The SLURM example of the documentation; dask-jobqueue's LocalCluster stands for SLURM."""
    pytest.importorskip("dask_jobqueue")
    text = (ROOT / "docs" / "cluster.md").read_text()
    example = re.search(r"<!-- file: slurm.yaml -->\n```yaml\n(.*?)```", text, re.DOTALL)
    assert example is not None
    (tmp_path / "slurm.yaml").write_text(example[1])
    assert load_cluster(str(tmp_path / "slurm.yaml")).system == "slurm"
    local = re.sub(r"^ +(queue|walltime):.*\n", "", example[1].replace("slurm", "local"), flags=re.MULTILINE)
    local = local.replace("jobs: 20", "jobs: 2").replace("cores: 16", "cores: 1").replace("64GB", "4GB")
    (tmp_path / "local.yaml").write_text(local)
    command = ["sweep", "simple", "matmuls", "-D", "GlobalBufferSize=2048,65536", "-D", "M=8", "-D", "KN=8", "--quiet"]
    status, out, said = run(
        capsys, *command, "--cluster", str(tmp_path / "local.yaml"), "--store", str(tmp_path / "runs")
    )
    assert (status, said) == (0, "")
    assert "2 of 2 runs" in out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cluster: {system: slrm, jobs: 2}", "1: system: 'slrm' is none of .*did you mean 'slurm'"),
        ("cluster: {system: slurm, jobs: 0}", "1: jobs: expected a number"),
        ("cluster: {system: slurm}", "1: cluster: no 'jobs'"),
        ("cluster: {system: slurm, job: 2}", "1: .*did you mean 'jobs'"),
        ("jobqueue: {}", "no section 'cluster:'"),
        ("cluster: {system: slurm, jobs: [0, 4]}\njobqueue: {slurm: 3}", "2: jobqueue: expected a table"),
    ],
)
def test_bad_cluster_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(fusiest.SpecError, match=message):
        load_cluster(str(tmp_path / "c.yaml"))


def test_bad_addresses(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["sweep", "simple", "matmuls", "--quiet"]
    status, _, said = run(capsys, *command, "--cluster", "nowhere")
    assert (status, said.count("\n")) == (2, 1)
    assert "no such file" in said
    status, _, said = run(capsys, *command, "--cluster", "tcp://127.0.0.1:1", "--jobs", "2")
    assert (status, said.count("\n")) == (2, 1)
