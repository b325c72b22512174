"""Several processes that join together.

A helper is a fork of this process, made in the middle of a search, when there is enough to do. From there on it goes through
the same search, step by step: a search depends on nothing but its problem. Only the work of each level is shared out, in
pieces: whoever is free takes the next. Then all tell each other what they have joined, and go on with the same partial mappings.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from multiprocessing.connection import Connection, Pipe
from typing import NamedTuple

from fusiest.base import interrupt

MOST_PROCESSES = 4
"""What is not shared out all of them do: more hardly help."""
WORTH_SECONDS = 0.1
"""After so long in joins, it is likely that much is left to do."""
_SECONDS_BETWEEN_CHECKS = 0.02
_TOKEN = 4
"""Bytes."""
_NO_MORE = (1 << 8 * _TOKEN) - 1
Check = Callable[[], None]
"""Called often; raises to stop a pass."""


class _Helper(NamedTuple):
    pid: int
    line: Connection


class Crew:
    """This process and its helpers, if any; or a helper's view of that."""

    def __init__(self, processes: int, has_room: Callable[[int], bool]) -> None:
        self.processes, self.has_room = processes, has_room
        self.helpers: list[_Helper] = []
        self.number = 0
        """Of this process among all; 0 is the leader."""
        self.tokens: list[tuple[int, int]] = []
        """For each a pipe with the numbers of pieces that nobody has taken: the ends to read from and to write to."""
        self.leader: tuple[int, Connection] | None = None
        """In a helper: who began."""
        self.busy = 0.0
        """Seconds in joins so far."""

    @property
    def size(self) -> int:
        """How many are at work."""
        return len(self.tokens) or 1

    @contextlib.contextmanager
    def joining(self) -> Iterator[None]:
        """A level's joins. Before them helpers may be made, or let go, if memory runs short."""
        if self.helpers and not self.has_room(self.processes):
            self.dismiss()
        elif self.size == 1 and self.busy > WORTH_SECONDS and can_fork() and self.has_room(2 * self.processes):
            self._fork()
        begin = time.perf_counter()
        yield
        self.busy += time.perf_counter() - begin

    def share_out(self, owners: Sequence[int]) -> Iterator[int]:
        """Numbers of pieces for this process to do: each goes to one of all. `owners`: of each piece, whose it is at first.

        Who has done all his own goes on with those of others.
        """
        if self.leader is None:
            for owner, (_, sink) in enumerate(self.tokens):
                numbers = [n for n, first in enumerate(owners) if first == owner] + [_NO_MORE] * self.size
                os.write(sink, b"".join(n.to_bytes(_TOKEN, "little") for n in numbers))
        for source, _ in [*self.tokens[self.number :], *self.tokens[: self.number]]:
            while (number := int.from_bytes(_read(source), "little")) != _NO_MORE:
                yield number

    def exchange(self, head: bytes, message: bytes, check: Check) -> list[bytes]:
        """The messages of all others. `head` is the same for all, unless something is wrong.

        If so, or if a helper is gone, the leader goes on alone, with what messages there are.
        """
        if self.leader is not None:
            return _told_and_heard(self.leader[1], head, message)
        messages: list[bytes] = []
        try:
            for _, line in self.helpers:
                while not line.poll(_SECONDS_BETWEEN_CHECKS):
                    check()
                if line.recv_bytes() != head:
                    self.dismiss()
                    return []
                messages.append(line.recv_bytes())
            for i, (_, line) in enumerate(self.helpers):
                line.send([message, *messages[:i], *messages[i + 1 :]])
        except (EOFError, OSError):
            self.dismiss()
        return messages

    def dismiss(self) -> None:
        """End all helpers, whatever they are at."""
        for pid, line in self.helpers:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.waitpid(pid, 0)
            line.close()
        for end in itertools.chain.from_iterable(self.tokens):
            os.close(end)
        self.helpers, self.tokens, self.processes = [], [], 1

    def _fork(self) -> None:
        """Make helpers."""
        self.tokens = [os.pipe() for _ in range(min(self.processes, MOST_PROCESSES))]
        parent = os.getpid()
        try:
            for number in range(1, self.size):
                leader_end, helper_end = Pipe()
                with warnings.catch_warnings():  # of threads of libraries that joining does not use
                    warnings.simplefilter("ignore", DeprecationWarning)
                    pid = os.fork()
                if pid == 0:
                    self.helpers, self.leader, self.number = [], (parent, helper_end), number
                    leader_end.close()
                    for _, sink in self.tokens:
                        os.close(sink)
                    interrupt.ignore()
                    return
                helper_end.close()
                self.helpers.append(_Helper(pid, leader_end))
        except OSError:  # no room for more
            self.dismiss()


def _read(source: int) -> bytes:
    """The next token. If the leader is gone, a helper ends here."""
    token = os.read(source, _TOKEN)
    if not token:
        os._exit(1)
    return token


def _told_and_heard(line: Connection, head: bytes, message: bytes) -> list[bytes]:
    """A helper's part of an exchange."""
    try:
        line.send_bytes(head)
        line.send_bytes(message)
        heard: list[bytes] = line.recv()
    except (EOFError, OSError):
        os._exit(1)
    return heard


def can_fork() -> bool:
    """Whether a fork of this process can go on as this one does: what other threads are at would be lost."""
    return sys.platform == "linux" and threading.active_count() == 1


_CREW: ContextVar[Crew | None] = ContextVar("crew", default=None)


@contextlib.contextmanager
def together(processes: int, has_room: Callable[[int], bool]) -> Iterator[None]:
    """A block in which levels are joined by several processes, where that pays. Helpers never leave it.

    `has_room`: whether so many processes like this one have room in memory.
    """
    crew = Crew(processes, has_room) if processes > 1 else None
    token = _CREW.set(crew)
    try:
        yield
    finally:
        if crew is not None and crew.leader is not None:
            os._exit(0)
        _CREW.reset(token)
        if crew is not None:
            crew.dismiss()


def current() -> Crew | None:
    """Who joins here, if it is not this process alone."""
    return _CREW.get()


def is_helper() -> bool:
    """Whether this process is a helper. If the leader is gone, it ends here."""
    crew = _CREW.get()
    if crew is None or crew.leader is None:
        return False
    if os.getppid() != crew.leader[0]:
        os._exit(1)
    return True
