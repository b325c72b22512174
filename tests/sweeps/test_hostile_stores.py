"""A store may come from anywhere: no row is believed that its result does not confirm, and nothing in it ends in a traceback."""

from __future__ import annotations

import contextlib
import json
import random
import resource
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fusiest
from fusiest.base.errors import FusiestError
from fusiest.sweeps import Reuse, Store, Sweep
from fusiest.sweeps.store.store import packed, write_object
from fusiest.sweeps.store.upkeep import check_store, collect_garbage, export_store, merge_stores
from tests.command_line import run
from tests.proving import PROVE

FIELDS = {
    "arch": "simple",
    "workloads": [{"file": "matmuls", "defines": {"N_EINSUMS": 1, "M": 8, "KN": 8}}],
    "parameters": {"GlobalBufferSize": [1024, 2048, 65536]},
    "objective": "edp",
}
FAR = 512 * 2**20


def made(store: Path, **more: Any) -> Sweep:
    return fusiest.sweep(store=store, jobs=1, **{**FIELDS, **more})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of a sweep with one run that is searched and others that are covered."""
    folder = tmp_path_factory.mktemp("stores") / "runs"
    with made(folder) as sweep:
        sweep.run()
    return folder


@pytest.fixture
def store(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "runs"))


def change(store: Path, command: str, *values: object) -> None:
    with contextlib.closing(sqlite3.connect(store / "runs.sqlite")) as database, database:
        database.execute(command, values)


def rewrite(store: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Another result for the run that was searched, with a name that fits."""
    with Store(store) as opened:
        (row,) = [row for row in opened.rows() if row.object]
        document = opened.document(row)
    assert document is not None
    edited = edit(document)
    name = write_object(store, edited if isinstance(edited, bytes) else packed(edited))  # type: ignore[arg-type]
    change(store, "UPDATE runs SET object = ? WHERE object != ''", name)


def halved(document: dict[str, Any]) -> dict[str, Any]:
    costs = {name: document["mappings"][0][name] / 2 for name in ("energy", "edp")}
    return {**document, "mappings": [{**document["mappings"][0], **costs}]}


def complaints(store: Path) -> list[str]:
    with Store(store, create=False) as opened:
        return check_store(opened)


def test_what_a_sweep_leaves_is_true(finished: Path) -> None:
    assert complaints(finished) == []


ROWS = {
    "halved energies": "UPDATE runs SET energy = energy / 2",
    "one halved energy": "UPDATE runs SET energy = energy / 2 WHERE source != ''",
    "no gap": "UPDATE runs SET gap = 0.5",
    "text for a number": "UPDATE runs SET energy = 'little'",
    "a number for text": "UPDATE runs SET reason = x'00ff', figures = 12",
    "negative": "UPDATE runs SET latency = -latency",
    "half of the costs": "UPDATE runs SET latency = NULL",
    "a status of its own": "UPDATE runs SET status = 'splendid'",
    "a path for a name": "UPDATE runs SET object = '../../../etc/passwd' WHERE object != ''",
    "a path for a hash": "UPDATE runs SET hash = '../../out' WHERE object != ''",
    "covers itself": "UPDATE runs SET source = hash, status = 'covered'",
    "covered by a failure": "UPDATE runs SET status = 'time limit', gap = 0.1 WHERE object != ''",
    "figures that are none": "UPDATE runs SET figures = x'789c0300000000'",
    "other figures": "UPDATE runs SET figures = (SELECT figures FROM runs WHERE source != '' LIMIT 1)",
}


@pytest.mark.parametrize("kind", ROWS)
def test_rows_that_results_do_not_confirm(kind: str, store: Path, tmp_path: Path) -> None:
    """`check` names them, `gc` removes them, `merge` leaves them out, and the same sweep then gives what is true."""
    change(store, ROWS[kind])
    assert complaints(store), kind
    with Store(tmp_path / "mine") as mine, Store(store, create=False) as theirs:
        taken, refused = merge_stores(mine, theirs)
        assert bool(refused) == bool(check_store(theirs, evaluate=False))
        assert taken == len(list(mine.rows()))
        assert check_store(mine, evaluate=False) == []
        export_store(theirs, tmp_path / "out")
    assert not (tmp_path / "out.json").exists()
    with Store(store) as opened:
        collect_garbage(opened)
        assert check_store(opened) == []


def test_the_best_design_is_confirmed(store: Path) -> None:
    """A halved energy in the table would name another best design."""
    with made(store) as sweep:
        best = sweep.best("energy")[0]
    change(store, "UPDATE runs SET energy = energy / 4 WHERE hash = (SELECT max(hash) FROM runs WHERE source != '')")
    with made(store) as sweep, pytest.raises(FusiestError, match=r"run \w+ .*it says .* but its result .*store gc"):
        sweep.best("energy")
    with Store(store) as opened:
        assert collect_garbage(opened)[0] >= 1
    with made(store) as sweep:
        assert sweep.best("energy")[0].design == best.design


def test_the_best_design_is_evaluated(store: Path) -> None:
    """Row and result agree with each other, but the mapping costs more; so, too, with a request for another run."""
    rewrite(store, halved)
    change(store, "UPDATE runs SET energy = energy / 2")
    assert any("but the mapping in it costs" in line for line in complaints(store))
    with made(store) as sweep, pytest.raises(FusiestError, match="the mapping costs"):
        sweep.best("energy")


