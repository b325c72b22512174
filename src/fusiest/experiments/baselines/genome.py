"""All pmappings of a workload as flat arrays, for compiled code: one gene per Einsum, the number of a row.

Rows of all Einsums are numbered through, Einsum by Einsum in the order of joining and form by form. What neighbours see of a
row is, per shared tensor, its interface: the memory, the ranks stepped above it, and their tiles. Users of a tensor must
have the same interface. Rows whose interface some other user of the tensor cannot have are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fusiest.base.errors import FusiestError
from fusiest.experiments.baselines.compiled_baselines import Keys
from fusiest.experiments.baselines.kernels import EARLY, INDEX_BITS
from fusiest.experiments.baselines.lookups import Lookups
from fusiest.experiments.baselines.paths import JoinEdge, PathLevel, paths
from fusiest.joining import JoinProblem, join_problem, ledger
from fusiest.pmapping import Compatibility, Floats, Ints, Table, group_numbers
from fusiest.spec import Spec

MOST_SHARED = 6
"""Tensors that one Einsum may share with others: rows are indexed by every subset of them."""


class Space(NamedTuple):
    """The arrays. Einsums are numbered in the order of joining, a row's `slots` are the tensors that it shares."""

    sizes: Floats
    # rows
    first: Ints
    energy: Floats
    latency: Floats
    form: Ints
    in_form: Ints
    tiles: Ints
    bits: Floats
    persistent: Floats
    interface: Ints
    group: Ints
    price: Floats
    # Einsums
    slots: Ints
    tensors: Ints
    spread: Ints
    # rows by place, by (form, interfaces known from earlier Einsums), and by each subset of interfaces
    place: Ints
    place_first: Ints
    place_start: Ints
    by_place: Ints
    early: Ints
    lookup: Keys
    by_key: Ints
    subsets: Ints
    # edges of the graph of forms
    forms: Ints
    edge_start: Ints
    edge_of: Ints
    choice_start: Ints
    choice_first: Ints
    choices: Ints
    after: Ints
    next_way: Ints
    matched: Ints
    open_boundaries: Ints
    einsum_boundaries: Ints
    zones: Ints
    open_tiles: Ints
    charge_start: Ints
    charge_memory: Ints
    charge_at: Ints
    charge_bits: Ints
    charged: Floats


@dataclass(frozen=True)
class Genome:
    """A space with what is needed to turn genes back into forms and rows of the tables."""

    space: Space
    problem: JoinProblem
    levels: list[PathLevel]

    def edges(self, genes: Ints) -> list[JoinEdge]:
        """The path that genes take through the graph of forms: of several ways, the first whose tiles agree."""
        path: list[JoinEdge] = []
        node, tiles = 0, list[int]()
        for level, gene in zip(self.levels, genes.tolist(), strict=True):
            row_tiles, form = self.space.tiles[gene].tolist(), int(self.space.form[gene])
            edge = next(
                edge
                for edge in level.edges
                if (edge.before, edge.form) == (node, form)
                and all(tiles[a] == row_tiles[b] for a, b in edge.joint.matched)
            )
            path.append(edge)
            node, tiles = edge.after, [row_tiles[c] for c in edge.joint.tiles]
        return path


def make_genome(spec: Spec, tables: Mapping[str, Table], only_finished: bool = True) -> Genome:
    """Flatten tables that say how many candidates each group had. `only_finished`: Einsums use only finished tensors."""
    problem = join_problem(spec, tables, only_finished)
    return _Flattening(spec, problem, tables, paths(problem)).genome()


@dataclass
class _EinsumRows:
    """Rows of one Einsum, before they are put behind one another."""

    form: Ints
    row: Ints
    interface: Ints


