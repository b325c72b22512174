"""What a Dask worker does: a run in a child process of its own, as on one machine, and plain data back, never an exception.

The child ends with the worker. It is also ended when nobody waits for the run any more, because the sweep was stopped or killed.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fusiest.sweeps.runs.attempt import Outcome, SweepTask
from fusiest.sweeps.runs.children import CALLED, Children

OTHER_VERSION = "other version"
"""The status of a run that a worker with another fusiest was given."""
_LOOK_UP_SECONDS = 0.25
_THREAD = threading.local()


@dataclass(frozen=True)
class RunLimits:
    """What each run may take, and what is called to do it."""

    time: float | None = None
    """Seconds."""
    memory: int | None = None
    """Bytes; None: the worker's share."""
    function: str = CALLED


@dataclass(frozen=True)
class Errand:
    """A task, its limits, and the store's folder with a file in it that shows whether the folder is the same here."""

    key: str
    task: SweepTask
    limits: RunLimits
    folder: str
    token: str


@functools.cache
def fingerprint() -> str:
    """The version of fusiest, and a hash of its code: machines with the same one give the same answers."""
    import fusiest

    root = Path(fusiest.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return f"{fusiest.__version__} ({digest.hexdigest()[:8]})"


def work(expected: str, packed: bytes) -> dict[str, Any]:
    """Do an errand, if this machine has the version of fusiest that is expected."""
    try:
        if fingerprint() != expected:
            return asdict(Outcome(OTHER_VERSION, fingerprint()))
        return asdict(_outcome(pickle.loads(packed)))
    except Exception as error:
        return asdict(Outcome("internal error", f"{type(error).__name__}: {error}"))


def _outcome(errand: Errand) -> Outcome:
    hands = _hands(errand.limits)
    hands.submit(errand.key, errand.task)
    while True:
        for _, outcome in hands.finished(_LOOK_UP_SECONDS):
            return _left_in_store(outcome, errand)
        if _nobody_waits():
            _THREAD.hands = None
            hands.__exit__()
            return Outcome("killed", "nobody waits for it")


def _hands(limits: RunLimits) -> Children:
    """This thread's child: it stays for the next run with the same limits."""
    previous: tuple[RunLimits, Children] | None = getattr(_THREAD, "hands", None)
    if previous is not None and previous[0] == limits:
        return previous[1]
    if previous is not None:
        previous[1].__exit__()
    hands = Children(1, limits.time, limits.memory or _share(), limits.function)
    _THREAD.hands = limits, hands
    return hands


def _share() -> int | None:
    """Bytes for one run: the worker's memory over its threads."""
    from distributed import get_worker

    worker = get_worker()
    memory = worker.memory_manager.memory_limit
    return int(memory / worker.state.nthreads) if memory else None


def _nobody_waits() -> bool:
    """Whether the scheduler has taken the task back, or the worker is about to end."""
    from distributed import get_worker

    worker = get_worker()
    state = worker.state.tasks.get(worker.get_current_task())
    return state is None or state.state == "cancelled" or worker.status.name.startswith("clos")


def _left_in_store(outcome: Outcome, errand: Errand) -> Outcome:
    """Where the store's folder is shared, the result is written there, and only its name goes back."""
    from fusiest.sweeps.store.store import write_object

    if not outcome.document or not Path(errand.folder, errand.token).is_file():
        return outcome
    try:
        name = write_object(Path(errand.folder), outcome.document)
    except Exception:  # a full disk there: the one who keeps the store will see
        return outcome
    return replace(outcome, document=b"", object=name)
