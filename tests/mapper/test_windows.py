"""Windows that `map` finds: valid, right in values, never worse, and better where halos stood in the way."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fusiest
from fusiest.base.errors import SpecError
from fusiest.looptree import Temporal
from fusiest.mapper import Options, Prior, run
from fusiest.mapper.windows import interleavings, with_windows
from fusiest.mapper.windows import window_plans as plans
from fusiest.mapper.windows.interleaving_plans import turn_variables
from fusiest.mapper.windows.symmetric import WindowForms
from fusiest.mapper.windows.unrolled import rolled, unrolled
from fusiest.mapper.windows.window_bounds import can_be_bounded, least_with_windows, windows_save_nothing
from fusiest.mapper.windows.window_plans import WindowLine, window_plan, window_plans, window_runs
from fusiest.pmapping import NoMapping
from fusiest.spec import Memory, flatten
from tests import proving
from tests.drawing.dice import Dice
from tests.drawing.windows import draw_layers
from tests.load_text import load_text
from tests.proving import TALLY
from tests.reference.exhaustive_windows import ExhaustiveWindows
from tests.reference.simulator import simulate

ARCH = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, leak_power: 0, tensors: {keep: ~Intermediates, may_keep: All},
             actions: [{name: read, energy: 100, throughput: 1}, {name: write, energy: 100, throughput: 1}]}
  - !Memory {name: Buf, size: SIZE, component_class: Dummy, leak_power: 0, tensors: {keep: ~DRAM, may_keep: All},
             actions: [{name: read, energy: 1, throughput: 8}, {name: write, energy: 1, throughput: 8}]}
  - !Compute {name: MAC, component_class: Dummy, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""
PAIR = """
workload:
  bits_per_value: {All: 8}
  einsums:
  - {name: A, tensor_accesses: [{name: I, projection: {X: h + r}}, {name: V, projection: {R: r}},
     {name: T, projection: {H: h}, output: true}], iteration_space_shape: [0 <= h < 34, 0 <= r < 3]}
  - {name: B, tensor_accesses: [{name: T, projection: {H: p + s}}, {name: W, projection: {S: s}},
     {name: O, projection: {P: p}, output: true}], iteration_space_shape: [0 <= p < 32, 0 <= s < 3]}
"""
BLOCK = """
workload:
  bits_per_value: {All: 8}
  einsums:
  - {name: Up, tensor_accesses: [{name: I, projection: {H: h, C: c}}, {name: V, projection: {C: c, D: d}},
     {name: T, projection: {H: h, D: d}, output: true}], iteration_space_shape: [0 <= h < 32, 0 <= c < 4, 0 <= d < 8]}
  - {name: Filter, tensor_accesses: [{name: T, projection: {H: p + r - 1, D: d}}, {name: K, projection: {R: r, D: d}},
     {name: U, projection: {P: p, D: d}, output: true}], iteration_space_shape: [0 <= p < 32, 0 <= r < 3, 0 <= d < 8]}
  - {name: Down, tensor_accesses: [{name: U, projection: {P: p, D: d}}, {name: X, projection: {D: d, E: e}},
     {name: O, projection: {P: p, E: e}, output: true}], iteration_space_shape: [0 <= p < 32, 0 <= d < 8, 0 <= e < 4]}
