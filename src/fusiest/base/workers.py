"""Processes that share work: they leave Ctrl-C to the process that hands it out, and none outlives that process."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from fusiest.base import interrupt

T = TypeVar("T")
_LOOK_UP_SECONDS = 0.1
_MOST_SECONDS_TO_END = 1.0


_work: Callable[[Any], Any] | None = None
"""What a worker does."""


def make_pool(count: int, work: Callable[[Any], Any] | None = None) -> ProcessPoolExecutor:
    """Worker processes that know all that is loaded here, where the system can do that.

    `work`: what `work_on` does there. It is handed over once, with all that it has worked out, not with each argument.
    """
    return ProcessPoolExecutor(count, mp_context=context(), initializer=_begin, initargs=(work,))


def work_on(argument: object) -> Any:
    """In a worker: what its pool was made for."""
    assert _work is not None
    return _work(argument)


def context() -> Any:
    """How processes begin: as forks, which know all that is loaded here, if the system has them."""
    methods = multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("fork" if "fork" in methods else None)


def begin(work: Callable[[], None]) -> BaseProcess | None:
    """A process of its own that does some work and ends, at the latest with this one. None where that is not quickly started."""
    if "fork" not in multiprocessing.get_all_start_methods() or multiprocessing.current_process().daemon:
        return None
    process: BaseProcess = context().Process(target=_do, args=(work,), daemon=True)
    with interrupt.deferred():  # it must not begin with an exception
        process.start()
    return process


def _do(work: Callable[[], None]) -> None:
    _begin()
    work()


def in_order_of_completion(futures: Mapping[Future[T], str]) -> Iterator[tuple[str, Future[T]]]:
    """Futures with their names as they are done; between them, Ctrl-C is answered."""
    finished: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()
    for future in futures:
        future.add_done_callback(finished.put)
    for _ in futures:
        future = _next(finished)
        yield futures[future], future


def _next(finished: queue.SimpleQueue[T]) -> T:
    while True:
        interrupt.check()
        try:
            return finished.get(timeout=_LOOK_UP_SECONDS)
        except queue.Empty:
            continue


def end(pool: ProcessPoolExecutor) -> None:
    """End the workers, whatever they are at.

    One may be in the middle of a result, whose rest the pool's thread would wait for as long as somebody can write it: so we, too,
    let go of that end. Without the thread this process can be forked again.
    """
    processes = list((pool._processes or {}).values())
    internals: Any = pool
    thread, results = internals._executor_manager_thread, internals._result_queue
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()
    if thread is not None:
        results._writer.close()
        thread.join(_MOST_SECONDS_TO_END)


def _begin(work: Callable[[Any], Any] | None = None) -> None:
    global _work  # noqa: PLW0603
    _work = work
    interrupt.work_for_another()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    """What a process hands out may take long, and nobody is left to take it."""
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