class _Flattening:
    def __init__(self, spec: Spec, problem: JoinProblem, tables: Mapping[str, Table], levels: list[PathLevel]) -> None:
        self.spec, self.problem, self.levels = spec, problem, levels
        self.candidates = {name: table.candidates for name, table in tables.items()}
        self.order = [level.einsum for level in levels]
        shared = [t for t in spec.info.users if len(spec.info.users[t]) > 1]
        self.tensor_number = {t: i for i, t in enumerate(shared)}
        self.slots = [[t for t in shared if t in spec.info.einsums[e].accesses] for e in self.order]
        if max(map(len, self.slots)) > MOST_SHARED:
            raise FusiestError(f"not supported: an Einsum that shares more than {MOST_SHARED} tensors, with a baseline")
        self.interfaces: dict[object, int] = {}
        self.rows = [self._einsum_rows(level, slots) for level, slots in zip(levels, self.slots, strict=True)]
        self._drop_without_partner()

    def _einsum_rows(self, level: PathLevel, slots: list[str]) -> _EinsumRows:
        parts = []
        for number in sorted({edge.form for edge in level.edges}):
            form, rows = self.problem.groups[level.einsum][number]
            columns = [self._interface(level.einsum, form, rows.tiles, tensor) for tensor in slots]
            interface = np.stack(columns, axis=1) if columns else np.empty((len(rows), 0), np.int64)
            parts.append((np.full(len(rows), number), np.arange(len(rows)), interface))
        if not parts:
            return _EinsumRows(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, len(slots)), np.int64))
        return _EinsumRows(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _interface(self, einsum: str, form: Compatibility, tiles: Ints, tensor: str) -> Ints:
        """Numbers of interfaces of a tensor, for all rows of a form."""
        backing = next(b for b in form.backings if b.tensor == tensor)
        view = self.problem.views[einsum]
        above = [v for zone in form.zones[: backing.zones] for v in zone]
        ranks = sorted((view.stepping(tensor, v.variable) or (), form.loops.index(v)) for v in above)
        stepped_tiles = tiles[:, [column for _, column in ranks]]
        _, first, inverse = np.unique(group_numbers(stepped_tiles), return_index=True, return_inverse=True)
        names = tuple((rank, form.loops[column].place) for rank, column in ranks)
        numbers = [
            self.interfaces.setdefault(
                (tensor, backing.memory, names, tuple(stepped_tiles[i].tolist())), len(self.interfaces)
            )
            for i in first
        ]
        return np.array(numbers, np.int64)[inverse.reshape(-1)]

    def _drop_without_partner(self) -> None:
        """Until nothing changes, drop rows with an interface that another user of the tensor does not have."""
        while True:
            common: dict[str, Ints] = {}
            for rows, slots in zip(self.rows, self.slots, strict=True):
                for i, tensor in enumerate(slots):
                    interfaces = np.unique(rows.interface[:, i])
                    common[tensor] = np.intersect1d(common[tensor], interfaces) if tensor in common else interfaces
            dropped = 0
            for rows, slots in zip(self.rows, self.slots, strict=True):
                keep = np.ones(len(rows.form), np.bool_)
                for i, tensor in enumerate(slots):
                    keep &= np.isin(rows.interface[:, i], common[tensor])
                dropped += int((~keep).sum())
                rows.form, rows.row, rows.interface = rows.form[keep], rows.row[keep], rows.interface[keep]
            if not dropped:
                return

    # --- putting it together ------------------------------------------------------------------------------------------

    def genome(self) -> Genome:
        space = Space(**self._row_arrays(), **self._einsum_arrays(), **self._indexes(), **self._edge_arrays())
        return Genome(_side_by_side(space), self.problem, self.levels)

    def _row_arrays(self) -> dict[str, np.ndarray]:
        first = np.concatenate([[0], np.cumsum([len(rows.form) for rows in self.rows])])
        memories = len(self.problem.memories)
        tables = [self.problem.groups[e] for e in self.order]
        columns = max((len(form.loops) for table in tables for form, _ in table), default=0)
        zones = max((len(form.zones) for table in tables for form, _ in table), default=0)
        total = int(first[-1])
        energy, latency = np.zeros(total), np.zeros(total)
        tiles = np.zeros((total, columns), np.int64)
        bits, persistent = np.zeros((total, memories, zones + 1)), np.zeros((total, memories))
        group, price = np.zeros(total, np.int64), np.zeros(total)
        for e, (rows, table) in enumerate(zip(self.rows, tables, strict=True)):
            groups = 0
            for number, (form, form_rows) in enumerate(table):
                where = np.flatnonzero(rows.form == number)
                target, row = first[e] + where, rows.row[where]
                energy[target], latency[target] = form_rows.energy[row], form_rows.latency[row]
                tiles[target, : len(form.loops)] = form_rows.tiles[row]
                bits[target, :, : form_rows.bits.shape[2]] = form_rows.bits[row]
                persistent[target] = form_rows.persistent[row]
                distinct, inverse = np.unique(group_numbers(form_rows.tiles), return_inverse=True)
                group[target] = groups + inverse.reshape(-1)[row]
                groups += len(distinct)
                price[target] = self.candidates[self.order[e]][form][row]
        return {
            "sizes": self.problem.room.sizes * (1 + 1e-12), "first": first, "energy": energy, "latency": latency,
            "form": np.concatenate([rows.form for rows in self.rows]),
            "in_form": np.concatenate([rows.row for rows in self.rows]),
            "tiles": tiles, "bits": bits, "persistent": persistent,
            "interface": _stacked([rows.interface for rows in self.rows]), "group": group, "price": price,
        }  # fmt: skip

    def _einsum_arrays(self) -> dict[str, np.ndarray]:
        widest = max(map(len, self.slots))
        tensors = np.full((len(self.order), widest), -1)
        for e, slots in enumerate(self.slots):
            tensors[e, : len(slots)] = [self.tensor_number[t] for t in slots]
        return {
            "slots": np.array([len(slots) for slots in self.slots]),
            "tensors": tensors,
            "spread": np.array([self._spread(e) for e in range(len(self.order))]),
            "subsets": np.array(sorted(range(1 << widest), key=lambda s: -s.bit_count())),
        }

    def _spread(self, start: int) -> list[int]:
        """The Einsums by how many shared tensors they are away from one of them, nearest first."""
        nearest, frontier = [start], [start]
        while len(nearest) < len(self.order):
            near = {t for e in frontier for t in self.slots[e]}
            frontier = [e for e in range(len(self.order)) if e not in nearest and not near.isdisjoint(self.slots[e])]
            frontier = frontier or [next(e for e in range(len(self.order)) if e not in nearest)]
            nearest += frontier
        return nearest

    def _indexes(self) -> dict[str, np.ndarray]:
        place, starts, place_first, by_place = [], [], [0], []
        early, lookups = [], Lookups()
        begin = 0
        for e, (rows, slots) in enumerate(zip(self.rows, self.slots, strict=True)):
            row_places, start, sorted_rows = self._places(e, rows)
            place.append(row_places)
            starts.append(begin + start)
            place_first.append(place_first[-1] + len(start))
            by_place.append(begin + sorted_rows)
            before = {t for earlier in self.slots[:e] for t in earlier}
            early_slots = [i for i, t in enumerate(slots) if t in before]
            early.append(sum(1 << i for i in early_slots))
            columns = [rows.form, *(rows.interface[:, i] for i in early_slots)]
            lookups.add(e << INDEX_BITS | EARLY, columns, begin, len(rows.form))
            for subset in range(1 << len(slots)):
                columns = [rows.interface[:, i] for i in range(len(slots)) if subset >> i & 1]
                lookups.add(e << INDEX_BITS | subset, columns, begin, len(rows.form))
            begin += len(rows.form)
        return {
            "place": np.concatenate(place), "place_first": np.array(place_first),
            "place_start": np.concatenate([*starts, [begin]]), "by_place": np.concatenate(by_place),
            "early": np.array(early), **lookups.arrays(),
        }  # fmt: skip

    def _places(self, e: int, rows: _EinsumRows) -> tuple[Ints, Ints, Ints]:
        """Rows by which memory each shared tensor is backed in: number per row, where each number begins, sorted rows."""
        table, slots = self.problem.groups[self.order[e]], self.slots[e]
        memories = [tuple(b.memory for b in form.backings if b.tensor in slots) for form, _ in table]
        numbers = {name: i for i, name in enumerate(dict.fromkeys(memories[n] for n in np.unique(rows.form)))}
        number = np.array([numbers.get(name, -1) for name in memories], np.int64)
        row_places = number[rows.form]
        order = np.argsort(row_places, kind="stable")
        return row_places, np.searchsorted(row_places[order], np.arange(len(numbers))), order

    def _edge_arrays(self) -> dict[str, np.ndarray]:
        forms = [len(self.problem.groups[e]) for e in self.order]
        edge_start = np.cumsum([0] + [f * len(level.open_forms) for f, level in zip(forms, self.levels, strict=True)])
        edge_of, next_way = np.full(int(edge_start[-1]), -1), list[int]()
        choice_start, choice_first, choices = [0], [0], []
        edges: list[tuple[str, JoinEdge]] = []
        for e, level in enumerate(self.levels):
            ways: dict[int, dict[int, None]] = {}
            for edge in level.edges:
                index = int(edge_start[e]) + edge.before * forms[e] + edge.form
                if edge_of[index] < 0:
                    edge_of[index] = len(edges)
                else:  # ways to join the same two follow one another
                    next_way[-1] = len(edges)
                next_way.append(-1)
                edges.append((level.einsum, edge))
                ways.setdefault(edge.before, {})[edge.form] = None
            for before in range(len(level.open_forms)):
                choices += list(ways.get(before, {}))
                choice_start.append(len(choices))
            choice_first.append(choice_first[-1] + len(level.open_forms))
        joints = [edge.joint for _, edge in edges]
        return {
            "forms": np.array(forms), "edge_start": edge_start, "edge_of": edge_of,
            "choice_start": np.array(choice_start), "choice_first": np.array(choice_first),
            "choices": np.array(choices, np.int64),
            "after": np.array([edge.after for _, edge in edges], np.int64), "next_way": np.array(next_way, np.int64),
            "matched": _padded([[n for pair in joint.matched for n in pair] for joint in joints]),
            "open_boundaries": _padded([joint.open_boundaries for joint in joints]),
            "einsum_boundaries": _padded([joint.einsum_boundaries for joint in joints]),
            "zones": np.array([(joint.zones, joint.open_zones) for joint in joints]).reshape(-1, 2),
            "open_tiles": _padded([joint.tiles for joint in joints]), **self._charges(edges),
        }  # fmt: skip

    def _charges(self, edges: list[tuple[str, JoinEdge]]) -> dict[str, np.ndarray]:
        """What each edge adds to memories for shared tensors, per row of its form; equal columns once.

        With one account per memory: a holder that users have at several depths is charged at all of them.
        """
        simple = ledger((), self.problem.memories)
        start, memory, zone, offset = [0], [], [], []
        columns: list[Floats] = []
        starts: dict[bytes, int] = {}
        end = 0
        for einsum, edge in edges:
            rows = self.problem.groups[einsum][edge.form][1]
            for (at_memory,), at_zone, bits in self.problem.charges.of(edge.joint, simple, rows):
                key = bits.tobytes()
                if key not in starts:
                    starts[key] = end
                    columns.append(bits)
                    end += len(bits)
                memory.append(at_memory)
                zone.append(at_zone)
                offset.append(starts[key])
            start.append(len(memory))
        return {
            "charge_start": np.array(start), "charge_memory": np.array(memory, np.int64),
            "charge_at": np.array(zone, np.int64), "charge_bits": np.array(offset, np.int64),
            "charged": np.concatenate([*columns, np.empty(0)]),
        }  # fmt: skip


_OF_ROWS = (
    "energy", "latency", "price", "bits", "persistent", "form", "in_form", "place", "group", "tiles", "interface",
)  # fmt: skip


def _side_by_side(space: Space) -> Space:
    """Lay out a space so that all of a row is side by side in memory: most of a move's time goes into fetching rows.

    Two rows at least, and nothing empty in them: else arrays would be contiguous, and all be compiled anew for that.
    """
    columns = {name: _narrow(getattr(space, name)) for name in _OF_ROWS}
    fields = [(name, column.dtype, tuple(max(n, 1) for n in column.shape[1:])) for name, column in columns.items()]
    rows = np.zeros(max(len(space.energy), 2), np.dtype(fields, align=True))
    for name, column in columns.items():
        rows[name][tuple(map(slice, column.shape))] = column
    return space._replace(
        by_key=_narrow(space.by_key), by_place=_narrow(space.by_place), **{name: rows[name] for name in columns}
    )


def _narrow(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers in half the space, if they are small enough."""
    fits = numbers.dtype == np.int64 and numbers.max(initial=0) < 1 << 31
    return numbers.astype(np.int32) if fits else numbers


def _padded(rows: list[list[int]] | list[tuple[int, ...]]) -> Ints:
    """Lists of different lengths as rows of one array; the length stands in front."""
    width = max(map(len, rows), default=0)
    padded = np.zeros((len(rows), width + 1), np.int64)
    for i, row in enumerate(rows):
        padded[i, 0] = len(row)
        padded[i, 1 : len(row) + 1] = row
    return padded


def _stacked(parts: list[Ints]) -> Ints:
    """Arrays of different widths below one another."""
    width = max(part.shape[1] for part in parts)
    padded = [np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=-1) for part in parts]
    return np.concatenate(padded)
