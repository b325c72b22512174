"""A folder of finished runs: a table in SQLite, and each result as a compressed file beside it.

A run goes by the hash of its canonical form. A result's file is whole or absent (it is written beside and renamed), and its row
is written after it, in one transaction: whoever is killed at whatever time leaves a store that can be read and gone on with.
Files are made to survive a power failure some at a time; until then the table has their names, and who opens it looks at them.
Only the process that hands runs out writes; several such processes may share a store.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from fusiest.base.errors import FusiestError
from fusiest.base.files import make_durable, make_folder, write_atomically
from fusiest.base.jsontext import read_json
from fusiest.sweeps.store.unpacking import MOST_BYTES, storable, table_of, unpacked

DONE, COVERED = "done", "covered"
STATUSES = (DONE, COVERED, "no valid mapping", "time limit", "out of memory", "killed", "internal error", "bad design")
FILE, OBJECTS, FORMAT = "runs.sqlite", "objects", 1
_SECONDS = 60.0
_SETTLE_SECONDS, _SETTLE_FILES = 0.5, 64
"""After so long, or so many, files are made to survive a power failure: together they take little longer than one."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    hash TEXT PRIMARY KEY, family TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL,
    energy REAL, latency REAL, gap REAL, time_limit REAL, cpu_seconds REAL NOT NULL, wall_seconds REAL NOT NULL,
    peak_bytes INTEGER NOT NULL, source TEXT NOT NULL, object TEXT NOT NULL, figures BLOB NOT NULL,
    version TEXT NOT NULL, created TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS families ON runs (family);
