"""The store: content hashes, files that are whole, and what happens to damaged ones."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
import time
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

import fusiest
from fusiest.base.errors import FusiestError, SpecError
from fusiest.mapper import result_json
from fusiest.mapper.options import Options
from fusiest.sweeps import RunRow, Store
from fusiest.sweeps.reuse.canonical import run_form
from fusiest.sweeps.store.store import packed, packed_figures, write_object
from fusiest.sweeps.store.upkeep import check_store, collect_garbage, export_store, merge_stores
from tests.command_line import run

EDP = Options(objective=("edp",), jobs=1)


def entry(m: int = 8) -> tuple[RunRow, bytes]:
    """A run as a sweep keeps it."""
    result = fusiest.map(fusiest.load("simple", "matmuls", M=m, KN=8, N_EINSUMS=2), "edp", jobs=1)
    made, best = run_form(result.spec, result.options), result.best()
    figures = packed_figures(made.figures)
    row = RunRow(made.hash, made.family, "done", energy=best.energy, latency=best.latency, gap=0.0, figures=figures)
    return row, packed(result_json(result))


ROW, RESULT = entry()
OTHER_ROW, OTHER_RESULT = entry(16)
COVERED = replace(ROW, hash="b" * 64, status="covered", source=ROW.hash)


def document(data: bytes) -> object:
    return json.loads(zlib.decompress(data))


def form(text: str, options: Options = EDP, tmp: Path | None = None) -> object:
    assert tmp is not None
    (tmp / "chip.yaml").write_text(text)
    return run_form(fusiest.load(tmp / "chip.yaml", "matmuls", M=16, KN=16, N_EINSUMS=2), options)


def test_how_a_spec_is_written_does_not_matter(tmp_path: Path) -> None:
    text = fusiest.load("simple").to_yaml()
    first = form(text, tmp=tmp_path)
    assert form("# a comment\n" + text.replace('"8 * 1024 * 1024"', "8388608.0"), tmp=tmp_path) == first
    assert form(text + "variables: {unused: 5}\n", tmp=tmp_path) == first
    assert form(text.replace("area: 0", "area: 1e-6"), tmp=tmp_path) == first
    assert form(text, replace(EDP, jobs=2, time_limit=5.0, bounds=False), tmp=tmp_path) == first


def test_what_changes_the_answer_matters(tmp_path: Path) -> None:
    text = fusiest.load("simple").to_yaml()
    first = form(text, tmp=tmp_path)
    small = form(text.replace('"8 * 1024 * 1024"', "8192"), tmp=tmp_path)
    assert small.hash != first.hash
    assert small.family == first.family
    assert first.nowhere_worse(small)
    assert not small.nowhere_worse(first)
    for other in (
        form(text.replace("may_keep: All", "may_keep: Outputs"), tmp=tmp_path),
        form(text, Options(objective=("energy",)), tmp=tmp_path),
        form(text, replace(EDP, exchange="any"), tmp=tmp_path),
    ):
        assert other.family != first.family


def test_a_latency_that_depends_on_another_component(tmp_path: Path) -> None:
    latency = "total_latency: sum(a.n_calls for a in actions) / PE.fanout"
    text = f"""
arch:
  nodes:
  - !Memory {{name: DRAM, component_class: Dummy, size: inf, {latency}}}
  - !Container {{name: PE, spatial: [{{name: X, fanout: 4}}]}}
  - !Compute {{name: MAC, component_class: Dummy}}
