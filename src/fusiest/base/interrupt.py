"""What ends a search early: Ctrl-C, a time limit, a memory limit; each answered where a search can stop.

An exception that a signal raises in the middle of compiled code, or while compiled modules are imported, ends as somebody
else's error or gets lost. So nothing is raised inside `deferred`: a search calls `check` between its steps.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType

EXIT_STATUS = 130
_AT_ONCE_SECONDS = 0.3
"""Programs that start us may pass on a Ctrl-C that we have got already: so soon after the first, it is the same one."""


_SECONDS_BETWEEN_LOOKS = 0.05
"""At the memory in use: that takes longer than a look at the clock."""
_MANY_BYTES = 1 << 20
"""Bytes for which the memory in use is looked at in any case."""


Check = Callable[[], None]
"""A function that is called often and raises to stop a search."""


class OutOfTime(Exception):
    """The time limit was reached."""


@dataclass
class _Ends:
    deadline: float | None
    memory: float | None
    """Bytes."""
    in_use: Callable[[], float]
    next_look: float = 0.0

    def check(self, coming: float) -> None:
        now = time.perf_counter()
        if self.deadline is not None and now > self.deadline:
            raise OutOfTime
        if self.memory is not None and (now > self.next_look or coming > _MANY_BYTES):
            self.next_look = now + _SECONDS_BETWEEN_LOOKS
            if self.in_use() + coming > self.memory:
                raise MemoryError


_LIMITS: ContextVar[_Ends | None] = ContextVar("limits", default=None)


class _KeyNote:
    """What is known about Ctrl-C in this process."""

    depth = 0
    """How many `deferred` blocks are open."""
    pressed = False
    since: float | None = None
    """When it was first pressed in the outermost block."""
    finishing = False
    """Whether what was found is being brought home."""
    is_program = False
    """Whether the process is ours to end."""
    is_worker = False
    began = 0.0
    """When the program did."""


def check(coming: float = 0.0) -> None:
    """Stop here if Ctrl-C was pressed, or a limit is passed, or would be by `coming` bytes that are taken next."""
    if _KeyNote.finishing:
        return
    if _KeyNote.pressed:
        _KeyNote.pressed = False
        raise KeyboardInterrupt
    limits = _LIMITS.get()
    if limits is not None:
        limits.check(coming)


@contextlib.contextmanager
def limited(
    deadline: float | None = None, memory: float | None = None, in_use: Callable[[], float] = lambda: 0.0
) -> Iterator[None]:
    """A block in which `check` raises OutOfTime after a moment of `time.perf_counter`, and MemoryError once more than so many
    bytes are in use. The moment of a block around it counts inside, too, if it comes earlier; so does its limit of memory,
    unless there is another."""
    around = _LIMITS.get()
    if around is not None and around.deadline is not None:
        deadline = around.deadline if deadline is None else min(deadline, around.deadline)
    if around is not None and memory is None:
        memory, in_use = around.memory, around.in_use
    token = _LIMITS.set(_Ends(deadline, memory, in_use))
    try:
        yield
    finally:
        _LIMITS.reset(token)


def taken() -> bool:
    """Whether Ctrl-C was pressed since the last answer. The caller answers it."""
    pressed, _KeyNote.pressed = _KeyNote.pressed, False
    return pressed


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """A block in which Ctrl-C raises nothing but in `check`, and at the latest at the end. Pressed once more, it ends all."""
    ours = _KeyNote.depth == 0 and _is_unhandled()
    if ours:
        signal.signal(signal.SIGINT, _handle)
    if _KeyNote.depth == 0:
        _KeyNote.pressed, _KeyNote.since = False, None
    _KeyNote.depth += 1
    try:
        yield
    finally:
        _KeyNote.depth -= 1
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if _KeyNote.depth == 0:
        check()


@contextlib.contextmanager
def finishing() -> Iterator[None]:
    """A block in which `check` lets everything pass: a search is over, and what it found is brought home."""
    before, _KeyNote.finishing = _KeyNote.finishing, True
    try:
        yield
    finally:
        _KeyNote.finishing = before


@contextlib.contextmanager
def program(seconds: float = 0.0) -> Iterator[None]:
    """For the whole of a program, which has run for so long: Ctrl-C that is pressed twice ends the process."""
    ours, outermost = _is_unhandled(), not _KeyNote.is_program
    if outermost:
        _KeyNote.is_program, _KeyNote.began = True, time.perf_counter() - seconds
    if ours:
        signal.signal(signal.SIGINT, _handle)
    try:
        yield
    finally:
        _KeyNote.is_program = not outermost
        if ours and signal.getsignal(signal.SIGINT) is _handle:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def program_seconds() -> float:
    """How long the program has been running; 0 outside of one."""
    return time.perf_counter() - _KeyNote.began if _KeyNote.is_program else 0.0


def program_seconds_left(limit: float) -> float:
    """What is left of a time limit that counts from when the program was started."""
    return max(limit - program_seconds(), 0.0)


def work_for_another() -> None:
    """From here on another process hands out the work that this one does, and answers Ctrl-C."""
    _KeyNote.is_worker = True
    ignore()


def is_worker() -> bool:
    """Whether another process hands out the work that this one does."""
    return _KeyNote.is_worker


def ignore() -> None:
    """From here on Ctrl-C means nothing: in a worker, and where a program ends."""
    _KeyNote.pressed = False
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _is_unhandled() -> bool:
    """Whether Python's own handler is in place, so that ours may be: not in a thread, nor where others handle Ctrl-C."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _handle(number: int, frame: FrameType | None) -> None:
    now = time.monotonic()
    if not _KeyNote.depth:
        raise KeyboardInterrupt
    if _KeyNote.since is None:
        _KeyNote.pressed, _KeyNote.since = True, now
    elif now - _KeyNote.since > _AT_ONCE_SECONDS:
        if not _KeyNote.is_program:
            raise KeyboardInterrupt
        with contextlib.suppress(OSError):
            os.write(2, b"\nfusiest: interrupted\n")
        os._exit(EXIT_STATUS)
