"""Processes that answer questions about Einsums, and remember what they have worked out for an Einsum."""

from __future__ import annotations

import concurrent.futures
import contextlib
import queue
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from fusiest.base import interrupt, workers

_WORTH_A_PROCESS_SECONDS = 0.1
"""Seconds of work here before processes are started: starting them takes about as long."""
_LOOK_UP_SECONDS = 0.1


class Task(Protocol):
    """A question about an Einsum."""

    @property
    def einsum(self) -> str: ...


T = TypeVar("T", bound=Task)
A = TypeVar("A")


@dataclass
class Workforce(Generic[T, A]):
    """Answers tasks here as long as that is quicker than to start processes, then in processes.

    A process takes tasks on the Einsums that it knows first. It ends with the block.
    """

    work: Callable[[T], A]
    processes: int
    executor: concurrent.futures.Executor | None = None
    """Takes the place of processes."""
    at_once: bool = False
    """Whether to start processes at once: they can be ended in the middle of compiled code."""
    _begun: float = field(default_factory=time.perf_counter)
    _pools: list[concurrent.futures.ProcessPoolExecutor] = field(default_factory=list)
    _owner: dict[str, int] = field(default_factory=dict)

    def __enter__(self) -> Workforce[T, A]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.end()
        for pool in self._pools:
            pool.shutdown()
        self._pools.clear()

    def end(self) -> None:
        """End the processes, whatever they are at."""
        for pool in self._pools:
            workers.end(pool)
        self._pools.clear()

    def each(self, tasks: Sequence[T]) -> Generator[tuple[T, A], None, None]:
        """Tasks and their answers, as they are done. The first ones are begun first."""
        if self.executor is not None:
            yield from self._submitted(self.executor, tasks)
            return
        waiting = list(tasks)
        while waiting:
            if self.processes > 1 and len(waiting) > 1 and self._is_worth():
                yield from self._in_processes(waiting)
                return
            task = waiting.pop()  # the easiest one
            yield task, self.work(task)

    def _is_worth(self) -> bool:
        return bool(self._pools) or self.at_once or time.perf_counter() - self._begun > _WORTH_A_PROCESS_SECONDS

    def _in_processes(self, tasks: Sequence[T]) -> Generator[tuple[T, A], None, None]:
        """Answers from processes. If memory runs out, or a process is killed, the missing ones are found here."""
        missing = dict(enumerate(tasks))
        try:
            with contextlib.closing(self._dispatched(missing)) as answers:
                for number, answer in answers:
                    yield missing.pop(number), answer
        except (BrokenProcessPool, MemoryError, OSError):
            self.end()
            for number in list(missing):
                task = missing.pop(number)
                yield task, self.work(task)

    def _dispatched(self, tasks: dict[int, T]) -> Generator[tuple[int, A], None, None]:
        with interrupt.deferred():  # workers are started here, and must not begin with an exception
            while len(self._pools) < self.processes:
                self._pools.append(workers.make_pool(1, self.work))
        done: queue.SimpleQueue[tuple[int, int, concurrent.futures.Future[Any]]] = queue.SimpleQueue()
        waiting = dict(tasks)

        def hand_out(worker: int) -> None:
            number = min(waiting, key=lambda n: (self._owner.get(waiting[n].einsum, worker) != worker, n), default=None)
            if number is not None:
                task = waiting.pop(number)
                self._owner[task.einsum] = worker
                future = self._pools[worker].submit(workers.work_on, task)
                future.add_done_callback(lambda future: done.put((worker, number, future)))

        for worker in range(len(self._pools)):
            hand_out(worker)
        for _ in range(len(tasks)):
            worker, number, future = _next(done)
            answer: A = future.result()
            hand_out(worker)
            yield number, answer

    def _submitted(
        self, executor: concurrent.futures.Executor, tasks: Sequence[T]
    ) -> Generator[tuple[T, A], None, None]:
        """Answers from a given executor. If we are stopped, tasks that have not begun are cancelled."""
        with interrupt.deferred():
            futures = {executor.submit(self.work, task): task for task in tasks}
        done: queue.SimpleQueue[concurrent.futures.Future[A]] = queue.SimpleQueue()
        try:
            for future in futures:
                future.add_done_callback(done.put)
            for _ in range(len(futures)):
                future = _next(done)
                yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()


Q = TypeVar("Q")


def _next(done: queue.SimpleQueue[Q]) -> Q:
    """The next answer; meanwhile Ctrl-C and limits are answered."""
    while True:
        interrupt.check()
        try:
            return done.get(timeout=_LOOK_UP_SECONDS)
        except queue.Empty:
            continue
