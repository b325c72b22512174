"""What `map` and `evaluate` print says what the model and the mapper found."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from rich.text import Span, Text

import fusiest
from fusiest.mapper.results.result import LARGE_GAP, Result
from fusiest.show import bits, si
from fusiest.spec.reading.loading import load_texts
from fusiest.terminal.console import render
from fusiest.terminal.summary import MOST_POINTS, chosen_points, consumers, evaluation_parts, result_parts
from tests.terminal.streams import Terminal

HALF_FUSED = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: All},
             actions: [{name: read, throughput: 1e9}, {name: write, throughput: 1e9}]}
  - !Memory {name: Buffer, size: inf, component_class: Dummy, tensors: {keep: All}}
  - !Compute {name: MAC, component_class: Dummy}
workload:
  rank_sizes: {M: 4}
  bits_per_value: {All: 8}
  einsums: [{einsum: "A[m] = X[m]", is_copy_operation: True}, "B[m] = A[m]", "C[m] = B[m]"]
mapping:
  nodes:
  - !Storage {tensors: [X, A, C], component: DRAM}
  - !Storage {tensors: [B], component: Buffer}
  - !Sequential
    nodes:
    - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Compute {einsum: A, component: MAC}]}
    - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Compute {einsum: B, component: MAC}]}
    - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Compute {einsum: C, component: MAC}]}
"""


@pytest.fixture(scope="module")
def result() -> Result:
    """A front of several mappings: a fast memory that costs and a slow one that does not."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=2, M=16, KN=16, MainMemoryEnergy=20e-12, GlobalBufferSize=512)
    return fusiest.map(spec)


def lines(result: Result, tree: bool = False) -> list[str]:
    return render(result_parts(result, tree), Terminal(tty=False)).splitlines()


def test_the_headline_says_what_is_proven(result: Result) -> None:
    assert re.match(r"\d+ mappings?, proven optimal  \(\d+\.\d\d s, \d+ pmappings\)$", lines(result)[0])
    cut = dataclasses.replace(result, optimal=False, gap=0.125)
    assert "not proven optimal: at most 12.50% better is possible" in lines(cut)[0]
    stats = dataclasses.replace(result.stats, orders="given (more than 10,000 sets of finished Einsums)")
    assert lines(dataclasses.replace(result, stats=stats))[1] == f"Order of Einsums: {stats.orders}"


def test_a_large_gap_is_said_first_and_in_red(result: Result) -> None:
    """With the option that may close it."""
    assert not result.caution
    assert not dataclasses.replace(result, optimal=False, gap=LARGE_GAP).caution
    cures = {
        "time limit": "--time-limit",
        "memory": "--memory-limit",
        "interrupt": "run to its end",
        None: "--windows none",
    }
    for stopped, cure in cures.items():
        options = dataclasses.replace(result.options, windows="all")
        cut = dataclasses.replace(result, optimal=False, gap=0.7, stopped=stopped, options=options)
        assert lines(cut)[0].startswith("Gap 70%: ")
        assert cure in lines(cut)[0]
        (head, *_) = result_parts(cut)
        assert isinstance(head, Text)
        assert head.spans[0] == Span(0, len(cut.caution) + 1, "bold red")
    stats = dataclasses.replace(result.stats, orders="given (more than 10,000 sets of finished Einsums)")
    assert "--orders given" in dataclasses.replace(result, optimal=False, gap=0.7, stats=stats).caution


@pytest.mark.parametrize(
    ("given", "fewer"),
    [
        ({"windows": "all"}, ", or leave it fewer choices (--windows none, --max-fused-loops 1)."),
        ({"windows": "none"}, ", or leave it fewer choices (--max-fused-loops 1)."),
        ({"windows": "all", "max_fused_loops": 1}, ", or leave it fewer choices (--windows none)."),
        ({"windows": "none", "max_fused_loops": 0}, "(--time-limit)."),
    ],
)
def test_a_caution_names_no_option_that_is_given(given: dict[str, Any], fewer: str, result: Result) -> None:
    options = dataclasses.replace(result.options, **given)
    cut = dataclasses.replace(result, optimal=False, gap=0.7, stopped="time limit", options=options)
    assert cut.caution.endswith(fewer)


def test_totals_have_units(result: Result) -> None:
    best = result.best("edp")
    text = "\n".join(lines(result))
    assert re.search(rf"^energy      {re.escape(si(best.energy, 'J'))} +dynamic \S+ \S*J, leakage 0 J$", text, re.M)
    assert f"latency     {si(best.latency, 's')}\n" in text
    assert f"EDP         {si(best.edp, 'Js')}\n" in text
    count = 2 * 2 * 16**3  # two matmuls; a MAC is two operations
    speed, efficiency = si(count / best.latency, "op/s"), f"{count / best.energy / 1e12:.4g} TOPS/W"
    assert re.search(
        rf"^operations  {si(count, 'op')} +{speed}, {efficiency}, (\S+ TOPS/mm², )?a MAC is two$", text, re.M
    )


def test_every_einsum_has_its_bottleneck_and_shares_add_up(result: Result) -> None:
    best = result.best("edp")
    found = lines(result)
    shares = []
    for name, e in best.evaluation.einsums.items():
        (line,) = [line for line in found if line.startswith(f"{name} ")]
        bottleneck = max(e.latency_per_component.items(), key=lambda item: item[1])[0]
        assert line.endswith(f"  {bottleneck}")
        assert si(e.energy, "J") in line
        shares.append([float(share) for share in re.findall(r"([\d.]+)%", line)])
    assert [sum(column) for column in zip(*shares, strict=True)] == pytest.approx([100, 100], abs=0.2)


def test_the_five_largest_consumers(result: Result) -> None:
    evaluation = result.best("edp").evaluation
    every = consumers(evaluation)
    assert sum(joules for _, joules in every) == pytest.approx(evaluation.energy)
    assert [joules for _, joules in every] == sorted((joules for _, joules in every), reverse=True)
    found = lines(result)
    start = found.index("most energy") + 1
    assert [line.split("  ")[0] for line in found[start : start + 5]] == [name for name, _ in every[:5]]
    assert found[start + 5] == ""


def test_fused_sets_with_their_loops() -> None:
    spec = fusiest.load("simple", "matmuls", "fused_matmuls_to_simple", N_EINSUMS=2)
    assert spec.mapping is not None
    text = render(evaluation_parts(spec, spec.mapping, fusiest.evaluate(spec)), Terminal(tty=False))
    assert "fused sets\n  Matmul0 Matmul1\n    in GlobalBuffer: T1\n    for m in 0..128: Matmul0 Matmul1\n" in text


def test_what_is_not_fused_is_no_fused_set() -> None:
    spec = fusiest.load("simple", "matmuls", "unfused_matmuls_to_simple", N_EINSUMS=2)
    assert spec.mapping is not None
    text = render(evaluation_parts(spec, spec.mapping, fusiest.evaluate(spec)), Terminal(tty=False))
    assert "\nnothing is fused\n\nEinsum" in text
    mixed = load_texts({"spec": HALF_FUSED}, {})
    assert mixed.mapping is not None
    text = render(evaluation_parts(mixed, mixed.mapping, fusiest.evaluate(mixed)), Terminal(tty=False))
    assert "\nfused sets\n  B C\n    in Buffer: B\nnot fused: A\n" in text
    assert re.search(r"^A +0 J +0 s +0.0% +–$", text, re.M)  # a copy that moves nothing waits for nothing


def test_space_of_each_memory(result: Result) -> None:
    peaks = result.best("edp").evaluation.peak_occupancy_bits
    text = "\n".join(lines(result))
    assert re.search(rf"GlobalBuffer +{bits(peaks['GlobalBuffer'])} +64 B +[\d.]+%$", text, re.M)
    assert re.search(rf"MainMemory +{bits(peaks['MainMemory'])} +unlimited$", text, re.M)


def test_a_memory_that_holds_nothing_keeps_its_row() -> None:
    workload = fusiest.dump(fusiest.load("matmuls", N_EINSUMS=1, M=4, KN=4))
    arch = """
