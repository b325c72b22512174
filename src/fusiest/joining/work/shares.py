"""The joins of a level, shared out to all processes at work (`Crew`), and the rows that each has joined, as bytes.

Many parts have few rows, so that an array for each of their columns would cost more than its contents.
"""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fusiest.joining.meeting.compatibility import OpenCompatibility
from fusiest.joining.rows.consolidation import Pairing, PartialRows, Trail
from fusiest.joining.work.processes import Check, Crew, current
from fusiest.pmapping import Ints

_PIECES = 64
"""Number of pieces into which a level's joins are divided, about."""
_WORTH_SHARING = 8
"""Least number of groups that is worth sharing out."""
_WORTH_SHARING_ROWS, _ROWS_OF_A_SET = 20_000, 300
"""Rows to be pruned; a set takes as long as so many."""


class JoinedPart(NamedTuple):
    """Rows of two compatibilities, joined in one way."""

    pairing: Pairing
    compatibility: OpenCompatibility
    rows: PartialRows


class LevelJoin(Protocol):
    """One Einsum, to be joined to groups of partial mappings."""

    parts: list[JoinedPart]
    """The joined rows so far."""
    compatible: int
    """Pairs of rows in compatible groups."""
    pairs: int
    """Pairs of rows that match, fit the memories and may lead to a better mapping."""

    @property
    def count(self) -> int:
        """Number of groups that the Einsum is to be joined to."""

    def run(self, number: int, cut: Cut) -> None:
        """Join the Einsum's groups of this cut to the group with this number."""


class Cut(NamedTuple):
    """A share of an Einsum's groups: those whose number is `number` modulo `of`."""

    number: int = 0
    of: int = 1


class _JoinPiece(NamedTuple):
    """A piece of a join's work."""

    join: LevelJoin
    numbers: range
    """Groups of partial mappings."""
    cut: Cut
    """The Einsum's groups to join to them."""

    def run(self) -> None:
        for number in self.numbers:
            self.join.run(number, self.cut)


def run_joins(joins: Sequence[LevelJoin], fingerprint: Callable[[], bytes], check: Check) -> None:
    """Run all joins of a level, on all processes at work. A small level is joined by each process itself.

    `fingerprint`: of the partial mappings before the level, equal in all processes.
    """
    crew, total = current(), sum(join.count for join in joins)
    if crew is None:
        _run_alone(joins)
        return
    with crew.joining():
        if crew.size == 1 or total < _WORTH_SHARING:
            _run_alone(joins)
        else:
            _run_shared(joins, _pieces(joins, total, crew.size), crew, fingerprint, check)


def _run_alone(joins: Sequence[LevelJoin]) -> None:
    for join in joins:
        for number in range(join.count):
            join.run(number, Cut())


def _run_shared(
    joins: Sequence[LevelJoin], pieces: Sequence[_JoinPiece], crew: Crew, fingerprint: Callable[[], bytes], check: Check
) -> None:
    missing = set(range(len(pieces)))
    for number in crew.share_out([piece.cut.number % crew.size for piece in pieces]):
        pieces[number].run()
        missing.remove(number)
    pieces_run = [number for number in range(len(pieces)) if number not in missing]
    sent = Parcel(pieces_run, [(join.compatible, join.pairs) for join in joins], [join.parts for join in joins])
    for received in map(opened, crew.exchange(fingerprint(), sent.to_bytes(), check)):
        missing -= set(received.pieces)
        for join, (compatible, pairs), parts in zip(joins, received.counts, received.parts, strict=True):
            join.compatible, join.pairs = join.compatible + compatible, join.pairs + pairs
            join.parts = join.parts + parts
    for number in sorted(missing):  # of a helper that is gone
        pieces[number].run()


