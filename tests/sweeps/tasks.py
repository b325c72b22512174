"""What children do in tests of isolation, in place of a search: the option `orders` of a task's own says what."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from fusiest.sweeps.runs.attempt import Outcome, SweepTask, attempt
from fusiest.sweeps.store.store import packed


def misbehave(task: SweepTask) -> Outcome:
    """By the size of the global buffer: use all memory, never end, crash, or do what is asked."""
    nodes = task.spec.require_arch().nodes
    size = next(node.size for node in nodes if getattr(node, "name", "") == "GlobalBuffer")
    if size == 40_001:
        _ = bytearray(40 * 2**30)
    if size == 40_002:
        Path(os.environ["FUSIEST_TEST_LOG"]).write_text(str(os.getpid()), encoding="ascii")
        time.sleep(100_000)
    if size == 40_003:
        os.kill(os.getpid(), signal.SIGSEGV)
    return attempt(task)


def quick(task: SweepTask) -> Outcome:
    """In place of a search, a made-up answer after a moment; leaves a line of what it did in the file that FUSIEST_TEST_LOG names."""
    nodes = task.spec.require_arch().nodes
    size = next(node.size for node in nodes if getattr(node, "name", "") == "GlobalBuffer")
    time.sleep(0.05)
    with open(os.environ["FUSIEST_TEST_LOG"], "a", encoding="ascii") as log:
        log.write(f"{float(str(size)):.0f}\n")
    mapping = {"energy": float(str(size)), "latency": 1.0}
    document = packed(
        {"objective": ["energy"], "mappings": [mapping], "optimal": True, "gap": 0.0, "filler": "x" * 1000}
    )
    return Outcome("done", "", float(str(size)), 1.0, 0.0, document=document)
