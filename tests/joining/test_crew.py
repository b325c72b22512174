"""Several processes that join together find what one finds alone, whoever does what, and whatever happens to helpers."""

from __future__ import annotations

import functools
import os
import pickle
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import fusiest
from fusiest.base.interrupt import OutOfTime
from fusiest.joining import Level, is_helper
from fusiest.joining.rows import consolidation
from fusiest.joining.rows.consolidation import PartialRows
from fusiest.joining.work import processes, shares
from fusiest.joining.work.processes import Crew
from fusiest.joining.work.shares import Parcel, opened
from fusiest.mapper import resources, search
from fusiest.mapper.mapper import grouped
from fusiest.mapper.options import Options
from fusiest.mapper.results.result import Stats
from fusiest.mapper.tables import explore_all
from fusiest.pmapping import Table

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes can be forked here")


@functools.cache
def tables() -> tuple[fusiest.Spec, dict[str, Table]]:
    """Six products with little room: some forty compatibilities at each level."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=6, M=32, KN=16, GlobalBufferSize=4096, MainMemoryEnergy=20e-12)
    return spec, explore_all(spec, Options(jobs=1), lambda step: None)


def products(objective: str, jobs: int) -> search.Search:
    """The search for their best mappings."""
    options = Options(objective=tuple(objective.split(",")), jobs=jobs)
    problem = grouped(tables()[0], options, tables()[1])
    return search.Search(problem, options, True, lambda step: None, Stats(orders="all"))


class Spy:
    """What went on between processes."""

    def __init__(self) -> None:
        self.helpers: set[int] = set()
        self.pieces: list[int] = []
        """Of each message from others, how many pieces they did."""


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spy]:
    """All levels are shared out from the first on; no helper is left in the end."""
    noted = Spy()
    monkeypatch.setattr(processes, "can_fork", lambda: True)
    monkeypatch.setattr(processes, "WORTH_SECONDS", -1.0)
    monkeypatch.setattr(shares, "_WORTH_SHARING", 1)
    monkeypatch.setattr(shares, "_WORTH_SHARING_ROWS", 0)
    exchange = Crew.exchange

    def noted_exchange(self: Crew, head: bytes, message: bytes, check: processes.Check) -> list[bytes]:
        noted.helpers |= {helper.pid for helper in self.helpers}
        found = exchange(self, head, message, check)
        noted.pieces += [len(pickle.loads(message)[0]) for message in found]
        return found

    monkeypatch.setattr(Crew, "exchange", noted_exchange)
    yield noted
    for pid in noted.helpers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def outcome(found: search.Search) -> tuple[object, ...]:
    """All that a search comes to, bit for bit, and how many partial mappings there were on the way."""
    proof = found.run()
    mappings = [(one.costs, one.joins() if isinstance(one, search.Candidate) else None) for one in found.candidates]
    return proof, mappings, found.stats.funnel


@pytest.mark.parametrize(("objective", "jobs"), [("edp", 2), ("energy,latency", 3)])
def test_several_find_what_one_finds(spy: Spy, objective: str, jobs: int) -> None:
    alone = outcome(products(objective, 1))
    assert not spy.helpers
    assert outcome(products(objective, jobs)) == alone
    assert len(spy.helpers) == jobs - 1
    assert spy.pieces


def test_each_may_do_only_his_own(spy: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    """So half of what there is to do is really done by a helper, however busy the machine is."""
    alone = outcome(products("energy,latency", 1))
    monkeypatch.setattr(
        Crew, "share_out", lambda self, pieces: (n for n, own in enumerate(pieces) if own == self.number)
    )
    assert outcome(products("energy,latency", 2)) == alone
    assert sum(spy.pieces) > len(spy.pieces) / 2  # a set of rows may be the only one


def test_a_helper_that_is_killed_is_not_missed(spy: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = outcome(products("edp", 1))
    share_out, levels = Crew.share_out, 0

    def killed(self: Crew, pieces: list[int]) -> Iterator[int]:
        nonlocal levels
        levels += 1
        if levels == 4 and is_helper():
            os.kill(os.getpid(), signal.SIGKILL)
        return share_out(self, pieces)

    monkeypatch.setattr(Crew, "share_out", killed)
    assert outcome(products("edp", 2)) == alone
    assert len(spy.helpers) == 1
    assert levels == 4  # from then on there was nobody to share with


def test_one_that_went_astray_is_not_believed(spy: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = outcome(products("edp", 1))
    fingerprint = Level.fingerprint
    monkeypatch.setattr(Level, "fingerprint", lambda self: b"?" if is_helper() else fingerprint(self))
    assert outcome(products("edp", 2)) == alone
    assert len(spy.helpers) == 1
    assert not spy.pieces


def test_helpers_end_with_the_search(spy: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    """When time is up."""
    shared = products("edp", 2)

    def out_of_time() -> None:
        if spy.helpers and not is_helper():
            raise OutOfTime

    monkeypatch.setattr(shared, "_check", out_of_time)
    with pytest.raises(OutOfTime):
        shared.run()
    assert spy.helpers


def test_no_helpers_without_room(spy: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "rss_bytes", lambda: 1e30)
    products("edp", 2).run()
    assert not spy.helpers


def test_a_parcel_is_what_was_packed() -> None:
    parcel = Parcel([3, 5], [(7, 2), (0, 0)], [[], []])
    assert opened(parcel.to_bytes()) == parcel


@pytest.mark.parametrize(("share", "cores"), [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 3), (None, 3)])
def test_as_many_processes_as_cores_that_may_be_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, share: str | None, cores: int
) -> None:
    file = tmp_path / "cpu.max"
    if share is not None:
        file.write_text(share)
    monkeypatch.setattr(resources, "_SHARE_OF_CORES", str(file))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 5}, raising=False)
    assert Options().processes == cores
    assert Options(jobs=7).processes == 7


def test_parts_that_are_pruned_first_come_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all parts had very many rows: what others of the same part dominate goes at once, and nothing else changes."""
    alone, sizes = outcome(products("energy,latency", 1)), []
    monkeypatch.setattr(consolidation, "MANY_ROWS", 1)
    monkeypatch.setattr(consolidation, "MANY_RIVALS", 0)
    without_many = PartialRows.without_many

    def noted(self: PartialRows) -> PartialRows:
        left = without_many(self)
        sizes.append((len(self), len(left)))
        return left

    monkeypatch.setattr(PartialRows, "without_many", noted)
    assert outcome(products("energy,latency", 1)) == alone
    assert sum(before for before, _ in sizes) > sum(after for _, after in sizes) > 0
