"""Parts of the search for pmappings on cases small enough to work out by hand."""

from __future__ import annotations

import numpy as np
import pytest

import fusiest
from fusiest.pmapping.explore import explore
from fusiest.pmapping.lattice.move_costs import BUSY, ENERGY, Columns, Costs, make_columns
from fusiest.pmapping.lattice.tile_problem import FIRST, FOOTPRINT, TRAFFIC, Problem, coarsened, make_problem
from fusiest.pmapping.nest.alignment import agreed_loops
from fusiest.pmapping.nest.rules import HolderSource
from fusiest.pmapping.question import Effort, Question
from fusiest.pmapping.reuse.identical import common_key, renamed_table
from fusiest.pmapping.table import Table
from fusiest.spec.hardware.binding import bind
from tests.load_text import load_text
from tests.pmapping.fronts import differences, pmappings, search_fronts

ARCH = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {%s},
             actions: [{name: read, energy: 10, throughput: 1}, {name: write, energy: 20, throughput: 2}]}
  - !Memory {name: GLB, size: %s, component_class: Dummy, tensors: {keep: ~DRAM, may_keep: All},
             actions: [{name: read, energy: 1}, {name: write, energy: 2}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 3, throughput: 1}]}
"""
APART = ARCH % ("keep: All", "inf")
TOGETHER = ARCH % ("keep: ~Intermediates, may_keep: All", "inf")


def workload(sizes: str, *einsums: str) -> str:
    lines = "\n  ".join(f'- "{einsum}"' for einsum in einsums)
    return f"workload:\n  rank_sizes: {{{sizes}}}\n  bits_per_value: {{All: 1}}\n  einsums:\n  {lines}\n"


BATCHED = "Z[b, m, n] = A[b, m, k] * B[k, n]"


def batched() -> Problem:
    spec = load_text(APART, workload("B: 2, M: 3, N: 4, K: 5", BATCHED))
    return make_problem(bind(spec, "Z", "MAC"), frozenset(), frozenset())


# --- problem ----------------------------------------------------------------------------------------------------------------


def test_variables_that_every_tensor_sees_alike_are_one() -> None:
    problem = batched()
    assert {v.members: v.bound for v in problem.variables} == {("b", "m"): 6, ("n",): 4, ("k",): 5}
    assert problem.shapes == 4 * 3 * 2  # divisors of 6, 4 and 5


def test_variables_that_a_constraint_names_stay_apart() -> None:
    path = batched().path
    assert len(make_problem(path, frozenset([frozenset("b")]), frozenset()).variables) == 4
    assert len(make_problem(path, frozenset([frozenset("bm")]), frozenset()).variables) == 3
    assert len(make_problem(path, frozenset(), frozenset("b")).variables) == 4


def test_amounts_of_a_tile_shape() -> None:
    """Tiles of 3 of the 6 rows, 2 of the 4 columns, 1 of the 5 to be summed up: there are 2 · 2 · 5 of them."""
    problem = batched()
    wanted = {("b", "m"): 3, ("n",): 2, ("k",): 1}
    (shape,) = [
        s for s in range(problem.shapes)
        if all(problem.extent(v, s) == wanted[own.members] for v, own in enumerate(problem.variables))
    ]  # fmt: skip
    amounts = {t.name: problem.amounts[i, :, shape] for i, t in enumerate(problem.tensors)}
    assert amounts["A"][FOOTPRINT] == 3 * 1
    assert amounts["A"][TRAFFIC] == 20 * 3
    assert amounts["Z"][FOOTPRINT] == 3 * 2
    assert amounts["Z"][TRAFFIC] == 20 * 6
    assert amounts["Z"][FIRST] == 6 * 4  # every result once


def test_footprint_of_a_window() -> None:
    spec = load_text(
        APART, workload("", "Z[p] = A[H: 2*p + r] * F[r]").replace("rank_sizes: {}", "rank_sizes: {P: 4, R: 3}")
    )
    problem = make_problem(bind(spec, "Z", "MAC"), frozenset(), frozenset())
    (a,) = [t for t in problem.tensors if t.name == "A"]
    order = [v.members[0] for v in problem.variables]
    extents = [np.array({"p": 2.0, "r": 3.0}[v]) for v in order]
    assert a.footprint(extents) == 1 + 2 * (2 - 1) + (3 - 1)
    assert a.partial == {0, 1}
    assert not a.full


def test_a_coarse_problem_has_some_of_the_shapes() -> None:
    """60 = 2·2·3·5 has 12 divisors; with 15 in place of 3 and 5, six: 1, 2, 4, 15, 30, 60."""
    spec = load_text(APART, workload("M: 60, N: 60", "Z[m] = A[m, n]"))
    problem = make_problem(bind(spec, "Z", "MAC"), frozenset(), frozenset())
    coarse = coarsened(problem, 40)
    assert problem.shapes == 12 * 12
    assert [v.divisors.tolist() for v in coarse.variables] == [[1, 2, 4, 15, 30, 60]] * 2
    assert coarse.variables[0].before == ((), (0,), (1,), (0,), (3, 1), (4, 2))
    assert coarsened(problem).shapes == problem.shapes


def test_a_quick_look_is_valid() -> None:
    spec = load_text(APART, workload("M: 720720, N: 720720, K: 720720", "Z[m, n] = A[m, k] * B[k, n]"))
    table = explore(spec, "Z", Question(apart=True), Effort(beam=200))
    ((energy, _),) = points(table)
    n = 720720
    assert energy >= n * n * (10 + 10 + 20) + 3 * n**3


# --- costs ------------------------------------------------------------------------------------------------------------------


def test_what_a_value_costs() -> None:
    """Into GLB: a write there and a read in DRAM; a partial sum also goes back, and its first pass brings nothing in."""
    problem = batched()
    columns: Columns = make_columns(problem)
    costs = Costs(problem, columns)
    number = {t.name: i for i, t in enumerate(problem.tensors)}
    dram, glb = 0, 1
    source = HolderSource(dram, (), False)
    (dram_busy,) = [BUSY + i for i, busy in enumerate(columns.busy) if busy.component == dram]
    assert costs.filled(number["A"], glb)[TRAFFIC, ENERGY] == 2
    assert costs.fetched(number["A"], True, source)[TRAFFIC, [ENERGY, dram_busy]].tolist() == [10, 1]
    partial = costs.filled(number["Z"], glb) + costs.fetched(number["Z"], True, source)
    assert partial[TRAFFIC, ENERGY] == 2 + 1 + 10 + 20
    assert partial[FIRST, ENERGY] == -(2 + 10)
    assert partial[TRAFFIC, dram_busy] - 1 == pytest.approx(1 / 2)
    assert partial[FIRST, dram_busy] == -1


# --- the search -------------------------------------------------------------------------------------------------------------


def points(table: Table) -> list[tuple[float, float]]:
    return [
        (float(e), float(s)) for rows in table.groups.values() for e, s in zip(rows.energy, rows.latency, strict=True)
    ]


def test_one_product() -> None:
    """With room for all, every value crosses DRAM once: 4 + 4 in, 4 out. GLB: all are written, and read for 8 operations,
    but partial sums only for the second of two; and once more to go out."""
    spec = load_text(ARCH % ("keep: All", "inf"), workload("M: 2, N: 2, K: 2", "Z[m, n] = A[m, k] * B[k, n]"))
    dram = (4 + 4) * 10 + 4 * 20
    # per operation two operands come from DRAM (10 each) or GLB (1 each, after a write of 2)
    glb_operands = (4 + 4) * 2 + (8 + 8) * 1
    glb_sums = 8 * 2 + 4 * 1 + 4 * 1
    assert min(points(pmappings(spec, "Z")))[0] == dram + glb_operands + glb_sums + 8 * 3


def test_a_memory_too_small_holds_nothing() -> None:
    """Of 2 x 1 products, each operand is used once, and without a place in GLB comes from DRAM as it is needed."""
    spec = load_text(ARCH % ("keep: All", "0"), workload("M: 2", "Z[m] = A[m] * B[m]"))
    assert points(pmappings(spec, "Z")) == [(2 * (10 + 10 + 20 + 3), 2 * (1 + 1 + 0.5))]


def test_what_is_exchanged_on_chip_is_so_below_fused_loops() -> None:
    """Y in DRAM, or in GLB: as a whole, or below a loop over m with any tile that divides 4."""
    spec = load_text(TOGETHER, workload("M: 4", "Y[m] = X[m]", "Z[m] = Y[m]"))
    table = pmappings(spec, "Y")
    found = {}
    for compatibility, rows in table.groups.items():
        (y,) = [b for b in compatibility.backings if b.tensor == "Y"]
        found.setdefault((y.memory, len(compatibility.loops)), set()).update(map(tuple, rows.tiles.tolist()))
    assert found == {("DRAM", 0): {()}, ("GLB", 0): {()}, ("GLB", 1): {(1,), (2,)}}


def copied(values: int) -> str:
    return workload(f"M: {values}", "Y[m] = X[m]", "Z[m] = Y[m]").replace(
        '- "Y[m] = X[m]"',
        "- {name: Y, is_copy_operation: true, tensor_accesses: [{name: X, projection: [m]}, "
        "{name: Y, projection: [m], output: true}]}",
    )


def test_a_copy_is_a_read_and_a_write() -> None:
    table = pmappings(load_text(TOGETHER, copied(4)), "Y")
    energies = {
        frozenset((b.tensor, b.memory) for b in compatibility.backings if b.tensor == "Y"): float(rows.energy.min())
        for compatibility, rows in table.groups.items()
    }
    assert energies[frozenset([("Y", "GLB")])] == 4 * (10 + 2)


def test_a_persistent_source_of_a_copy_takes_its_space_throughout() -> None:
    """X has 6 values of 1 bit. DRAM is asked about because its size is limited; it may not hold both X and Y."""
    persistent = copied(6).replace("  bits_per", "  persistent_tensors: X\n  bits_per")
    apart = TOGETHER.replace("size: inf", "size: 16", 1).replace("may_keep: All", "may_keep: ~Intermediates", 1)
    table = pmappings(load_text(apart, persistent), "Y")
    dram = table.memories.index("DRAM")
    below = [rows for form, rows in table.groups.items() if form.backings[0].memory == "GLB"]
    assert below
    for rows in below:
        assert (rows.persistent[:, dram] == 6).all()
        assert (rows.bits[:, dram] == 0).all()


# --- Einsums that are alike, and that agree ---------------------------------------------------------------------------------


def test_einsums_that_differ_by_names_have_one_key_and_one_table() -> None:
    spec = load_text(
        APART, workload("M: 4, N: 2", "Y[m] = X[m, n]", "W[p] = V[p, q]").replace("N: 2", "N: 2, P: 4, Q: 2")
    )
    assert common_key(spec, "Y") == common_key(spec, "W")
    renamed = renamed_table(spec, pmappings(spec, "Y"), "W")
    assert differences(search_fronts(spec, renamed), search_fronts(spec, pmappings(spec, "W"))) == []


def test_einsums_whose_tensors_are_shared_otherwise_differ() -> None:
    """The first writes what the second reads; all else is the same."""
    spec = load_text(APART, workload("M: 4", "Y[m] = X[m]", "Z[m] = Y[m]"))
    assert agreed_loops(spec, "Y") == agreed_loops(spec, "Z") == {}
    assert common_key(spec, "Y") != common_key(spec, "Z")


READ_TWICE = workload(
    "K: 4, N: 4, O: 3", "Y1[k] = X1[k]", "F1[k, n] = X1[k] * V1[n]", "Y2[k] = X2[k]", "F2[k, o] = X2[k] * V2[o]"
)


def read_twice() -> fusiest.Spec:
    """X1 and X2 are read twice: once beside a loop of 4 that does not index them, once beside one of 3."""
    return load_text(APART, READ_TWICE)


def test_what_another_einsum_holds_above_a_common_loop() -> None:
    """F1 may have to hold X1 above a loop over n. For Y1 that can be the loop over k, which is as long; n2 is not."""
    spec = read_twice()
    assert agreed_loops(spec, "Y1") == {"X1": {"k"}}
    assert agreed_loops(spec, "Y2") == {}


def test_einsums_whose_neighbours_hold_elsewhere_differ() -> None:
    spec = read_twice()
    assert common_key(spec, "Y1") != common_key(spec, "Y2")


def test_producer_and_consumer_agree_only_if_partial_results_are_used() -> None:
    spec = load_text(TOGETHER, workload("M: 4, N: 4", "Y[m] = X[m]", "Z[m, n] = Y[m] * V[n]"))
    assert agreed_loops(spec, "Y", finished=True) == {}
    assert agreed_loops(spec, "Y", finished=False) == {"Y": {"m"}}
