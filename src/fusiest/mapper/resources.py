"""Resources of the machine: processor time and memory that a search uses, and how much there is."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from pathlib import Path

from fusiest.base import interrupt

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


def cpu_seconds() -> float:
    """Processor time of this process and its ended children; where the system does not tell, of this process alone."""
    if resource is None:
        return time.process_time()
    usages = (resource.getrusage(kind) for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak_rss_bytes() -> int:
    """Peak memory of the largest process, this one or an ended child; 0 where the system does not tell."""
    if resource is None:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    whos = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(kind).ru_maxrss for kind in whos) * unit


def rss_bytes() -> float:
    """Memory that this process and its workers have in use together; 0 where the system does not tell.

    What they have in common counts once; in a worker, only what is its own counts. To find that out takes a while: it is
    done now and then, and in between counts what each has taken since.
    """
    pids = (os.getpid(),) if interrupt.is_worker() else _family()
    sizes = sum(map(_rss_of, pids))
    if len(pids) == 1 and not interrupt.is_worker():
        return sizes
    now = time.thread_time()
    if _Common.pids != pids or now > _Common.until:
        begin, count = time.thread_time(), _private_of if interrupt.is_worker() else _share_of
        _Common.pids, _Common.bytes = pids, sizes - sum(map(count, pids))
        now = time.thread_time()
        _Common.until = now + _TIMES_BETWEEN_LOOKS * (now - begin)
    return sizes - _Common.bytes


class _Common:
    """What was found of the memory that processes have in common."""

    pids: tuple[int, ...] = ()
    """The processes."""
    bytes = 0.0
    """What is counted more than once by their sizes."""
    until = 0.0
    """Processor time of this process from which on to look again."""


def _family() -> tuple[int, ...]:
    """This process, and all that it has started, one through the other."""
    pids = [os.getpid()]
    for pid in pids:  # it grows
        with contextlib.suppress(OSError, ValueError):
            for task in os.listdir(f"/proc/{pid}/task"):
                pids += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return tuple(pids)


def _rss_of(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0.0


def _share_of(pid: int) -> float:
    """Memory of a process, of which a page that n processes have counts 1/n."""
    return _summed(pid, b"Pss:")


def _private_of(pid: int) -> float:
    """Memory that a process alone has."""
    return _summed(pid, b"Private_Clean:", b"Private_Dirty:")


def _summed(pid: int, *kinds: bytes) -> float:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            return float(sum(int(line.split()[1]) * 1024 for line in file if line.startswith(kinds)))
    except (OSError, IndexError, ValueError):
        return _rss_of(pid)


def machine_cores() -> int:
    """Cores that this process may use: those of the machine, or of its container."""
    counts = [len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1]
    with contextlib.suppress(OSError, ValueError):  # there is no limit, or it is "max"
        quota, period = map(float, Path(_SHARE_OF_CORES).read_text().split())
        counts.append(math.ceil(quota / period))
    return max(1, min(counts))


def machine_memory() -> float:
    """Bytes of memory of this machine or container; inf if unknown."""
    sizes = [float("inf")]
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            sizes.append(float(Path(limit).read_text()))
        except (OSError, ValueError):  # there is none, or it is "max"
            continue
    with contextlib.suppress(AttributeError, OSError, ValueError):  # Windows
        sizes.append(float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE"))
    return min(sizes)


_TIMES_BETWEEN_LOOKS = 15
"""Processor time between two looks at what processes have in common, in times that a look takes."""
_SHARE_OF_CORES = "/sys/fs/cgroup/cpu.max"
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
