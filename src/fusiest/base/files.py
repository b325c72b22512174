"""Writing results: a file is whole or absent, never half-written."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from fusiest.base.errors import FusiestError

_STREAMS = (1, 2)


def write_atomically(path: str | Path, content: str | bytes, durably: bool = True) -> None:
    """Write to a temporary name beside the target, then rename. `durably`: it also survives a power failure from now on.

    A link stays one: what it points to is written. A device or a pipe is written to, never replaced.
    """
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    try:
        if is_replaceable(path):
            _replace(os.path.realpath(path), data, durably)
        else:
            with open(path, "ab") as stream:
                stream.write(data)
    except OSError as error:
        raise _unwritable(path, error) from None


def make_folder(folder: str | Path) -> None:
    """The folder and those around it, as far as they are not there."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise FusiestError(f"{folder}: cannot be made: {error.strerror}") from None


def make_durable(path: str | Path) -> None:
    """A file that is there survives a power failure from now on."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def check_writable(path: str | Path) -> None:
    """Raise if `write_atomically` would fail, as far as that can be known before; nothing is written."""
    try:
        if is_replaceable(path):
            _check_folder(path, Path(os.path.realpath(path)).parent)
        elif Path(path).is_dir():
            raise FusiestError(f"{path}: cannot be written: it is a folder")
        elif not os.access(path, os.W_OK):
            raise FusiestError(f"{path}: cannot be written: permission denied")
    except OSError as error:
        raise _unwritable(path, error) from None


def check_folder(path: str | Path) -> None:
    """Raise if no files can be written into this folder, which need not be there yet."""
    try:
        folder = Path(path).absolute()
        while not os.path.lexists(folder):
            folder = folder.parent
        _check_folder(path, folder)
    except OSError as error:
        raise _unwritable(path, error) from None


def is_replaceable(path: str | Path) -> bool:
    """Whether it is a regular file or none yet, and not what this program prints to."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return True
    return stat.S_ISREG(status.st_mode) and not any(_is_stream(status, number) for number in _STREAMS)


def _is_stream(status: os.stat_result, number: int) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(status, os.fstat(number))
    return False


def _check_folder(path: str | Path, folder: Path) -> None:
    if not folder.is_dir() and os.path.lexists(folder):
        raise FusiestError(f"{path}: cannot be written: {folder} is no folder")
    if not folder.is_dir():
        raise FusiestError(f"{path}: cannot be written: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FusiestError(f"{path}: cannot be written: {folder} is read-only")


def _unwritable(path: str | Path, error: OSError) -> FusiestError:
    return FusiestError(f"{path}: cannot be written: {error.strerror}")


def _replace(target: str, data: bytes, durably: bool) -> None:
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".fusiest-", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durably:
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
