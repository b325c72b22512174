"""The program, also as `python -m fusiest`: from the first line on, Ctrl-C ends in one line."""

import os
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line, and end the process."""
    try:
        from fusiest import interrupt

        with interrupt.program():
            try:
                with interrupt.deferred():
                    from fusiest.cli import main as run
                run()
            finally:
                interrupt.ignore()
    except KeyboardInterrupt:
        print("fusiest: interrupted", file=sys.stderr)
        _end_at_once()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _end_at_once()
        raise


def _end_at_once() -> None:
    """Without waiting for threads and processes, which may be anywhere."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, AttributeError):  # closed, or never there
            continue
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