"""


@pytest.mark.parametrize(
    ("workload", "size", "windows", "proven"),
    [(PAIR, 160, "retained", True), (PAIR, 96, "all", False), (BLOCK, 1200, "retained", True)],
)
def test_windows_beat_the_optimum_without(workload: str, size: int, windows: str, proven: bool) -> None:
    """Where the best costs as much as if there were room for everything, nothing is better. Else there is a gap, though all plans
    were gone through, and the result names what is left out."""
    spec = load_text(ARCH.replace("SIZE", str(size)), workload)
    plain = fusiest.map(spec, "energy", jobs=1, windows="none")
    result = fusiest.map(spec, "energy", windows=windows, jobs=1)
    best = result.best("energy")
    assert result.optimal == proven
    assert (0 < result.gap < 0.5) == (not proven)
    assert result.stats.plans_left == 0
    assert (result.proof == "proven optimal") == proven
    assert best.energy < 0.95 * plain.best("energy").energy
    (least,) = least_with_windows(spec, result.options)
    assert 0.5 * best.energy < least.energy <= best.energy * (1 + 1e-9)
    assert "initial_tile_shape" in fusiest.dump_mapping(best.looptree) or "step" in fusiest.dump_mapping(best.looptree)
    assert simulate(spec, best.looptree).wrong_tensors == ()
    words = [words for words in result.domain if "windows" in words]
    assert words[0].startswith("windows of such tiles, kept")
    assert ["left out: " in words for words in words[1:]] == [True] * (not proven)
    assert "no windows" in plain.domain


def test_no_windows_where_there_is_room() -> None:
    """34 rows of T fit: windows save nothing, none are tried, and the optimum is proven with them."""
    spec = load_text(ARCH.replace("SIZE", "2000"), PAIR)
    steps: list[str] = []
    result = fusiest.map(spec, "energy", windows="all", jobs=1, progress=lambda step: steps.append(step.phase))
    assert result.optimal
    assert not any("windows" in phase for phase in steps)
    assert result.best("energy").energy == fusiest.map(spec, "energy", windows="none", jobs=1).best("energy").energy


def test_it_says_so_where_not_all_is_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the search, with what makes it smaller; and how much is left out, in the end. Five sizes of tiles, T above or below."""
    monkeypatch.setattr(interleavings, "MOST_PLANS", 1)
    monkeypatch.setattr(with_windows, "MOST_PLANS", 1)
    spec, said = load_text(ARCH.replace("SIZE", "96"), PAIR), list[str]()
    result = fusiest.map(spec, "energy", windows="all", jobs=1, progress=lambda step: said.append(str(step)))
    switch = "--windows retained, --max-fused-loops 1 or --windows none takes less time"
    ahead = f"windows: up to 10 plans, of which the most promising are searched, up to 1 of a kind; {switch}"
    assert said.index(ahead) < next(i for i, words in enumerate(said) if words.endswith("exactly"))
    assert any("plans are not gone through" in words and switch in words for words in said)
    assert not result.optimal
    assert 0 < result.stats.plans_left < 10
    assert any(f"{result.stats.plans_left} plans of these not" in words for words in result.domain)
    assert result.best("energy").energy < fusiest.map(spec, "energy", windows="none", jobs=1).best("energy").energy


def _layers(count: int, rows: int) -> str:
    """Convolutions of three rows, one after the other."""
    einsums = [
        f"""
  - {{name: L{i}, tensor_accesses: [{{name: T{i}, projection: {{H{i}: p + r}}}}, {{name: W{i}, projection: {{R: r}}}},
     {{name: T{i + 1}, projection: {{H{i + 1}: p}}, output: true}}], iteration_space_shape: [0 <= p < {rows - 2 * i}, 0 <= r < 3]}}"""
        for i in range(count)
    ]
    return "\nworkload:\n  bits_per_value: {All: 8}\n  einsums:" + "".join(einsums)


