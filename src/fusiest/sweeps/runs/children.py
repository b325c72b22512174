"""Child processes, each with limits of its own: what a run does to its process concerns no other run.

A child is a fresh Python that takes tasks from a pipe. It ends, whatever it is at, when the process that started it does: a
pipe closes then. It is replaced when it died, ran out of memory, or was ended because its time was up.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait

from fusiest.base.errors import shown
from fusiest.sweeps.runs.attempt import Outcome, SweepTask

TRIES = 2
"""How often a run is begun whose process somebody killed."""
FAREWELL_SECONDS = 60.0
"""A search that knows a mapping ends by itself when its time is up. One that knows none is ended so much later."""
STARTING_SECONDS = 600.0
"""What a child may take to start, on top: that is not the task's time."""
READY = "ready"
CALLED = "fusiest.sweeps.runs.attempt:attempt"
SAFE_PATH = "PYTHONSAFEPATH"
"""The environment variable that keeps the working folder out of Python's search path: a folder's `numpy.py` never runs."""


class Child:
    """One process, and the task that it is at."""

    def __init__(self, memory: int | None, function: str = CALLED) -> None:
        answer_pipe, task_pipe, life_pipe = os.pipe(), os.pipe(), os.pipe()
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the child
        environment = {**os.environ, SAFE_PATH: "1", "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1"}
        code = "import sys; from fusiest.sweeps.runs.children import serve; serve(*sys.argv[1:])"
        ends = (task_pipe[0], answer_pipe[1], life_pipe[0])
        arguments = [sys.executable, "-c", code, *map(str, ends), str(memory or 0), function]
        self.process = subprocess.Popen(
            arguments, pass_fds=ends, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=self.stderr, env=environment, start_new_session=True,
        )  # fmt: skip
        for descriptor in ends:
            os.close(descriptor)
        self.life = life_pipe[1]
        self.answers, self.tasks = Connection(answer_pipe[0], writable=False), Connection(task_pipe[1], readable=False)
        self.key: str | None = None
        self.family = ""
        self.begin = 0.0
        self.ready = False

    def give(self, key: str, task: SweepTask) -> None:
        """Hand it a task; its `key` says which."""
        self.key, self.begin = key, time.monotonic()
        self.family = getattr(task, "family", "") or self.family
        self.tasks.send(task)

    def end(self) -> None:
        """End it, whatever it is at."""
        for connection in (self.tasks, self.answers):
            connection.close()
        os.close(self.life)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.stderr.close()

    def last_words(self) -> str:
        """The last line that it wrote before it ended."""
        self.stderr.seek(max(0, self.stderr.seek(0, os.SEEK_END) - 2_000))
        lines = self.stderr.read().decode(errors="replace").strip().splitlines()
        return f": {shown(lines[-1])}" if lines else ""


def serve(tasks: str, answers: str, life: str, memory: str, function: str) -> None:
    """The child's side: do tasks until there are no more."""
    import importlib

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(int(life),), daemon=True).start()
    module, _, name = function.partition(":")
    call = getattr(importlib.import_module(module), name)
    limit_memory(int(memory))
    incoming, outgoing = Connection(int(tasks), writable=False), Connection(int(answers), readable=False)
    outgoing.send(READY)
    while True:
        try:
            task = incoming.recv()
        except EOFError:
            return
        outgoing.send(call(task))


def _end_with_parent(life: int) -> None:
    """Nothing is ever written to this pipe: it can be read when the other end is closed, by whatever ended the parent."""
    os.read(life, 1)
    os._exit(1)


def limit_memory(limit: int) -> None:
    """So many bytes on top of what the process has now: more is a MemoryError, and no other process suffers."""
    if not limit:
        return
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    target = now + limit
    resource.setrlimit(resource.RLIMIT_AS, (min(target, hard) if hard != resource.RLIM_INFINITY else target, hard))


def memory_per_run(jobs: int) -> int:
    """Bytes that a run may take if nobody says: its share of nine tenths of the machine's memory."""
    return int(0.9 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / jobs)


class Children:
    """Several children, started when they are first needed. Use it in a `with`."""

    def __init__(
        self, jobs: int, time_limit: float | None = None, memory: int | None = None, function: str = CALLED
    ) -> None:
        self.jobs, self.function = jobs, function
        self.hard = time_limit + FAREWELL_SECONDS if time_limit is not None else None
        self.memory = memory or (memory_per_run(jobs) if sys.platform == "linux" else None)
        self.children: list[Child] = []
        self.tried: dict[str, int] = {}
        self.tasks: dict[str, SweepTask] = {}

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self.children:
            child.end()
        self.children = []

    @property
    def running(self) -> int:
        """How many tasks are being done."""
        return len(self.tasks)

    @property
    def idle(self) -> int:
        """How many more tasks can be begun now."""
        return self.jobs - len(self.tasks)

    def submit(self, key: str, task: SweepTask) -> None:
        """Begin a task. There must be an idle place."""
        self.tasks[key] = task
        idle = [c for c in self.children if c.key is None]
        # One that has done a run of the same family has tables of it.
        child = next((c for c in idle if c.family == getattr(task, "family", "")), idle[0] if idle else None)
        if child is None:
            child = Child(self.memory, self.function)
            self.children.append(child)
        try:
            child.give(key, task)
        except OSError:  # it died while it had nothing to do
            self._replace(child)
            self.submit(key, task)

    def finished(self, seconds: float) -> Iterator[tuple[str, Outcome]]:
        """What is done by now; waits so long for the first."""
        busy: dict[object, Child] = {child.answers: child for child in self.children if child.key is not None}
        for connection in wait([child.answers for child in busy.values()], timeout=seconds):
            yield from self._answer(busy[connection])
        for child in list(self.children):
            seconds_taken = time.monotonic() - child.begin - (0 if child.ready else STARTING_SECONDS)
            if child.key is not None and self.hard is not None and seconds_taken > self.hard:
                key = child.key
                self._replace(child)
                del self.tasks[key]
                yield (
                    key,
                    Outcome(
                        "time limit",
                        f"ended after {seconds_taken:.0f} s: no mapping was known",
                        wall_seconds=seconds_taken,
                    ),
                )

    def _answer(self, child: Child) -> Iterator[tuple[str, Outcome]]:
        key = child.key
        assert key is not None
        try:
            outcome = child.answers.recv()
        except (EOFError, OSError, MemoryError):
            yield from self._died(child, key)
            return
        if outcome == READY:  # what it took to start is not the task's
            child.begin, child.ready = time.monotonic(), True
            return
        child.key = None
        del self.tasks[key]
        if outcome.status == "out of memory":
            self._replace(child)
        yield key, outcome

    def _died(self, child: Child, key: str) -> Iterator[tuple[str, Outcome]]:
        """A process that ends in the middle of a task. If a signal ended it, the task may be innocent."""
        status = child.process.wait()
        words = child.last_words()
        cause = _cause(status) + words
        self._replace(child)
        self.tried[key] = self.tried.get(key, 0) + 1
        task = self.tasks.pop(key)
        if status < 0 and self.tried[key] < TRIES:
            self.submit(key, task)
            return
        kind = "out of memory" if "MemoryError" in words else "killed"
        yield key, Outcome(kind, cause, wall_seconds=time.monotonic() - child.begin)

    def _replace(self, child: Child) -> None:
        child.end()
        self.children.remove(child)


def _cause(status: int) -> str:
    """Why a process ended."""
    if status >= 0:
        return f"its process ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = str(-status)
    return f"its process was ended by {name}, {TRIES} times"
