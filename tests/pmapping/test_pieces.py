"""Pieces of the search over tile shapes, each on numbers that are worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from fusiest.pmapping.chains.copy_einsum import copy_placements
from fusiest.pmapping.chains.orders import all_sunk
from fusiest.pmapping.chains.space import Reserved, running_sums
from fusiest.pmapping.chains.terms import Terms
from fusiest.pmapping.fused.by_compatibility import Ancestry, FusedOrigin, FusedRows, Gathered, Piece
from fusiest.pmapping.fused.fused_tiles import TileClass, split_members, with_chains
from fusiest.pmapping.fused.kernels import HoldersAbove, SeedRows, assemble
from fusiest.pmapping.lattice.applies import are_apart, constrained_variables, is_plain, top_fits
from fusiest.pmapping.lattice.fanout import multiples
from fusiest.pmapping.lattice.kernels import pareto
from fusiest.pmapping.lattice.layers import Layer, grow, union
from fusiest.pmapping.lattice.tile_problem import Problem, make_problem
from fusiest.pmapping.placements.open_choices import memory_groups
from fusiest.pmapping.placements.placement import placements
from fusiest.pmapping.table import Compatibility, FusedLoop
from fusiest.spec import Path, Spec, bind
from tests.load_text import load_text

ARCH = """
arch:
  nodes:
  - !Memory {name: DRAM, size: %s, component_class: Dummy, tensors: {keep: All}}
  - !Memory {name: GLB, size: inf, component_class: Dummy, tensors: {may_keep: All%s}}
  - !Compute {name: MAC, component_class: Dummy%s}
