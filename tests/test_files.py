"""Files are written whole, and only files are replaced."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import fusiest
from fusiest.base.errors import FusiestError
from fusiest.base.files import check_folder, check_writable, write_atomically

HAS_PIPES = pytest.mark.skipif(sys.platform == "win32", reason="no named pipes here")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "result.json"
    write_atomically(target, "old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(FusiestError, match=r"result\.json: cannot be written: No space left on device"):
        write_atomically(target, "new")
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_a_written_file_has_the_usual_permissions(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", "text")
    (tmp_path / "b").write_text("text")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_a_link(there: bool, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    if there:
        target.write_text("old")
    link.symlink_to(Path("folder") / "target")
    check_writable(link)
    write_atomically(link, "new")
    assert (link.is_symlink(), target.read_text()) == (True, "new")


@HAS_PIPES
def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_writable(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write_atomically(pipe, "text")
    reader.join(10)
    assert read == ["text"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@HAS_PIPES
def test_a_file_that_the_program_prints_to_is_added_to(tmp_path: Path) -> None:
    code = "from fusiest.base.files import write_atomically as w; print('one', flush=True); w('/dev/stdout', 'two')"
    with open(tmp_path / "out", "w") as out:
        environment = {**os.environ, "PYTHONPATH": str(Path(fusiest.__file__).parents[1])}
        subprocess.run([sys.executable, "-c", code], env=environment, stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "one\ntwo"


@pytest.mark.parametrize("target", ["none/x", ".", "file/x", "loop", "n" * 300])
def test_what_cannot_be_written_is_known_before(target: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    for write in (check_writable, lambda path: write_atomically(path, "text")):
        with pytest.raises(FusiestError, match="cannot be written: "):
            write(tmp_path / target)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "loop"]


def test_folders_that_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for folder in ("", "new", "new/newer"):
        check_folder(tmp_path / folder)
    for folder in ("file", "file/new"):
        with pytest.raises(FusiestError, match=r"cannot be written: .*file is no folder"):
            check_folder(tmp_path / folder)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(FusiestError, match="is read-only"):
        check_folder(tmp_path / "new")
    with pytest.raises(FusiestError, match="is read-only"):
        check_writable(tmp_path / "new")
