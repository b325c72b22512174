"""What a search has used of the machine: processor time, and memory at most."""

from __future__ import annotations

import sys
import time

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


def cpu_seconds() -> float:
    """Of this process and those it has waited for; where the system does not tell, of this one alone."""
    if resource is None:
        return time.process_time()
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak_rss_bytes() -> int:
    """Of the largest process: this one, or one that it has waited for; 0 where the system does not tell."""
    if resource is None:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    whos = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(who).ru_maxrss for who in whos) * unit
