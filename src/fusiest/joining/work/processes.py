"""Worker processes that join together.

A helper is a fork of this process, made in the middle of a search, when there is enough to do. From there on it goes
through the same search, step by step, because a search depends on nothing but its problem. Only the joins of each level
are shared out, in pieces: a process that is free takes the next piece. Then all processes exchange the joined rows, and
go on with the same partial mappings.
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
"""Most processes of a search: work that is not shared out is done by each of them, so more hardly help."""
WORTH_SECONDS = 0.1
"""Seconds in joins after which the search forks: much is then likely left to do."""
_SECONDS_BETWEEN_CHECKS = 0.02
_TOKEN = 4
"""Bytes of a piece's number in a pipe."""
_NO_MORE = (1 << 8 * _TOKEN) - 1
Check = Callable[[], None]
"""A function that is called often and raises to stop a pass."""


class _Helper(NamedTuple):
    pid: int
    line: Connection


class Crew:
    """This process and its helpers; in a helper, its view of them."""

    def __init__(self, processes: int, has_room: Callable[[int], bool]) -> None:
        self.processes, self.has_room = processes, has_room
        self.helpers: list[_Helper] = []
        self.number = 0
        """Number of this process; 0 is the leader."""
        self.tokens: list[tuple[int, int]] = []
        """Per process, a pipe with the numbers of pieces that are not taken: its ends to read from and to write to."""
        self.leader: tuple[int, Connection] | None = None
        """Process id of the leader and the connection to it; None in the leader."""
        self.busy = 0.0
        """Seconds in joins so far."""

    @property
    def size(self) -> int:
        """Number of processes at work."""
        return len(self.tokens) or 1

    @contextlib.contextmanager
    def joining(self) -> Iterator[None]:
        """Run a level's joins in this block. On entry, helpers may be forked, or dismissed if memory runs short."""
        if self.helpers and not self.has_room(self.processes):
            self.dismiss()
        elif self.size == 1 and self.busy > WORTH_SECONDS and can_fork() and self.has_room(2 * self.processes):
            self._fork()
        begin = time.perf_counter()
        yield
        self.busy += time.perf_counter() - begin

    def share_out(self, owners: Sequence[int]) -> Iterator[int]:
        """Numbers of the pieces for this process: each piece goes to one process.

        `owners`: the process that each piece is first meant for.

        A process that has done all its own pieces goes on with those of others.
        """
        if self.leader is None:
            for owner, (_, sink) in enumerate(self.tokens):
                numbers = [n for n, first in enumerate(owners) if first == owner] + [_NO_MORE] * self.size
                os.write(sink, b"".join(n.to_bytes(_TOKEN, "little") for n in numbers))
        for source, _ in [*self.tokens[self.number :], *self.tokens[: self.number]]:
            while (number := int.from_bytes(_read(source), "little")) != _NO_MORE:
                yield number

    def exchange(self, head: bytes, message: bytes, check: Check) -> list[bytes]:
        """Exchange messages with all other processes. `head` is the same for all, unless something is wrong.

        If a head differs or a helper is gone, the leader goes on alone with the messages it has.
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
        """End all helpers, whatever they are doing."""
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
        """Fork the helpers."""
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
    """Read the next token. If the leader is gone, a helper ends here."""
    token = os.read(source, _TOKEN)
    if not token:
        os._exit(1)
    return token


def _told_and_heard(line: Connection, head: bytes, message: bytes) -> list[bytes]:
    """Run a helper's part of an exchange."""
    try:
        line.send_bytes(head)
        line.send_bytes(message)
        heard: list[bytes] = line.recv()
    except (EOFError, OSError):
        os._exit(1)
    return heard


def can_fork() -> bool:
    """Whether a fork of this process can go on as this one does: work of other threads would be lost."""
    return sys.platform == "linux" and threading.active_count() == 1


_CREW: ContextVar[Crew | None] = ContextVar("crew", default=None)


@contextlib.contextmanager
def together(processes: int, has_room: Callable[[int], bool]) -> Iterator[None]:
    """Join levels in several processes within this block, where that pays. Helpers never leave the block.

    `has_room`: whether this many processes like this one fit into memory.
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
    """The crew that joins here, if this process is not alone."""
    return _CREW.get()


def is_helper() -> bool:
    """Whether this process is a helper. If the leader is gone, it ends here."""
    crew = _CREW.get()
    if crew is None or crew.leader is None:
        return False
    if os.getppid() != crew.leader[0]:
        os._exit(1)
    return True