"""
SUM = 'workload: {rank_sizes: {B: 2, M: 4, K: 3}, bits_per_value: {All: 1}, einsums: ["Z[b, m] = A[b, m, k]"]}'


def spec(size: str = "inf", tensors: str = "", compute: str = "") -> tuple[Spec, Path]:
    loaded = load_text(ARCH % (size, tensors, compute), SUM)
    return loaded, bind(loaded, "Z", "MAC")


@pytest.fixture
def problem() -> Problem:
    """Z[b, m] = A[b, m, k]: b and m, 2 and 4, are one variable of 8; k is 3."""
    return make_problem(spec()[1], frozenset(), frozenset())


def shape(problem: Problem, **extents: int) -> int:
    """The number of a tile shape, by the first member of each variable."""
    (number,) = (
        s for s in range(problem.shapes)
        if all(problem.extent(v, s) == extents[variable.members[0]] for v, variable in enumerate(problem.variables))
    )  # fmt: skip
    return number


def number(problem: Problem, member: str) -> int:
    return next(v for v, variable in enumerate(problem.variables) if member in variable.members)


# --- tiles of fused loops -----------------------------------------------------------------------------------------------


def test_chains_end_at_the_innermost_tile() -> None:
    """Of 12, below one larger tile: 2 has 4 and 6 above it; 1 has 2, 3, 4 and 6. The whole, 12, is no loop."""
    rows, tiles = with_chains(np.array([[2], [1]]), np.array([12]), [2])
    assert rows.tolist() == [0, 0, 1, 1, 1, 1]
    assert tiles.tolist() == [[4, 2], [6, 2], [2, 1], [3, 1], [4, 1], [6, 1]]


def test_chains_of_several_variables_are_combined() -> None:
    rows, tiles = with_chains(np.array([[2, 1]]), np.array([8, 3]), [2, 1])
    assert (rows.tolist(), tiles.tolist()) == ([0], [[4, 2, 1]])


def test_a_merged_tile_is_split_in_every_way(problem: Problem) -> None:
    """4 of the 2 · 4 pairs (b, m): 1 · 4 or 2 · 2. k does not count here, and is whole."""
    chosen = np.array([shape(problem, b=4, k=1)])
    rows, tiles = split_members(problem, chosen, frozenset([number(problem, "b")]))
    members = [m for v in problem.variables for m in v.members]
    assert rows.tolist() == [0, 0]
    assert [dict(zip(members, row, strict=True)) for row in tiles.tolist()] == [
        {"b": 1, "m": 4, "k": 3},
        {"b": 2, "m": 2, "k": 3},
    ]


def test_tiles_know_the_shape_below_some_of_their_loops(problem: Problem) -> None:
    """Loops over b (tile 1) and m (tile 2): below both 2 of 8, below that over m alone 2 · 2, below none all."""
    loops = (FusedLoop("b", 0), FusedLoop("m", 0))
    tiles = TileClass(problem, loops, np.array([0, 1]), np.array([[1, 2]]))
    assert tiles.below(0b11).tolist() == [shape(problem, b=2, k=3)]
    assert tiles.below(0b10).tolist() == [shape(problem, b=4, k=3)]
    assert tiles.below(0b00).tolist() == [shape(problem, b=8, k=3)]


# --- layers -------------------------------------------------------------------------------------------------------------


def layer(shapes: list[int], energies: list[float]) -> Layer:
    zeros = np.zeros(len(shapes), np.int64)
    return Layer("begin", None, np.array(shapes), np.array([[e, 0.0] for e in energies]), zeros, zeros, zeros)


def test_a_row_grows_to_every_multiple(problem: Problem) -> None:
    start = layer([shape(problem, b=2, k=1)], [1.0])
    first, rows = grow(problem, start, frozenset([number(problem, "b")]))
    reached = {s for s in range(problem.shapes) if first[s + 1] > first[s]}
    assert reached == {shape(problem, b=extent, k=1) for extent in (2, 4, 8)}
    assert set(rows.tolist()) == {0}


def test_what_must_be_whole_grows_to_the_whole(problem: Problem) -> None:
    start, both = layer([shape(problem, b=2, k=1)], [1.0]), frozenset([number(problem, "b")])
    first, _ = grow(problem, start, both, both)
    assert [s for s in range(problem.shapes) if first[s + 1] > first[s]] == [shape(problem, b=8, k=1)]


def test_of_two_rows_that_meet_the_cheaper_goes_on(problem: Problem) -> None:
    begin = layer([shape(problem, b=1, k=1), shape(problem, b=2, k=1)], [1.0, 2.0])
    first, rows = grow(problem, begin, frozenset([number(problem, "b")]))
    at = shape(problem, b=4, k=1)
    assert rows[first[at] : first[at + 1]].tolist() == [0]


def test_a_union_leaves_out_what_is_dominated() -> None:
    merged = union([layer([0, 1], [3.0, 5.0]), layer([0, 1], [4.0, 4.0])])
    assert sorted(zip(merged.shape.tolist(), merged.criteria[:, 0].tolist(), strict=True)) == [(0, 3.0), (1, 4.0)]


def test_rows_are_compared_with_those_of_the_same_tiles(problem: Problem) -> None:
    """The second costs more than the first in everything; so does the third, but with other tiles."""
    loop = FusedLoop("m", 0)
    tiles = TileClass(problem, (loop,), np.array([0, 2]), np.array([[1], [2]]))
    fused = FusedRows(np.arange(3), np.array([0, 0, 1]), np.array([[1.0, 1], [2, 2], [3, 3]]))
    gathered = Gathered(Compatibility(((loop,),), ()))
    gathered.add(Piece(FusedOrigin(0, Ancestry(frozenset())), tiles, fused), prune=False)
    gathered.prune()
    assert [piece.rows.row.tolist() for piece in gathered.pieces] == [[0, 2]]
    assert gathered.explored == 3


def test_rows_that_are_taken_know_their_piece_and_its_layer(problem: Problem) -> None:
    """The second piece has nothing that is best; the others end in layers whose rows begin at 0 and 10."""
    loop = FusedLoop("m", 0)
    tiles = TileClass(problem, (loop,), np.array([0, 2]), np.array([[1], [2]]))
    gathered = Gathered(Compatibility(((loop,),), ()))
    for layer, (energy, latency) in enumerate([(2.0, 2.0), (9.0, 9.0), (1.0, 3.0)]):
        fused = FusedRows(np.array([3, 4]), np.array([1, 0]), np.array([[energy, latency], [energy, 5.0]]))
        gathered.add(Piece(FusedOrigin(layer, Ancestry(frozenset())), tiles, fused), prune=True)
    rows, origins = gathered.taken(np.array([0, 5, 10]), 0, prune=True)
    assert [layer for layer, _ in origins] == [0, 2]
    assert rows.tiles.tolist() == [[1], [2], [2]]
    assert list(zip(rows.origin.tolist(), rows.row.tolist(), rows.energy.tolist(), strict=True)) == [
        (1, 14, 1.0), (0, 3, 2.0), (1, 13, 1.0),
    ]  # fmt: skip


def test_many_that_are_best_come_by_energy_and_few_as_given() -> None:
    energies = [float(e) for e in (5, 3, 8, 1, 7, 2, 9, 4, 6)]
    many = np.array([[e, -e] for e in energies])
    dominated = np.array([[e, 20.0 + e] for e in energies])
    few = np.array([[30.0, 1.0], [20.0, 2.0]])
    criteria, groups = np.concatenate([many, dominated, few]), np.repeat([0, 1, 1], [9, 9, 2])
    best = pareto(groups, 2, criteria, True).tolist()
    assert best == [*np.argsort(energies).tolist(), 12, 18, 19]


# --- the fused part -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("room", "fits"), [(21.0, [0]), (20.9, [])])
def test_holders_above_the_seed_are_paid_and_take_space(room: float, fits: list[int]) -> None:
    """5 values of traffic and 1 of the first pass at 2 J and 1 J, on top of 3 J: 14 J. Busy for 1 + 5 · 0.5 + 0.25 = 3.75 s,
    longer than the 2 s of the compute; at 0.5 W that leaks 1.875 J. Twice each. 6 values of 3 bits are 18 bits, with 2 of the
    seed and 1 above all fused loops 21; 7 more are taken throughout."""
    row, tile, criteria = np.ones(1, np.int64), np.ones(1, np.int64), np.zeros((1, 4))
    seed = SeedRows(np.array([0]), np.array([0, 1]), np.array([[3.0, 1.0, 2.0]]), np.array([[2.0]]))
    above = HoldersAbove(
        np.array([[[5.0], [1.0], [6.0]]]), np.array([[0]]), np.array([[0, 0, 0, 0], [0, 0, 0, 0]]),
        np.array([[[2.0, 0.5], [1.0, 0.25]]]), np.array([[-1.0, -1.0, 0.0], [0.0, 0.0, 3.0]]),
    )  # fmt: skip
    fixed, scale = np.array([[7.0, 1.0]]), np.array([0.5, 2.0])
    count = assemble(seed, above, np.array([room]), fixed, scale, (row, tile, criteria))
    assert row[:count].tolist() == tile[:count].tolist() == fits
    if fits:
        assert criteria.tolist() == [[2 * (14 + 0.5 * 3.75), 2 * 3.75, 7.0, 7 + 1 + 18 + 2]]


# --- where the search applies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "fits"), [(8 * 3 + 8, True), (8 * 3 + 7, False)])
def test_what_stands_on_top_must_fit_whole(bits: int, fits: bool) -> None:
    loaded, path = spec(str(bits))
    assert {top_fits(path, placement) for placement in placements(loaded, path)} == {fits}


def test_memories_are_apart_if_a_fanout_lies_between() -> None:
    fanout = ", spatial: [{name: X, fanout: 2}]"
    for compute, apart in (("", False), (fanout, True)):
        path = spec(compute=compute)[1]
        assert are_apart(path, 1, 2) is apart
        assert not are_apart(path, 0, 1)


def test_a_tensor_that_is_never_fetched_again_below_a_fanout_takes_the_general_search() -> None:
    for tensors, plain in (("", True), (", no_refetch_from_above: A", False)):
        loaded = load_text(
            (ARCH % ("inf", tensors, "")).replace("name: GLB,", "name: GLB, spatial: [{name: X, fanout: 2}],"),
            SUM.replace("Z[b, m] = A[b, m, k]", "Z[b, m] = A[b, m, k] * B[k]"),
        )
        path = bind(loaded, "Z", "MAC")
        whole = make_problem(path, frozenset(), frozenset())
        holding = [p for p in placements(loaded, path) if "A" in p.held[1] and "Z" not in p.held[1]]
        assert {is_plain(whole, placement, frozenset()) for placement in holding} == {plain}


def test_variables_that_constraints_name() -> None:
    comparisons = "[{expression: b | m, operator: 'product<=', value: 4}, {expression: k, operator: '<=', value: 2}]"
    loaded, path = spec(tensors=f", tile_shape: {comparisons}")
    assert constrained_variables(loaded, path) == (frozenset([frozenset("bm")]), frozenset("k"))


def test_memories_whose_holders_may_change_places_go_together() -> None:
    """From the inside out, without the outermost; what lies between two of them goes with them."""
    four = SimpleNamespace(path=SimpleNamespace(memories=(0, 1, 2, 3)))
    assert memory_groups(four, []) == [range(3, 4), range(2, 3), range(1, 2)]
    assert memory_groups(four, [(1, 2)]) == [range(3, 4), range(1, 3)]
    assert memory_groups(four, [(1, 3)]) == [range(1, 4)]


def test_a_copy_has_a_placement_for_each_pair_of_backing_memories() -> None:
    """X, of nobody else, is kept in DRAM; Y in either. Whether X is in GLB, too, makes no other copy."""
    accesses = "[{name: X, projection: [m]}, {name: Y, projection: [m], output: true}]"
    copy = f"{{name: Y, is_copy_operation: true, tensor_accesses: {accesses}}}"
    arch = (ARCH % ("inf", "", "")).replace("keep: All", "keep: ~Intermediates, may_keep: All", 1)
    loaded = load_text(
        arch, f"workload: {{rank_sizes: {{M: 4}}, bits_per_value: {{All: 1}}, einsums: [{copy}, 'Z[m] = Y[m]']}}"
    )
    path = bind(loaded, "Y", "MAC")
    ways = copy_placements(path, placements(loaded, path))
    assert {way.held[:2] for way in ways} == {
        (frozenset("XY"), frozenset()),
        (frozenset("X"), frozenset("Y")),
    }
    assert len(ways) == 2 < len(placements(loaded, path))


def test_multiples_of_divisors() -> None:
    """Of 12: twice 1, 2, 3 and 6 are divisors, too; twice 4 and 12 are none."""
    divisors = np.array([1, 2, 3, 4, 6, 12])
    found = multiples(divisors, 2).tolist()
    assert [divisors[i] if i >= 0 else None for i in found] == [2, 4, 6, None, 12, None]


# --- space in the general search ----------------------------------------------------------------------------------------


def test_space_adds_up_from_boundary_to_boundary() -> None:
    """Per memory to track, from the outermost boundary in; what is counted apart is in no sum."""
    terms = Terms(("m",))
    outer, inner, apart = Reserved(1, (0, 0)), Reserved(1, (1, 0)), Reserved(1, (0, 1), apart=True)
    for name in ("energy", inner, Reserved(2, (0, 0)), apart, outer):
        terms.criterion(name)
    assert running_sums(terms, (1,)).T.tolist() == [[0, 0, 0, 0, 1], [0, 1, 0, 0, 1]]
    assert running_sums(terms, (2,)).T.tolist() == [[0, 0, 1, 0, 0]]
    assert running_sums(terms, (3,)).shape == (5, 0)


def test_space_that_sinks_through_all_loops_of_any_nest() -> None:
    """Below the fused loops, which end at place 1; above them, as in all of these nests."""
    m, k, nothing = frozenset("m"), frozenset("k"), frozenset[str]()
    skeleton = SimpleNamespace(last_fused=1)
    assert all_sunk(skeleton, [{0: m, 1: m, 2: nothing}, {0: m, 1: k, 2: nothing}]) == {0: m, 1: m | k, 2: nothing}
