"""A sweep's runs on a cluster, by Dask: as many at a time as the workers have threads. Only the driver writes to the store.

Workers may come and go at any time; a run whose worker died is begun again elsewhere. If the scheduler is gone, the sweep ends
with a line, and the same command goes on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import queue
import time
import uuid
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from fusiest.base.errors import FusiestError, shown
from fusiest.sweeps.runs.attempt import Outcome, SweepTask
from fusiest.sweeps.runs.children import TRIES
from fusiest.sweeps.runs.clusterfile import load_cluster, start_cluster
from fusiest.sweeps.runs.dask_worker import OTHER_VERSION, Errand, RunLimits, fingerprint, work

CONNECT_SECONDS = 10.0
_COUNT_SECONDS = 1.0
_GATHER_SECONDS = 5.0
_ADDRESS = "://"


class ClusterHands:
    """Workers of a Dask cluster. Use it in a `with`."""

    def __init__(self, where: str, limits: RunLimits, folder: str | Path) -> None:
        """`where`: a scheduler's address, or a cluster file. `folder`: the store's."""
        self.where, self.limits, self.folder = where, limits, os.path.abspath(folder)
        self.token = f".shared-{uuid.uuid4().hex}"
        self.cluster: Any = None
        self.client: Any = None
        self.tasks: dict[str, tuple[SweepTask, Any]] = {}
        self.tried: dict[str, int] = {}
        self.finished_keys: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.slots, self.counted = 0, 0.0

    def __enter__(self) -> ClusterHands:
        try:
            self._connect()
            self._check_versions()
        except BaseException:
            self.__exit__()
            raise
        Path(self.folder, self.token).touch()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.folder, self.token))
        for connected in (self.client, self.cluster):
            with contextlib.suppress(Exception):
                if connected is not None:
                    connected.close()

    def _connect(self) -> None:
        if _ADDRESS not in self.where and not os.path.exists(self.where):
            raise FusiestError(
                f"--cluster {shown(self.where)}: no address (tcp://host:8786), and there is no such file"
            )
        file = load_cluster(self.where) if _ADDRESS not in self.where else None
        try:
            from distributed import Client
        except ImportError:
            raise FusiestError("--cluster needs Dask: pip install 'fusiest[cluster]'") from None
        _hush()
        if file is not None:
            self.cluster = start_cluster(file)
        address = self.cluster if self.cluster is not None else self.where
        try:
            self.client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise FusiestError(f"--cluster {shown(self.where)}: cannot connect: {shown(str(error))}") from None

    def _check_versions(self) -> None:
        """Check the versions of all workers that are there. Later ones check their own before their first run."""
        versions = self._on_workers(metadata.version, "fusiest")
        version_here = metadata.version("fusiest")
        for worker, version in versions.items():
            if version != version_here:
                state = f"has fusiest {version}" if isinstance(version, str) else "has no fusiest"
                raise FusiestError(
                    f"the worker {worker} {state}, but here is {version_here}: install the same on all machines"
                )
        for worker, code in self._on_workers(fingerprint).items():
            if code != fingerprint():
                raise _other_version(f"the worker {worker}", str(code))

    def _on_workers(self, *call: Any) -> dict[str, Any]:
        try:
            return dict(self.client.run(*call, on_error="return"))
        except ValueError:  # no workers yet
            return {}
        except (OSError, TimeoutError):
            raise self._scheduler_lost() from None

    def _scheduler_lost(self) -> FusiestError:
        return FusiestError(
            f"the scheduler at {self.where} is gone; all answers so far are kept, and the same command goes on"
        )

    @property
    def running(self) -> int:
        """How many tasks have been handed out."""
        return len(self.tasks)

    @property
    def idle(self) -> int:
        """How many more tasks can be begun now."""
        if time.monotonic() - self.counted > _COUNT_SECONDS:
            try:
                self.slots = sum(self.client.nthreads().values())
            except Exception:
                raise self._scheduler_lost() from None
            self.counted = time.monotonic()
        return max(0, self.slots - len(self.tasks))

    def submit(self, key: str, task: SweepTask) -> None:
        """Hand out a task."""
        errand = pickle.dumps(Errand(key, task, self.limits, self.folder, self.token))
        try:
            future = self.client.submit(work, fingerprint(), errand, key=f"fusiest-{uuid.uuid4().hex}", pure=False)
            self.tasks[key] = task, future
            future.add_done_callback(lambda _: self.finished_keys.put(key))
        except Exception:
            raise self._scheduler_lost() from None

    def finished(self, seconds: float) -> Iterator[tuple[str, Outcome]]:
        """What is done by now; waits so long for the first."""
        try:
            keys = [self.finished_keys.get(timeout=seconds)]
        except queue.Empty:
            keys = []
        while not self.finished_keys.empty():
            keys.append(self.finished_keys.get())
        for key in keys:
            outcome = self._outcome(key)
            if outcome is not None:
                del self.tasks[key]
                yield key, outcome
        if not keys and self.client.status != "running":
            raise self._scheduler_lost()

    def _outcome(self, key: str) -> Outcome | None:
        """What became of a task; None if it has been begun again."""
        task, future = self.tasks[key]
        if future.status == "error":
            return self._died(key, task, future)
        if future.status != "finished":
            raise self._scheduler_lost()
        try:
            outcome = Outcome(**future.result(timeout=_GATHER_SECONDS))
        except (OSError, TimeoutError):  # the worker died before it was asked: another one does it again
            self.finished_keys.put(key)
            return None
        except Exception:
            raise self._scheduler_lost() from None
        if outcome.status == OTHER_VERSION:
            raise _other_version("a worker", outcome.reason)
        return outcome

    def _died(self, key: str, task: SweepTask, future: Any) -> Outcome | None:
        """Workers do not raise: what they have of this task died, or they could not read it."""
        from distributed import KilledWorker

        error = future.exception()
        if not isinstance(error, KilledWorker):
            raise _other_version(
                "a worker", f"another version of fusiest ({type(error).__name__}: {shown(str(error))})"
            )
        self.tried[key] = self.tried.get(key, 0) + 1
        if self.tried[key] < TRIES:
            self.submit(key, task)
            return None
        return Outcome("killed", f"the workers that had it died, {TRIES} times in a row")


def _hush() -> None:
    """What Dask would say of connections that are lost: what matters is said in a line of ours."""
    for name in ("tornado", "asyncio", *logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _other_version(who: str, version: str) -> FusiestError:
    return FusiestError(f"{who} has fusiest {version}, but here is {fingerprint()}: install the same on all machines")
