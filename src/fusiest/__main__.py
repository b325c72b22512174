"""The program, also as `python -m fusiest`: from the first line on, Ctrl-C ends in one line."""

from __future__ import annotations

# Before `main` Ctrl-C is Python's own: only what Python has loaded by then is imported here.
import atexit
import gc
import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the working folder, whose files are no part of the program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130


def main() -> None:
    """Run the command line, and end the process."""
    status = 0
    try:
        gc.set_threshold(100_000, 20, 100)  # what is imported is no garbage
        import time

        from fusiest.base import interrupt

        with interrupt.program(time.process_time()):  # which loading has taken
            try:
                with interrupt.deferred():
                    from fusiest.cli import main as run
                run()
            finally:
                interrupt.ignore()
    except KeyboardInterrupt:
        print("fusiest: interrupted", file=sys.stderr)
        _end_at_once(INTERRUPTED)
    except SystemExit as end:
        if isinstance(end.code, str):
            raise
        status = end.code or 0
        if status == INTERRUPTED:
            _end_at_once(INTERRUPTED)
    import threading

    if threading.active_count() == 1:
        atexit._run_exitfuncs()
        _end_at_once(status)
    sys.exit(status)


def _end_at_once(status: int) -> NoReturn:
    """Without waiting for threads and processes, which may be anywhere, nor taking apart what is loaded: that takes 0.2 s."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, AttributeError, ValueError):  # closed, or never there
            continue
    os._exit(status)


if __name__ == "__main__":
    main()
