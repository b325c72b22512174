"""Resources of the machine: processor time and memory that a search uses, and how much there is."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from pathlib import Path

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
    """Memory that this process has in use; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0.0


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


_SHARE_OF_CORES = "/sys/fs/cgroup/cpu.max"
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