def test_a_request_for_another_run(tmp_path: Path) -> None:
    """The mapping of a large memory is no answer for a small one."""
    sizes = {"parameters": {"GlobalBufferSize": [128, 65536]}}
    with made(tmp_path, **sizes) as sweep:
        rows = {a.design.values["GlobalBufferSize"]: a.row for a in sweep.run()}
    assert rows[128].hash != rows[65536].hash
    change(tmp_path, "UPDATE requests SET hash = ?", rows[65536].hash)
    assert complaints(tmp_path) == []
    with made(tmp_path, **sizes) as sweep, pytest.raises(FusiestError, match="--no-reuse known does all runs again"):
        sweep.best("area")
    with made(tmp_path, **sizes, reuse=Reuse(known=False)) as sweep:
        sweep.best("area")


def test_requests_of_another_store_replace_none(tmp_path: Path) -> None:
    """What answers a request here goes on to answer it, whatever another store says."""
    sizes = {"parameters": {"GlobalBufferSize": [128, 65536]}}
    with made(tmp_path / "mine", **sizes) as sweep:
        rows = {a.design.values["GlobalBufferSize"]: a.row for a in sweep.run()}
    theirs = Path(shutil.copytree(tmp_path / "mine", tmp_path / "theirs"))
    change(theirs, "UPDATE requests SET hash = ?", rows[65536].hash)
    with Store(tmp_path / "mine") as mine, Store(theirs, create=False) as others:
        merge_stores(mine, others)
    with made(tmp_path / "mine", **sizes) as sweep:
        assert {a.design.values["GlobalBufferSize"]: a.row.hash for a in sweep.run()} == {
            size: row.hash for size, row in rows.items()
        }


BOMB = zlib.compress(b" " * (80 * 2**20) + b"{}", 9)
RESULTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a list": lambda d: [d],  # type: ignore[dict-item]
    "nothing": lambda d: {},
    "text": lambda d: zlib.compress(b'"text"'),
    "no JSON": lambda d: zlib.compress(b"\xff{"),
    "not compressed": lambda d: b"{}",
    "deep": lambda d: zlib.compress(b"[" * 100_000),
    "many": lambda d: zlib.compress(b"[" + b"[]," * 10_000_000 + b"[]]"),
    "large": lambda d: BOMB,
    "cut off": lambda d: packed(d)[:-4],
    "no mappings": lambda d: {**d, "mappings": []},
    "mappings of text": lambda d: {**d, "mappings": ["one"]},
    "an objective that is none": lambda d: {**d, "objective": [["edp"]]},
    "no spec": lambda d: {**d, "spec": 3},
    "a gap of text": lambda d: {**d, "gap": "none"},
    "windows of text": lambda d: {**d, "options": {"windows": {}}},
    "not optimal": lambda d: {**d, "optimal": False},
    "halved": halved,
    "another spec": lambda d: {**d, "spec": d["spec"].replace("65536", "65537")},
}


@pytest.mark.parametrize("kind", RESULTS)
def test_results_that_make_no_sense(kind: str, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    rewrite(store, RESULTS[kind])
    for word, *more in (("check",), ("merge", str(tmp_path / "new")), ("export", str(tmp_path / "out"))):
        folders = (str(tmp_path / "new"), str(store)) if word == "merge" else (str(store), *more)
        _, _, err = run(capsys, "store", word, *folders)
        assert err.count("\n") <= 1, err
    assert complaints(store), kind
    with contextlib.suppress(FusiestError), made(store) as sweep:
        sweep.best()
    run(capsys, "store", "gc", str(store))
    assert complaints(store) == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < before + FAR


@pytest.mark.parametrize("state", ["[]", "{", '{"time": "now", "running": "yes", "total": []}', b"\xff", "[" * 10_000])
def test_states_that_make_no_sense(state: object, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with made(store) as sweep:
        identity = sweep.file.identity
    change(store, "INSERT OR REPLACE INTO sweeps VALUES (?, ?)", identity, state)
    sizes = ",".join(map(str, FIELDS["parameters"]["GlobalBufferSize"]))  # type: ignore[index]
    command = ["sweep", "simple", "matmuls", "-D", f"GlobalBufferSize={sizes}", "--store", str(store), "--status"]
    assert run(capsys, *command)[2].count("\n") <= 1
    assert run(capsys, "store", "gc", str(store))[0] == 0
    with Store(store) as opened:
        assert isinstance(opened.said(identity), dict)


def test_tables_of_other_columns(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(store, "ALTER TABLE runs RENAME COLUMN energy TO joules")
    for word in ("check", "gc"):
        status, _, err = run(capsys, "store", word, str(store))
        assert (status, err.count("\n")) == (2, 1), err


def test_random_damage(finished: Path, tmp_path: Path) -> None:
    """Fields of the table with whatever SQLite takes: each is named by `check`, or changes nothing that is compared."""
    dice, named = random.Random(7), 0
    values = [None, "", "x", b"\0", -1.5, 1e308, 2**62, "a" * 64, "done", "covered", json.dumps([1])]
    cases = 300 if PROVE else 12
    for number in range(cases):
        folder = Path(shutil.copytree(finished, tmp_path / str(number)))
        with contextlib.closing(sqlite3.connect(folder / "runs.sqlite")) as database, database:
            columns = [row[1] for row in database.execute("PRAGMA table_info(runs)")]
            chosen, value = dice.choice(columns), dice.choice(values)
            with contextlib.suppress(sqlite3.IntegrityError):
                database.execute(f"UPDATE OR IGNORE runs SET {chosen} = ?", (value,))
        named += bool(complaints(folder))
        with contextlib.suppress(FusiestError), made(folder) as sweep:
            sweep.best()
            sweep.table()
        with Store(folder) as opened:
            collect_garbage(opened)
            assert check_store(opened) == []
    assert named > cases / 3