def _pieces(joins: Sequence[LevelJoin], total: int, processes: int) -> list[_JoinPiece]:
    """Divide the joins into enough pieces to keep all processes busy to the end.

    Each process begins with its own part of each Einsum's groups, as it can reuse its results for them in later levels.
    """
    size, cuts = -(-total // _PIECES), processes * -(-_PIECES // (4 * total))
    return [
        _JoinPiece(join, range(begin, min(begin + size, join.count)), Cut(cut, cuts))
        for join in joins
        for begin in range(0, join.count, size)
        for cut in range(cuts)
    ]


def shared_kept(sizes: Sequence[int], choose: Callable[[int], Ints], check: Check) -> list[Ints]:
    """Choose the rows to keep of each of many sets, on all processes at work. `sizes`: rows of each set."""
    crew, count = current(), len(sizes)
    if crew is None or crew.size == 1 or sum(sizes) + _ROWS_OF_A_SET * count < _WORTH_SHARING_ROWS:
        return [choose(number) for number in range(count)]
    load, owners = [0] * crew.size, [0] * count
    for number in sorted(range(count), key=lambda number: -sizes[number]):
        owners[number] = load.index(min(load))
        load[owners[number]] += sizes[number] + _ROWS_OF_A_SET
    kept_rows = {number: choose(number) for number in crew.share_out(owners)}
    message = pickle.dumps((list(kept_rows), list(kept_rows.values())), protocol=5)
    for received in crew.exchange(sum(sizes).to_bytes(8, "little"), message, check):
        kept_rows.update(zip(*pickle.loads(received), strict=True))
    return [kept_rows[number] if number in kept_rows else choose(number) for number in range(count)]


class Parcel(NamedTuple):
    """The rows that one process has joined on a level."""

    pieces: list[int]
    """Numbers of the pieces that it did."""
    counts: list[tuple[int, int]]
    """Compatible and fitting pairs of rows, for each join of the level."""
    parts: list[list[JoinedPart]]
    """Joined rows, for each join of the level."""

    def to_bytes(self) -> bytes:
        """Pack it for other processes."""
        parts = [part for join_parts in self.parts for part in join_parts]
        number: dict[OpenCompatibility, int] = {}
        indices = [number.setdefault(part.compatibility, len(number)) for part in parts]
        numbers: Ints = np.array([(*part.pairing, *_shape(part.rows)) for part in parts], np.int64).reshape(-1, 9)
        arrays = zip(*(_arrays(part.rows) for part in parts), strict=True)
        columns = [b"".join(array.tobytes() for array in column) for column in arrays]
        lengths = [len(join_parts) for join_parts in self.parts]
        return pickle.dumps((self.pieces, self.counts, lengths, list(number), indices, numbers, columns), protocol=5)


def opened(parcel: bytes) -> Parcel:
    """Unpack the parcel of another process, which is a fork of this one or from which this one was forked."""
    pieces, counts, lengths, compatibilities, indices, numbers, columns = pickle.loads(parcel)
    unpacked = _unpacked(numbers[:, 4:], columns)
    pairings = (Pairing(*row) for row in numbers[:, :4].tolist())
    parts = (JoinedPart(p, compatibilities[c], rows) for p, c, rows in zip(pairings, indices, unpacked, strict=True))
    return Parcel(pieces, counts, [list(itertools.islice(parts, length)) for length in lengths])


def _shape(rows: PartialRows) -> tuple[int, ...]:
    """Numbers of rows, tiles, accounts, fusion levels, and columns of space that is not consolidated."""
    return len(rows), rows.tiles.shape[1], rows.reserved.shape[1], rows.reserved.shape[2], rows.apart.shape[1]


def _arrays(rows: PartialRows) -> tuple[npt.NDArray[Any], ...]:
    trail = rows.trail
    return (
        rows.tiles, rows.energy, rows.latency, rows.reserved, rows.beside, rows.persistent, rows.crossing, rows.taken, rows.apart,
        trail.before_row, trail.einsum_row,
    )  # fmt: skip


_TYPES = [np.int64, *[np.float64] * 5, *[np.int64] * 2, np.float64, *[np.int32] * 2]


def _unpacked(shapes: Ints, columns: Sequence[bytes]) -> Iterator[PartialRows]:
    flat = [np.frombuffer(data, kind) for data, kind in zip(columns, _TYPES, strict=bool(columns))]
    at = [0] * len(flat)
    for n, tiles, accounts, zones, apart in shapes.tolist():
        inner = (
            (tiles,), (), (), (accounts, zones), (accounts, zones + 1), (accounts,), (), (), (apart,), (), (),
        )  # fmt: skip
        arrays: list[Any] = []
        for k, shape in enumerate(inner):
            count = n * math.prod(shape)
            arrays.append(flat[k][at[k] : at[k] + count].reshape(n, *shape))
            at[k] += count
        arrays[9:] = [Trail(np.zeros(n, np.int32), *arrays[9:])]
        yield PartialRows(*arrays)
