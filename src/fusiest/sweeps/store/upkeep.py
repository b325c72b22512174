"""Looking after a store: check, collect garbage, merge, export. Nothing here is needed to use one."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from fusiest.base.errors import shown
from fusiest.base.files import make_folder, write_atomically
from fusiest.base.frames import DataTable
from fusiest.sweeps.store.store import COVERED, DONE, OBJECTS, Store
from fusiest.sweeps.store.verify import complaint, row_complaint

_OLD_SECONDS = 3600.0
"""A file that is half written, or whose row should have come, is garbage after so long."""
_SILENT_SECONDS = 60.0
"""A sweep that has said nothing for so long has ended."""


def check_store(store: Store, evaluate: bool = True) -> list[str]:
    """What is wrong with a store, a line each. `evaluate`: also whether each mapping costs what its result says."""
    check = complaint if evaluate else row_complaint
    with store._explained():
        lines = [str(row[0]) for row in store.database.execute("PRAGMA integrity_check")]
    complaints = [f"table: {line}" for line in lines if line != "ok"]
    complaints += [f"run {shown(row.hash)[:12]}: its row is none that fusiest wrote" for row in store.unsound()]
    return complaints + [f"run {row.hash[:12]}: {wrong}" for row in store.rows() if (wrong := check(store, row))]


def collect_garbage(store: Store) -> tuple[int, int]:
    """Remove runs without their results, files that no run refers to, and failures. (runs, files) that are gone."""
    damaged, freed = set[str](), set[str]()
    for row in store.rows():
        if row.status not in (DONE, COVERED) or complaint(store, row):
            damaged.add(row.hash)
            freed.add(row.object)
    gone = {row.source for row in store.rows() if row.source and store.get(row.source) is None} | damaged
    removed = [row.hash for row in store.rows() if row.hash in damaged or row.source in gone]
    removed += [row.hash for row in store.unsound()]
    with store._explained(), store.transaction():
        store.database.executemany("DELETE FROM runs WHERE hash = ?", [(run,) for run in removed])
        store.database.execute("DELETE FROM requests WHERE hash NOT IN (SELECT hash FROM runs)")
    names, under_way = list(store.objects()), _is_under_way(store)
    unused = set(names) - {row.object for row in store.rows()}
    files = [store._path(n) for n in names if n in unused and (n in freed or not under_way or _is_old(store._path(n)))]
    files += [path for path in (store.folder / OBJECTS).glob("??/.fusiest-*.tmp") if _is_old(path)]
    for path in files:
        with contextlib.suppress(OSError):
            path.unlink()
    with contextlib.suppress(sqlite3.Error):
        store.database.execute("VACUUM")
    return len(removed), len(files)


def _is_under_way(store: Store) -> bool:
    """Whether a sweep uses the store: it may have written results whose rows are still to come."""
    return any(state.get("running") and time.time() - _seconds(state) < _SILENT_SECONDS for state in store.states())


def _seconds(state: dict[str, Any]) -> float:
    time_said = state.get("time")
    return time_said if isinstance(time_said, (int, float)) else 0.0


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > _OLD_SECONDS
    except OSError:  # gone meanwhile
        return False


class Merged(NamedTuple):
    """Runs of another store that were taken over, and those that were not."""

    taken: int
    """How many were taken over."""
    refused: list[str]
    """A line for each run that was left out: its row is unsound, or its result does not confirm it."""


def merge_stores(target: Store, other: Store) -> Merged:
    """Take over what another store has and this one has not."""
    count, refused = 0, [f"run {shown(row.hash)[:12]}: its row is none that fusiest wrote" for row in other.unsound()]
    # Runs that cover others come before those that they cover.
    for row in sorted(other.rows(), key=lambda row: bool(row.source)):
        present = target.get(row.hash)
        is_known = present is not None and present.status in (DONE, COVERED) and not target.lost(present)
        if is_known or (present is not None and row.status not in (DONE, COVERED)):
            continue
        wrong = row_complaint(other, row) or (row_complaint(target, row) if row.source else "")
        if wrong:
            refused.append(f"run {row.hash[:12]}: {wrong}")
            continue
        data = other.read(row.object) if row.object else None
        target.put(replace(row, object=""), data)
        count += 1
    with other._explained():
        requests = other.database.execute("SELECT request, hash FROM requests").fetchall()
    new = [(request, run) for request, run in requests if target.requested(request) is None]
    target.answer((request, run) for request, run in new if target.get(run) is not None)
    return Merged(count, refused)


def export_store(store: Store, folder: str | Path) -> int:
    """Every run as a line of `runs.csv`, and every result as the JSON file that `fusiest map --json` writes."""
    columns = ("hash", "status", "reason", "energy", "latency", "gap", "cpu_seconds", "wall_seconds", "peak_bytes",
               "source", "version", "created")  # fmt: skip
    rows = []
    make_folder(folder)
    for row in store.rows():
        rows.append(tuple(getattr(row, name) for name in columns))
        document = store.document(row) if not row.source else None
        if document is not None:
            text = json.dumps(document, indent=1) + "\n"
            write_atomically(Path(folder) / f"{row.hash[:16]}.json", text)
    write_atomically(Path(folder) / "runs.csv", DataTable(columns, rows).to_csv())
    return len(rows)