CREATE TABLE IF NOT EXISTS requests (request TEXT PRIMARY KEY, hash TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sweeps (sweep TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;
"""
_IS_EMPTY = "SELECT EXISTS (SELECT 1 FROM runs) + EXISTS (SELECT 1 FROM sweeps)"
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
_UNSETTLED = "CREATE TABLE IF NOT EXISTS unsettled (object TEXT PRIMARY KEY) WITHOUT ROWID"


@dataclass(frozen=True)
class RunRow:
    """One run: what became of it and what it cost. Energy and latency are those of its best mapping."""

    hash: str
    family: str
    status: str
    """`done`, `covered` (another run's proof holds here), or why nothing is proven: `no valid mapping`, `time limit`, `out of memory`,
    `killed`, `internal error`, `bad design`."""
    reason: str = ""
    energy: float | None = None
    latency: float | None = None
    gap: float | None = None
    """How much better a mapping may be; 0 if it is proven optimal."""
    time_limit: float | None = None
    """The time limit that ended a run."""
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    peak_bytes: int = 0
    source: str = ""
    """The hash of the run that was searched, if this one is covered by it."""
    object: str = ""
    """The name of the result's file: the SHA-256 of what is in it."""
    figures: bytes = b""
    version: str = ""
    created: str = ""

    @property
    def found(self) -> bool:
        """Whether there is a mapping."""
        return self.energy is not None

    @property
    def costs(self) -> tuple[float, float] | None:
        """Energy and latency, if there is a mapping."""
        return None if self.energy is None or self.latency is None else (self.energy, self.latency)

    @property
    def proven(self) -> bool:
        """Whether the result is the optimum."""
        return self.status in (DONE, COVERED) and self.gap == 0

    @property
    def is_sound(self) -> bool:
        """Whether every field has the type and the range that this program writes; a store may come from anywhere."""
        texts = (self.family, self.status, self.reason, self.version, self.created)
        names = (name for name in (self.hash, self.source, self.object) if name != "")
        costs = (self.energy, self.latency, self.gap, self.time_limit)
        numbers = (self.cpu_seconds, self.wall_seconds, self.peak_bytes, *(cost for cost in costs if cost is not None))
        return (
            all(isinstance(text, str) for text in texts)
            and all(isinstance(name, str) and _NAME.fullmatch(name) is not None for name in names)
            and all(isinstance(number, (int, float)) and 0 <= number < math.inf for number in numbers)
            and isinstance(self.figures, bytes)
            and self.status in STATUSES
            and (self.energy is None) == (self.latency is None)
            and (self.gap is None or self.gap <= 1)
        )


_NAME = re.compile("[0-9a-f]{64}")
_COLUMNS = [f.name for f in fields(RunRow)]
_REQUESTED = f"SELECT {', '.join('runs.' + c for c in _COLUMNS)} FROM requests JOIN runs USING (hash) WHERE request = ?"


class Store:
    """A store in a folder, which is made if it is not there. Use it in a `with`, or `close` it.

    Where nothing may be written, what is there can be read, unless it was to be made (`create`).
    """

    def __init__(self, folder: str | Path, create: bool = True) -> None:
        self.folder = Path(folder)
        self._objects = str(self.folder / OBJECTS)
        self._is_new = not (self.folder / FILE).exists()
        self._made = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        self._unsettled: list[str] = []
        if not create and not (self.folder / FILE).is_file():
            raise FusiestError(f"{folder}: no store (it has no {FILE})")
        self._since = 0.0
        if not create and not os.access(folder, os.W_OK):
            with self._explained():
                self.database = self._to_read()
            return
        if not self._is_new:  # before anything is written
            with self._explained(), contextlib.closing(sqlite3.connect(self.folder / FILE, timeout=_SECONDS)) as found:
                self._version(found)
        try:
            (self.folder / OBJECTS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FusiestError(f"{folder}: cannot be a store: {error.strerror}") from None
        with self._explained():
            self.database = sqlite3.connect(self.folder / FILE, timeout=_SECONDS, isolation_level=None)
            self.database.execute("PRAGMA journal_mode = WAL")
            self.database.execute("PRAGMA synchronous = NORMAL")
            if self._version(self.database) == 0:
                self.database.executescript(_SCHEMA)
                self.database.execute(f"PRAGMA user_version = {FORMAT}")
        self._settle_others()

    def _version(self, database: sqlite3.Connection) -> int:
        version = int(database.execute("PRAGMA user_version").fetchone()[0])
        if version not in (0, FORMAT):
            raise FusiestError(f"{self.folder}: a store of another version of fusiest (format {version})")
        if version == 0 and {name for (name,) in database.execute(_TABLES)} - {
            "runs",
            "requests",
            "sweeps",
            "unsettled",
        }:
            raise FusiestError(f"{self.folder}: no store ({FILE} is a table of something else)")
        return version

    def _to_read(self) -> sqlite3.Connection:
        """The table, to read only. Without a log beside it nobody writes: SQLite need not make one."""
        path = (self.folder / FILE).absolute()
        how = "mode=ro" if path.with_name(f"{FILE}-wal").exists() else "immutable=1"
        database = sqlite3.connect(f"{path.as_uri()}?{how}", uri=True, timeout=_SECONDS, isolation_level=None)
        self._version(database)
        return database

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the table; what is written is written."""
        with contextlib.suppress(FusiestError):
            self.settle()
        nothing_kept = False
        with contextlib.suppress(sqlite3.Error):
            nothing_kept = self._is_new and self.database.execute(_IS_EMPTY).fetchone() == (0,)
            self.database.close()
        if nothing_kept and not (self.folder / f"{FILE}-wal").exists():  # nor does another process have it open
            self._remove_made()

    def _remove_made(self) -> None:
        """Leave nothing behind, if nothing was kept: bad input, or a plan alone."""
        with contextlib.suppress(OSError):
            (self.folder / FILE).unlink()
            (self.folder / OBJECTS).rmdir()
            for path in self._made:
                path.rmdir()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """What SQLite complains of, in a line."""
        try:
            yield
        except sqlite3.Error as error:
            raise FusiestError(f"{self.folder}: the store cannot be used: {error}") from None

    def __len__(self) -> int:
        with self._explained():
            return int(self.database.execute("SELECT count(*) FROM runs").fetchone()[0])

    def get(self, run: str) -> RunRow | None:
        """A run by its hash."""
        with self._explained():
            row = self.database.execute(f"SELECT {', '.join(_COLUMNS)} FROM runs WHERE hash = ?", (run,)).fetchone()
        return _sound(row)

    def rows(self, family: str | None = None) -> Iterator[RunRow]:
        """All runs, or those of a family, that are sound."""
        condition, values = ("WHERE family = ?", (family,)) if family is not None else ("ORDER BY hash", ())
        return (row for row in self._all_rows(condition, values) if row.is_sound)

    def unsound(self) -> list[RunRow]:
        """Rows with fields that this program does not write: no run."""
        return [row for row in self._all_rows("", ()) if not row.is_sound]

    def _all_rows(self, condition: str, values: Sequence[str]) -> Iterator[RunRow]:
        with self._explained():
            for row in self.database.execute(f"SELECT {', '.join(_COLUMNS)} FROM runs {condition}", values):
                yield RunRow(*row)

    def put(self, row: RunRow, document: bytes | None = None) -> RunRow:
        """Keep a run: its result's file first, then its row. A proven result never gives way to one that is not."""
        if document is not None:
            row = replace(row, object=write_object(self.folder, document, durably=False))
            self._since = self._since if self._unsettled else time.monotonic()
            self._unsettled.append(row.object)
        values = [storable(getattr(row, name)) for name in _COLUMNS]
        with self._explained(), self.transaction():
            if document is not None:
                self.database.execute("INSERT OR IGNORE INTO unsettled VALUES (?)", (row.object,))
            present = self.get(row.hash)
            # A run that another process has finished meanwhile stays: the first answer is the answer.
            if present is None or present.status not in (DONE, COVERED) or self.lost(present):
                self.database.execute(f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * len(values))})", values)
        return row

    def settle(self, later: bool = False) -> None:
        """Let results survive a power failure; of those that did not survive one, the runs are forgotten.

        `later`: unless that can wait.
        """
        names, age = self._unsettled, time.monotonic() - self._since
        if not names or (later and len(names) < _SETTLE_FILES and age < _SETTLE_SECONDS):
            return
        self._unsettled, failed = [], {}
        for name in names:
            try:
                make_durable(self._path(name))
            except OSError as error:
                failed[name] = error.strerror
        self._settled(names, list(failed))
        for name, reason in failed.items():
            raise FusiestError(f"{self._path(name)}: cannot be written: {reason}")

    def _settle_others(self) -> None:
        """What whoever used the store before has not settled."""
        with self._explained():
            self.database.execute(_UNSETTLED)
            names = [str(row[0]) for row in self.database.execute("SELECT object FROM unsettled")]
        if names:
            self._unsettled = [name for name in names if self.read(name) is not None]
            self._settled([], [name for name in names if name not in set(self._unsettled)])
            self.settle()

    def _settled(self, names: Sequence[str], lost: Sequence[str]) -> None:
        """Runs whose results are lost are to be done again."""
        with self._explained(), self.transaction():
            self.database.executemany("DELETE FROM runs WHERE object = ?", [(name,) for name in lost])
            self.database.executemany("DELETE FROM unsettled WHERE object = ?", [(name,) for name in (*names, *lost)])

    def requested(self, request: str) -> RunRow | None:
        """The run that answers a request: a spec that was made before from the same files and values."""
        with self._explained():
            row = self.database.execute(_REQUESTED, (request,)).fetchone()
        return _sound(row)

    def answer(self, requests: Iterable[tuple[str, str]]) -> None:
        """Remember which runs answer which requests."""
        with self._explained(), self.transaction():
            self.database.executemany("INSERT OR REPLACE INTO requests VALUES (?, ?)", requests)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside, or nothing."""
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.database.execute("ROLLBACK")
            raise
        self.database.execute("COMMIT")

    def say(self, sweep: str, state: dict[str, Any]) -> None:
        """Leave word of how far a sweep is, for `--status`."""
        with self._explained():
            self.database.execute("INSERT OR REPLACE INTO sweeps VALUES (?, ?)", (storable(sweep), json.dumps(state)))

    def said(self, sweep: str) -> dict[str, Any]:
        """How far a sweep was when it last said so."""
        with self._explained():
            row = self.database.execute("SELECT state FROM sweeps WHERE sweep = ?", (storable(sweep),)).fetchone()
        return table_of(row[0]) if row is not None else {}

    def states(self) -> list[dict[str, Any]]:
        """How far each sweep was when it last said so."""
        with self._explained():
            return [table_of(row[0]) for row in self.database.execute("SELECT state FROM sweeps")]

    # --- results ----------------------------------------------------------------------------------------------------

    def document(self, row: RunRow) -> dict[str, Any] | None:
        """The result of a run, or of the run that covers it; None if it is missing or damaged."""
        if row.source:
            searched = self.get(row.source)
            return self.document(searched) if searched is not None and not searched.source else None
        data = self.read(row.object) if row.object else None
        return table_of(unpacked(data)) or None if data is not None else None

    def read(self, name: str) -> bytes | None:
        """A result's file, if it is there and is what its name says."""
        return _read(self._path(name), name)

    def holds(self, name: str) -> bool:
        """Whether there is a result's file of this name."""
        return os.path.isfile(f"{self._objects}/{name[:2]}/{name[2:]}.json.z")  # a Path takes five times as long

    def lost(self, row: RunRow) -> bool:
        """Whether the result of a run that has one, or of the run that covers it, is gone."""
        searched = self.get(row.source) if row.source else row
        return searched is None or not self.holds(searched.object)

    def _path(self, name: str) -> Path:
        return object_path(self.folder, name)

    def objects(self) -> Iterator[str]:
        """The names of all results' files."""
        for path in sorted((self.folder / OBJECTS).glob("??/*.json.z")):
            yield path.parent.name + path.name.removesuffix(".json.z")


def object_path(folder: Path, name: str) -> Path:
    """Where a store has a result's file."""
    return folder / OBJECTS / name[:2] / f"{name[2:]}.json.z"


def write_object(folder: Path, document: bytes, durably: bool = True) -> str:
    """Write a result's file into a store, if it is not there; its name."""
    name = hashlib.sha256(document).hexdigest()
    path = object_path(folder, name)
    if _read(path, name) is None:
        make_folder(path.parent)
        write_atomically(path, document, durably)
    return name


def _read(path: Path, name: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == name else None


def packed(document: dict[str, object]) -> bytes:
    """A result as the store keeps it."""
    return zlib.compress(json.dumps(document, allow_nan=False, separators=(",", ":")).encode(), 9)


def packed_figures(figures: Sequence[float]) -> bytes:
    """The figures of a design, in a row of the table."""
    return zlib.compress(json.dumps([repr(figure) for figure in figures]).encode())


def unpacked_figures(data: bytes) -> tuple[float, ...]:
    """The figures of a design, from a row of the table; none if they make no sense."""
    try:
        return tuple(float(text) for text in read_json(unpacked(data))) if data else ()
    except (ValueError, TypeError):
        return ()


def _sound(values: tuple[Any, ...] | None) -> RunRow | None:
    """A row of the table; None if there is none, or one that is no run."""
    row = RunRow(*values) if values is not None else None
    return row if row is not None and row.is_sound else None