@pytest.mark.parametrize(("objective", "size"), [("energy", 160), ("edp", 120)])
def test_long_workloads(objective: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is before and after runs is cut from the mapping without windows, and found to be as good as if it were searched."""
    spec = load_text(ARCH.replace("SIZE", str(size)), _layers(4, 36))
    searched = fusiest.map(spec, objective, jobs=1)
    plain = fusiest.map(spec, objective, windows="none", jobs=1).best(objective)
    monkeypatch.setattr(with_windows, "MOST_SEARCHED", 1)
    cut = fusiest.map(spec, objective, jobs=1)
    best = cut.best(objective)
    assert getattr(best, objective) == getattr(searched.best(objective), objective)
    assert getattr(best, objective) < 0.95 * getattr(plain, objective)
    assert simulate(spec, best.looptree).wrong_tensors == ()
    assert not cut.optimal
    assert any("as far as they were tried" in words for words in cut.domain)


LATER = """
workload:
  bits_per_value: {All: 8}
  einsums:
  - {name: A, tensor_accesses: [{name: I, projection: {X: h}}, {name: T, projection: {H: h}, output: true}],
     iteration_space_shape: [0 <= h < 34]}
  - {name: B, tensor_accesses: [{name: T, projection: {H: p + s}}, {name: W, projection: {S: s}},
     {name: O, projection: {P: p}, output: true}], iteration_space_shape: [0 <= p < 32, 0 <= s < 3]}
  - {name: C, tensor_accesses: [{name: O, projection: {P: p}}, {name: V, projection: {P: p, N: n}},
     {name: Q, projection: {N: n}, output: true}], iteration_space_shape: [0 <= p < 32, 0 <= n < 16]}
  - {name: D, tensor_accesses: [{name: O, projection: {P: p}}, {name: Q, projection: {N: n}},
     {name: Z, projection: {P: p, N: n}, output: true}], iteration_space_shape: [0 <= p < 32, 0 <= n < 16]}
"""


def test_room_for_what_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """O is used to the end and there is no room for T beside it: cut off, a window of T saves nothing, since O is off chip then. Only
    joined with C and D it does, in long workloads, too. A larger memory costs no more."""
    monkeypatch.setattr(plans, "LONGEST_WORKLOAD", 1)
    least = {}
    for size in (280, 310, 500, 550):
        least[size] = fusiest.map(load_text(ARCH.replace("SIZE", str(size)), LATER), "energy", jobs=1).best("energy")
    without = fusiest.map(load_text(ARCH.replace("SIZE", "500"), LATER), "energy", jobs=1, windows="none").best(
        "energy"
    )
    assert least[280].energy > least[310].energy == least[500].energy == least[550].energy
    assert without.energy > 1.05 * least[500].energy


def test_all_windows_are_no_worse_than_those_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if few plans are tried: those that keep everything come first. Then the others, with which nothing gets worse."""
    monkeypatch.setattr(interleavings, "MOST_PLANS", 0)
    monkeypatch.setattr(with_windows, "MOST_WORSE", 1)
    monkeypatch.setattr(with_windows, "MOST_FRUITLESS", 2)
    spec = load_text(ARCH.replace("SIZE", "128"), _layers(3, 18))
    none, kept, both = (
        fusiest.map(spec, "edp", windows=w, jobs=1).best("edp").edp for w in ("none", "retained", "all")
    )
    assert both <= kept < none


def test_rows_are_not_like_columns_where_a_constraint_says_so() -> None:
    """Of ranks that differ by names alone, one is looked at; a fanout that steps columns only makes them differ."""
    image = (
        PAIR.replace("{X: h + r}", "{X: h + r, Y: w}")
        .replace("{H: h}", "{H: h, J: w}")
        .replace("{H: p + s}", "{H: p + s, J: q + u}")
    )
    image = (
        image.replace("{X: h + r, Y: w}", "{X: h + r, Y: w + v}")
        .replace("{R: r}", "{R: r, V: v}")
        .replace("{S: s}", "{S: s, U: u}")
    )
    image = image.replace("{P: p}", "{P: p, Q: q}").replace("0 <= r < 3", "0 <= r < 3, 0 <= w < 34, 0 <= v < 3")
    image = image.replace("0 <= s < 3", "0 <= s < 3, 0 <= q < 32, 0 <= u < 3")
    fanout = "  - !Container {name: Array, spatial: [{name: x, fanout: 4, loop_bounds: [{expression: p, operator: '==', value: 1}]}]}\n"
    for extra, variables in (("", [("p",), ("p", "q")]), (fanout, [("p",), ("q",), ("p", "q"), ("q", "p")])):
        spec = load_text(ARCH.replace("SIZE", "900").replace("  - !Compute", f"{extra}  - !Compute"), image)
        assert list(turn_variables(spec, ("A", "B"), WindowForms(spec))) == variables


def test_three_loops_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, columns and channels, in a buffer for five values: with two loops alone there is no room for windows."""
    layers = """
workload:
  bits_per_value: {All: 8}
  einsums:
  - {name: A, tensor_accesses: [{name: I, projection: {H: h, W: w, C: c}}, {name: T, projection: {H: h, W: w, C: c}, output: true}],
     iteration_space_shape: [0 <= h < 3, 0 <= w < 3, 0 <= c < 2]}
  - {name: B, tensor_accesses: [{name: T, projection: {H: p + r, W: q + s, C: c}}, {name: O, projection: {P: p, Q: q, C: c}, output: true}],
     iteration_space_shape: [0 <= p < 2, 0 <= q < 2, 0 <= r < 2, 0 <= s < 2, 0 <= c < 2]}
"""
    spec = load_text(ARCH.replace("SIZE", "40"), layers)
    best = fusiest.map(spec, "energy", jobs=1).best("energy")
    assert simulate(spec, best.looptree).wrong_tensors == ()
    assert sum(isinstance(node, Temporal) for node in best.looptree.nodes) == 3
    one = fusiest.map(spec, "energy", jobs=1, max_fused_loops=1).best("energy")
    assert sum(isinstance(node, Temporal) for node in one.looptree.nodes) <= 1  # above all Einsums
    monkeypatch.setattr(interleavings, "MOST_LOOPS", 2)
    assert best.energy < 0.5 * fusiest.map(spec, "energy", jobs=1).best("energy").energy


def test_a_window_made_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer for four values: three rows of U, for which A and B make T row by row in a loop of their own."""
    layers = """
workload:
  bits_per_value: {All: 8}
  einsums:
  - {name: A, tensor_accesses: [{name: I, projection: {H: h}}, {name: T, projection: {H: h}, output: true}],
     iteration_space_shape: [0 <= h < 6]}
  - {name: B, tensor_accesses: [{name: T, projection: {H: h}}, {name: U, projection: {H: h}, output: true}],
     iteration_space_shape: [0 <= h < 6]}
  - {name: C, tensor_accesses: [{name: U, projection: {H: p + r}}, {name: O, projection: {P: p}, output: true}],
     iteration_space_shape: [0 <= p < 4, 0 <= r < 3]}
"""
    spec = load_text(ARCH.replace("SIZE", "32"), layers)
    best = fusiest.map(spec, "energy", jobs=1).best("energy")
    assert simulate(spec, best.looptree).wrong_tensors == ()
    monkeypatch.setattr(with_windows, "MOST_ATTEMPTS", 0)
    assert best.energy < 0.8 * fusiest.map(spec, "energy", jobs=1).best("energy").energy


def test_a_known_mapping_with_windows_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the best that is known before any other is looked for; not if none with windows are asked for."""
    spec = load_text(ARCH.replace("SIZE", "160"), PAIR)
    tree = fusiest.map(spec, "energy", jobs=1).best("energy").looptree
    monkeypatch.setattr(plans, "MOST_EINSUMS", 1)
    for windows, known in (("all", True), ("none", False)):
        result = run(spec, Options(objective=("energy",), windows=windows, jobs=1), prior=Prior(start=[tree]))
        assert (result.best("energy").looptree == tree) == known


def test_rows_that_nobody_reads() -> None:
    """B reads every third row: windows leave out the others, so room for everything is no bound."""
    skipping = PAIR.replace("H: p + s", "H: 3 * p + s").replace("p < 32, 0 <= s < 3", "p < 11, 0 <= s < 2")
    for size, bounded in (("2000", False), ("160", False)):
        spec = load_text(ARCH.replace("SIZE", size), skipping)
        assert can_be_bounded(spec) == bounded
        assert not windows_save_nothing(spec)
    assert can_be_bounded(load_text(ARCH.replace("SIZE", "160"), PAIR))


def test_windows_where_nothing_else_fits() -> None:
    """T must stay on chip, and there is room for a few of its rows only."""
    arch = ARCH.replace("SIZE", "80").replace("keep: ~Intermediates, may_keep: All", "keep: ~Intermediates")
    spec = load_text(arch, PAIR)
    with pytest.raises(NoMapping):
        fusiest.map(spec, "energy", windows="none", jobs=1)
    result = fusiest.map(spec, "energy", windows="all", jobs=1)
    assert not result.optimal
    assert simulate(spec, result.best("energy").looptree).wrong_tensors == ()
    with pytest.raises(NoMapping):
        fusiest.map(load_text(arch.replace("80", "16"), PAIR), "energy", windows="all", jobs=1)


def test_the_plans_of_two_layers() -> None:
    """32 rows of O in n iterations: of T, 32/n + 2 rows are needed, and two of them are kept or made again."""
    spec = load_text(ARCH.replace("SIZE", "160"), PAIR)
    assert list(window_runs(spec)) == [("A", "B")]
    plans = {(plan.times, bool(plan.kept)): plan for plan in window_plans(spec, ("A", "B"))}
    assert plans.keys() == set(itertools.product((2, 4, 8, 16, 32), (True, False)))
    for (times, kept), plan in plans.items():
        rows = 32 // times
        assert dict(plan.windows) == {"T": WindowLine(0, rows + 2, rows)}
        assert plan.tiles["A"] == (WindowLine(2, rows + 2, rows) if kept else WindowLine(0, rows + 2, rows))
        assert tuple(plan.tiling("A")) == ((rows + 2, rows, rows) if kept else (rows + 2, rows + 2, rows))


def test_what_is_made_again_costs_what_the_search_says() -> None:
    """Without padding, all windows that are made again are alike: then the spec that is searched is exact."""
    spec = load_text(ARCH.replace("SIZE", "160"), PAIR)
    compared = 0
    for plan in window_plans(spec, ("A", "B")):
        if not plan.kept:
            found = fusiest.map(unrolled(spec, plan), "energy", windows="none", jobs=1).best("energy")
            tree = rolled(found.looptree, plan)
            if tree is not None:
                cost = fusiest.evaluate(spec, tree)
                assert (cost.energy, cost.latency) == pytest.approx((found.energy, found.latency), rel=1e-12)
                compared += 1
    assert compared >= 3


@st.composite
def layers(draw: st.DrawFn) -> fusiest.Spec:
    return draw_layers(Dice(draw))


def buffer_size(spec: fusiest.Spec) -> float:
    return next(float(n.size) for n in flatten(spec.require_arch().nodes) if isinstance(n, Memory) and n.name == "GLB")


@proving.floors(4, windowed=0.1)
@proving.cases(5, proving=200)
@given(layers())
def test_windows_are_valid_and_never_worse(spec: fusiest.Spec) -> None:
    try:
        plain = fusiest.map(spec, "energy", windows="none", jobs=1)
    except NoMapping:
        plain = None
    try:
        result = fusiest.map(spec, "energy", windows="all", jobs=1)
    except NoMapping:
        assert plain is None
        TALLY["compared"] += 1
        return
    best = result.best("energy")
    (least,) = least_with_windows(spec, result.options)
    assert least.energy <= best.energy * (1 + 1e-9)
    simulation = simulate(spec, best.looptree)
    assert simulation.wrong_tensors == ()
    assert simulation.peak_occupancy_bits.get("GLB", 0) <= buffer_size(spec)
    try:
        kept = fusiest.map(spec, "energy", windows="retained", jobs=1).best("energy").energy
    except NoMapping:
        kept = math.inf
    assert best.energy <= kept * (1 + 1e-12)
    if plain is not None:
        assert kept <= plain.best("energy").energy * (1 + 1e-12)
        TALLY["windowed"] += best.energy < plain.best("energy").energy * (1 - 1e-9)
    TALLY["compared"] += 1


def test_windows_that_are_longer_than_all_rows() -> None:
    """B reads rows -1 to 1 of T, which has one: it is made again for each of B's, in windows of two that are mostly padding."""
    rows = PAIR.replace("0 <= h < 34, 0 <= r < 3", "0 <= h < 1, 0 <= r < 1").replace("p + s}", "p + s - 1}")
    rows = rows.replace("0 <= p < 32, 0 <= s < 3", "0 <= p < 2, 0 <= s < 2")
    spec = load_text(ARCH.replace("SIZE", "40"), rows)
    oracle = ExhaustiveWindows(spec)
    best = fusiest.map(spec, "energy", jobs=1).best("energy")
    assert best.energy <= oracle.search() * (1 + 1e-9)
    plan = window_plan(spec, ("A", "B"), "p", 1, frozenset())
    assert plan is not None
    assert plan.tiles["A"].length == 2


def test_windows_are_not_for_everything() -> None:
    spec = load_text(ARCH.replace("SIZE", "160"), PAIR)
    with pytest.raises(SpecError, match="leave out usage or windows"):
        fusiest.map(spec, windows="all", usage="Buf")
    with pytest.raises(SpecError, match="windows 'al' is not known; did you mean 'all'"):
        fusiest.map(spec, windows="al")


@pytest.mark.parametrize(("name", "mapped"), [("no_window_fits.yaml", True), ("nothing_agrees.yaml", False)])
def test_where_no_windows_are_found(name: str, mapped: bool) -> None:
    """By default it is as without windows: the same mapping, or none."""
    spec = fusiest.load(Path(__file__).parent / "found_cases" / name)
    if mapped:
        plain, best = (fusiest.map(spec, "edp", jobs=1, windows=w).best("edp") for w in ("none", "all"))
        assert best.edp == plain.edp
    else:
        with pytest.raises(NoMapping):
            fusiest.map(spec, "edp", jobs=1)


@pytest.mark.parametrize(
    ("bits", "workload", "size"),
    [
        ("4", "{All: 4}", 40),
        ("{Inputs: 4, Other: 4}", "{All: 4}", 56),
        ("{T: 4}", "{T: 4, Other: 8}", 56),
        ("16", "{All: 16}", 224),
    ],
)
def test_windows_take_the_bits_that_the_memory_gives_them(bits: str, workload: str, size: int) -> None:
    """Bits that the buffer gives are as good as bits that the workload gives, where an access moves one value."""
    accesses = "component_class: Dummy, values_per_action: 1,"
    chip = ARCH.replace("SIZE", str(size)).replace("component_class: Dummy,", accesses)
    plain = load_text(chip, PAIR.replace("{All: 8}", workload))
    own = load_text(chip.replace("name: Buf,", f"name: Buf, bits_per_value: {bits},"), PAIR)
    found, wanted = (fusiest.map(spec, "energy", jobs=1) for spec in (own, plain))
    assert found.best("energy").energy == wanted.best("energy").energy
    assert (found.optimal, found.gap) == (wanted.optimal, wanted.gap)


def test_windows_begin_with_tables_of_more_einsums_than_differ() -> None:
    """Counts of tables and of distinct Einsums are equal, but the table of one Einsum is missing."""
    spec = fusiest.load(Path(__file__).parent / "found_cases" / "tables_of_equal_einsums.yaml")
    best, plain = (fusiest.map(spec, "edp", jobs=1, windows=w).best("edp") for w in ("all", "none"))
    assert simulate(spec, best.looptree).wrong_tensors == ()
    assert best.edp <= plain.edp
