"""Compiled code is never older than the text it was made from."""

from __future__ import annotations

import errno
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from numba.core.caching import FunctionCache

import fusiest
from fusiest.base.compiled import MODULES, _Elsewhere, compile_elsewhere, compiled

SOURCE = Path(fusiest.__file__).parent
PROGRAM = """
import numpy as np
from fusiest.experiments.baselines.genetic import choose_parents
from fusiest.experiments.baselines.kernels import make_work
print(choose_parents(make_work(1, 1, 1, 1, 1, 1, 1), np.arange(1000.0)), sum(choose_parents.stats.cache_hits.values()))
"""


def test_a_change_in_another_file_is_noticed(tmp_path: Path) -> None:
    """Also if the file keeps its age and its size; and if what was kept names a class that is gone."""
    shutil.copytree(SOURCE, tmp_path / "fusiest", ignore=shutil.ignore_patterns("__pycache__"))
    other = tmp_path / "fusiest" / "experiments" / "baselines" / "kernels.py"

    def run() -> tuple[str, str]:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", PROGRAM]
        out = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        parents, _, hits = out.rpartition(" ")
        return parents, hits.strip()

    parents, _ = run()
    assert run() == (parents, "1")
    status, text = other.stat(), other.read_text()
    assert "return min(int(uniform(w) * n), n - 1)" in text
    other.write_text(text.replace("return min(int(uniform(w) * n), n - 1)", "return min(int(uniform(w) * 1), n - 1)"))
    for file in other.parent.glob("*.py"):
        file.write_text(re.sub(r"\bWork\b", "Wurk", file.read_text()))
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert other.stat().st_size == status.st_size
    assert run() == ("(0, 0)", "0") != (parents, "0")


def test_where_nothing_can_be_written_it_is_compiled_all_the_same() -> None:
    """As in a container whose files are read-only. Numba has no place for code of a file that is not there either."""
    names: dict[str, Callable[[int], int]] = {}
    exec(compile("def double(n): return 2 * n", "/nowhere/loops.py", "exec"), names)
    assert compiled()(names["double"])(21) == 42


def test_a_full_disk_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def full(*_: object) -> None:
        tried.append(1)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FunctionCache, "save_overload", full)
    triple = compiled()(lambda n: 3 * n)
    assert triple(14) == 42
    assert tried


@pytest.fixture
def fourfold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An inner loop of which nothing is kept, while nothing is compiled elsewhere."""
    for name, value in (("sentinel", None), ("caches", ()), ("process", None)):
        monkeypatch.setattr(_Elsewhere, name, value)
    (tmp_path / "little_loops.py").write_text("def fourfold(n):\n    return 4 * n\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield compiled()(importlib.import_module("little_loops").fourfold)
    del sys.modules["little_loops"]


def test_what_another_process_compiles_is_loaded(fourfold: Any) -> None:
    def use() -> None:
        fourfold(1)

    compile_elsewhere([fourfold], use)
    assert fourfold(10) == 40
    assert sum(fourfold.stats.cache_hits.values()) == (1 if _Elsewhere.process else 0)
    again = _Elsewhere.process
    compile_elsewhere([fourfold], use)  # it is kept by now
    assert _Elsewhere.process is again


def test_if_the_other_process_fails_it_is_compiled_here(fourfold: Any) -> None:
    compile_elsewhere([fourfold], lambda: os._exit(1))
    assert fourfold(10) == 40
    assert not fourfold.stats.cache_hits


def test_all_inner_loops_are_in_these_modules() -> None:
    listed = {file for pattern in MODULES for file in SOURCE.glob(pattern)}
    using = {file for file in SOURCE.rglob("*.py") if "@compiled(" in file.read_text() or "@kernel" in file.read_text()}
    assert using - {SOURCE / "compiled.py"} <= listed
    assert not [file for file in SOURCE.rglob("*.py") if "njit" in file.read_text() and file.name != "compiled.py"]
