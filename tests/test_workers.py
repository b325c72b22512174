"""Pools whose workers are ended."""

from __future__ import annotations

import os
import struct
import threading
import time
from typing import Any

from fusiest.base import workers


def test_a_pool_that_is_ended_in_the_middle_of_a_result() -> None:
    """Its thread waited for the rest of it for ever, and this process with it when it was to end."""
    before = set(threading.enumerate())
    pool: Any = workers.make_pool(1, time.sleep)
    pool.submit(workers.work_on, 60.0)
    results = pool._result_queue
    os.write(results._writer.fileno(), struct.pack("!i", 1_000) + b"a part of a thousand bytes")
    while results._reader.poll():  # until the thread has read that part
        time.sleep(0.01)
    workers.end(pool)
    assert not [t for t in threading.enumerate() if t not in before and t.is_alive()]
