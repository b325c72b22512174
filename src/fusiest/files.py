"""Writing results: a file is whole or absent, never half-written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from fusiest.errors import FusiestError


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Write to a temporary name beside the target, then rename."""
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise FusiestError(f"{target}: cannot be written: {error.strerror}") from None