"""
    assert form(text, tmp=tmp_path) == form(text + "# a comment", tmp=tmp_path)
    assert form(text, tmp=tmp_path) != form(text.replace("fanout: 4", "fanout: 2"), tmp=tmp_path)


def test_hashes_are_the_same_in_every_process(tmp_path: Path) -> None:
    code = (
        "import fusiest\nfrom fusiest.mapper.options import Options\nfrom fusiest.sweeps.reuse.canonical import run_form\n"
        "print(run_form(fusiest.load('tpu_v4i', 'gpt3_6.7B', BATCH_SIZE=1, N_TOKENS=64), Options()).hash)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert len(found.pop().strip()) == 64


def test_put_and_get(tmp_path: Path) -> None:
    with Store(tmp_path / "runs") as store:
        row = store.put(ROW, RESULT)
        assert store.get(ROW.hash) == row
        assert store.document(row) == document(RESULT)
        assert [r.hash for r in store.rows(ROW.family)] == [ROW.hash]
        store.put(replace(ROW, energy=5.0))
        assert store.get(ROW.hash) == row, "the first proven answer stays"
        store.answer([("r", ROW.hash)])
        assert store.requested("r") == row
        assert check_store(store) == []
    with sqlite3.connect(tmp_path / "runs" / "runs.sqlite") as plain:
        assert plain.execute("SELECT status, energy FROM runs").fetchall() == [("done", ROW.energy)]


def test_damage_is_found_and_removed(tmp_path: Path) -> None:
    with Store(tmp_path / "runs") as store:
        row = store.put(ROW, RESULT)
        store.put(COVERED)
        store._path(row.object).write_bytes(b"garbage")
        assert store.document(row) is None
        assert any("missing or damaged" in line for line in check_store(store))
        assert collect_garbage(store) == (2, 1), "with what it covered"
        assert (len(store), list(store.objects())) == (0, [])


def test_results_that_are_gone_are_put_again(tmp_path: Path) -> None:
    """A store heals: a run is done again, or taken from another store, and known from then on."""
    with Store(tmp_path / "runs") as store, Store(tmp_path / "other") as other:
        first = store.put(ROW, RESULT)
        covered = store.put(COVERED)
        store._path(first.object).unlink()
        assert (store.lost(first), store.lost(covered)) == (True, True)
        second = {**document(RESULT), "created": "later"}
        other.put(ROW, packed(second))
        assert merge_stores(store, other) == (1, [])
        for row in store.rows():
            assert store.document(row) == second
        store.put(ROW, RESULT)
        assert [store.document(row) for row in store.rows()] == [second] * 2, "the first answer is the answer"


def test_garbage_is_collected_while_a_sweep_runs(tmp_path: Path) -> None:
    """A result whose row is still to come stays."""
    with Store(tmp_path / "runs") as store:
        name = write_object(store.folder, packed({"mappings": []}))
        store.say("a sweep", {"running": 1, "time": time.time()})
        assert collect_garbage(store) == (0, 0)
        store.say("a sweep", {"running": 1, "time": time.time() - 3600})
        assert collect_garbage(store) == (0, 1)
        assert not store.holds(name)


def test_merge_and_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store(tmp_path / "one") as one, Store(tmp_path / "two") as two:
        one.put(ROW, RESULT)
        one.put(COVERED)
        assert [merge_stores(two, one).taken for _ in range(2)] == [2, 0]
        assert export_store(two, tmp_path / "out") == 2
    saved = fusiest.Result.load(tmp_path / "out" / f"{ROW.hash[:16]}.json")
    assert (saved.best().energy, saved.best().latency) == ROW.costs
    for word, out in (("check", "2 runs, all in order"), ("gc", "0 runs and 0 files removed")):
        status, said, _ = run(capsys, "store", word, str(tmp_path / "two"))
        assert (status, out in said) == (0, True)
    status, _, err = run(capsys, "store", "chek", str(tmp_path / "two"))
    assert (status, err.count("\n"), "did you mean 'check'?" in err) == (2, 1, True)
    assert run(capsys, "store", "check", str(tmp_path / "none"))[0] == 2


def test_a_store_of_another_format(tmp_path: Path) -> None:
    with Store(tmp_path / "runs") as store:
        store.say("a sweep", {})
    with sqlite3.connect(tmp_path / "runs" / "runs.sqlite") as plain:
        plain.execute("PRAGMA user_version = 99")
    with pytest.raises(FusiestError, match="another version"):
        Store(tmp_path / "runs")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "runs.sqlite").write_bytes(b"not a database, but long enough to look at" * 100)
    with pytest.raises(FusiestError, match="cannot be used"):
        Store(tmp_path / "other")


def test_a_table_of_something_else_is_left_alone(tmp_path: Path) -> None:
    table = tmp_path / "runs.sqlite"
    with contextlib.closing(sqlite3.connect(table)) as database:
        database.execute("CREATE TABLE recipes (name)")
    before = table.read_bytes()
    for create in (True, False):
        with pytest.raises(FusiestError, match=r"no store \(runs.sqlite is a table of something else\)"):
            Store(tmp_path, create=create)
    assert table.read_bytes() == before
    assert list(tmp_path.iterdir()) == [table]


def test_a_store_in_which_nothing_was_kept_leaves_nothing_behind(tmp_path: Path) -> None:
    Store(tmp_path / "new" / "runs").close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SpecError, match="division by zero"):
        fusiest.sweep(arch="simple", workloads=["matmuls"], best="edp / 0", store=tmp_path / "runs")
    assert list(tmp_path.iterdir()) == []
    with Store(tmp_path / "runs") as store:
        store.say("a sweep", {})
    Store(tmp_path / "runs").close()
    assert (tmp_path / "runs" / "runs.sqlite").is_file()


def test_map_with_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("map", "simple", "matmuls", "-D", "M=8", "-D", "KN=8", "-D", "N_EINSUMS=2", "--objective", "edp", "--jobs", "1",
               "--store", str(tmp_path / "runs"), "--json")  # fmt: skip
    first, second = str(tmp_path / "1.json"), str(tmp_path / "2.json")
    assert run(capsys, *command, first)[0] == 0
    status, _, err = run(capsys, *command, second)
    assert (status, "joining" in err) == (0, False), "nothing is searched again"
    one, two = (json.loads(Path(file).read_text()) for file in (first, second))
    assert one["mappings"] == two["mappings"]


def test_what_cannot_be_done_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a line of progress before it."""
    (tmp_path / "file").write_text("no folder")
    for command in (
        ("map", "simple", "matmuls", "--store", str(tmp_path / "file")),
        ("advise", "simple", "matmuls", "--jobs", "0"),
    ):
        status, out, err = run(capsys, *command)
        assert (status, out, err.count("\n")) == (2, "", 1), err


def test_results_that_a_power_failure_took_are_forgotten(tmp_path: Path) -> None:
    """The row reached the disk, its result did not: the run is to be done again, and others stay."""
    with Store(tmp_path) as store:
        kept = store.put(ROW, RESULT)
        lost = store.put(OTHER_ROW, OTHER_RESULT)
        store.database.close()  # as when the machine stops: nothing was settled
    store._path(lost.object).write_bytes(b"")
    with Store(tmp_path) as again:
        assert again.get(kept.hash) is not None
        assert again.get(lost.hash) is None
        assert again.database.execute("SELECT count(*) FROM unsettled").fetchone() == (0,)


def test_a_store_that_may_not_be_written_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "runs") as store:
        store.put(ROW, RESULT)
    monkeypatch.setattr("fusiest.sweeps.store.store.os.access", lambda *_: False)
    with Store(tmp_path / "runs", create=False) as kept, Store(tmp_path / "mine") as mine:
        assert check_store(kept) == []
        assert merge_stores(mine, kept).taken == 1
        with pytest.raises(FusiestError, match="readonly"):
            kept.put(replace(ROW, hash="b" * 64))
