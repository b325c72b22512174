"""The text of files that a user named, or that such files include. Nothing but regular UTF-8 files is read."""

from __future__ import annotations

import os
import stat

from fusiest.base.errors import Source, SpecError

MAX_BYTES = 16_000_000


def text_of_file(path: str | os.PathLike[str], most: int = MAX_BYTES) -> str:
    """The text of a regular UTF-8 file of at most so many bytes. Nothing else is opened for long."""
    name = os.fspath(path)
    data = _read_bytes(name, most)
    if len(data) > most:
        raise SpecError(f"{name}: the file is larger than {most // 1_000_000} MB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError("the file is not UTF-8 text", at=Source(name, line)) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_bytes(name: str, most: int) -> bytes:
    # Without O_NONBLOCK, opening a pipe would wait for its writer.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(name, flags)
        try:
            check_regular(name, os.fstat(descriptor))
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(most + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SpecError(f"{name}: {(error.strerror or 'cannot be read').lower()}") from None
    except ValueError:
        raise SpecError(f"{name!r} is not the name of a file") from None


def check_regular(name: str, status: os.stat_result) -> None:
    """Refuse what is no regular file: reading from a device or a pipe may never end."""
    if not stat.S_ISREG(status.st_mode):
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise SpecError(f"{name}: this is {kind}")