arch:
  nodes:
  - !Memory {name: Far, component_class: Dummy, size: inf, tensors: {keep: All}}
  - !Memory {name: Spare, component_class: Dummy, size: 2 KiB, tensors: {keep: Nothing}}
  - !Compute {name: MAC, component_class: Dummy}
"""
    text = "\n".join(lines(fusiest.map(load_texts({"arch": arch, "workload": workload}, {}), jobs=1)))
    assert re.search(r"^Far +48 B +unlimited$", text, re.M)
    assert re.search(r"^Spare +unused +2 KiB$", text, re.M)


def test_the_tree_is_shown_on_request(result: Result) -> None:
    assert not any(" on MAC" in line for line in lines(result))
    assert sum("Matmul1 on MAC" in line for line in lines(result, tree=True)) == 1


def test_a_long_front_is_shown_in_part(result: Result) -> None:
    best = result.best("edp")
    many = dataclasses.replace(result, mappings=[best] * 30 + [dataclasses.replace(best) for _ in range(70)])
    found = lines(many)
    assert found[0].startswith("100 mappings")
    points = [line for line in found if re.match(r" *\d+  ", line)]
    assert len(points) == MOST_POINTS - 1
    assert points[0].endswith("shown below")


@pytest.mark.parametrize("count", [1, 2, 12, 13, 1000])
def test_points_of_a_front(count: int) -> None:
    for best in {0, count // 3, count - 1}:
        points = chosen_points(count, best)
        assert {0, best, count - 1} <= set(points)
        assert len(points) <= MOST_POINTS
        assert points == sorted(set(points))
