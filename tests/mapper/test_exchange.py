"""Mappings in which Einsums use tensors that are not finished: found if asked for, told of, and never by default."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

import fusiest
from fusiest.base.objective import OBJECTIVES
from fusiest.looptree.nodes import Storage
from fusiest.mapper.results.result import Mapping
from fusiest.model.fusion import backing_memories
from fusiest.report import subject_of
from fusiest.report.data.whole import views
from fusiest.spec.dumping import dump
from tests.command_line import Capture
from tests.command_line import run as run_command
from tests.drawing.dice import Dice
from tests.load_text import load_text
from tests.mapper.test_exhaustive_workload import LIMITS, CostPoint, check_front, covers, run, same_front
from tests.model.test_model_vs_simulator import check_costs
from tests.proving import floors
from tests.reference.exhaustive import TooManyTrees
from tests.reference.exhaustive_workload import WorkloadMapper
from tests.reference.joined_tree import NoTree, joined_tree
from tests.reference.shape_chains import ShapeChains
from tests.reference.simulator import simulate
from tests.strategies import Case
from tests.values import check_values
from tests.workload_strategies import WorkloadCase, workload_cases

DIAMOND = """
arch:
  nodes:
  - !Memory
    name: DRAM
    size: inf
    component_class: Dummy
    tensors: {{keep: {dram}, may_keep: {may_dram}}}
    actions: [{{name: read, energy: {energy}, throughput: {throughput}}}, {{name: write, energy: 5, throughput: inf}}]
  - !Memory
    name: GLB
    size: {glb}
    component_class: Dummy
    tensors: {{keep: {keep}, may_keep: {may}}}
    actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]
  {reg}
  - !Compute
    name: MAC
    component_class: Dummy
    actions: [{{name: compute, energy: 1, throughput: 1}}]
workload:
  rank_sizes: {{M: {m}, D: {d}, N: {n}}}
  bits_per_value: {{All: 8}}
  einsums:
  - {{name: E0, tensor_accesses: [{{name: A, projection: [m]}}, {{name: T0, projection: {{M: m, D: d}}, output: true}}]}}
  - name: E1
    tensor_accesses:
    - {{name: T0, projection: {{M: m, D: d}}}}
    - {{name: W, projection: [n]}}
    - {{name: T1, projection: {made}, output: true}}
  - name: E2
    tensor_accesses:
    - {{name: T0, projection: {{M: m, D: d}}}}
    - {{name: T1, projection: {used}}}
    - {{name: Z, projection: {out}, output: true}}
"""
"""T0 is used twice: for T1, and together with T1. It need not leave the chip if E2 uses T1 before E1 has finished it."""
REG = """- !Memory
    name: Reg
    size: {size}
    component_class: Dummy
    tensors: {{keep: {keep}, may_keep: {may}}}
    actions: [{{name: read, energy: 0, throughput: inf}}, {{name: write, energy: 0, throughput: inf}}]"""


def diamond(**numbers: object) -> fusiest.Spec:
    given = {
        "dram": "~Intermediates", "may_dram": "All", "energy": 20, "throughput": "inf", "glb": 48, "keep": "~DRAM",
        "may": "All", "reg": "", "m": 4, "d": 2, "n": 1, "made": "{M: m}", "used": "{M: p}", "out": "[m]",
    }  # fmt: skip
    return load_text(DIAMOND.format(**{**given, **numbers}))


@st.composite
def diamonds(draw: st.DrawFn, glb: object = None) -> WorkloadCase:
    """`glb`: the size of the buffer, if it is not to be drawn."""
    dice = Dice(draw)
    ranks = dice.one_of(["{D: d}", "{M: m}", "{M: m, D: d}", "{D: d, N: n}", "{M: m, N: n}"])
    register = REG.format(
        size=8 * dice.number(1, 4), keep=dice.one_of(["Nothing", "T1"]), may=dice.one_of(["Nothing", "T1", "Outputs"])
    )
    spec = diamond(
        dram=dice.one_of(["~Intermediates", "~T0", "~Intermediates"]),
        may_dram=dice.one_of(["All", "Nothing", "T1"]),
        energy=dice.one_of([20, 5, 50]),
        throughput=dice.one_of(["inf", "1"]),
        glb=glb or 8 * dice.number(3, 12),
        keep=dice.one_of(["~DRAM", "~DRAM | T1", "~DRAM | Inputs"]),
        may=dice.one_of(["All", "Intermediates"]),
        reg=register if dice.chance(30) else "",
        m=dice.one_of([4, 3, 2]),
        d=dice.one_of([2, 1, 3]),
        n=dice.one_of([1, 2]),
        made=ranks,
        used=ranks.replace("M: m", dice.one_of(["M: m", "M: p", "M: m - 1", "M: m + 1", "M: p - 1", "M: 3 - p"])),
        out=dice.one_of(["[m]", "{M: m, D: d}", "{D: d}"]),
    )
    return WorkloadCase(spec, "given" if dice.chance(50) else "all")


def test_only_if_asked_for(tmp_path: Path, capsys: Capture) -> None:
    """T0 does not fit the buffer: it goes to DRAM and back, unless E2 may use what there is of T1 by then."""
    spec = diamond()
    finished, free = (
        fusiest.map(spec, "energy", exchange=e, windows="none", jobs=1).best("energy") for e in ("finished", "any")
    )
    assert backing_memories(finished.looptree)["T0"] == "DRAM"
    assert backing_memories(free.looptree)["T0"] == "GLB"
    assert free.energy < finished.energy
    assert finished.evaluation.warnings == simulate(spec, finished.looptree).wrong_tensors == ()
    assert [w[:53] for w in free.evaluation.warnings] == ["Einsum E2 uses T1 before Einsum E1 has finished it: t"]
    assert simulate(spec, free.looptree).wrong_tensors == ("Z",)
    assert "Warning: Einsum E2 uses T1" in free._repr_html_()
    assert "Warning" not in finished._repr_html_()

    file, result = tmp_path / "diamond.yaml", tmp_path / "result.json"
    file.write_text(dump(spec).replace("size: 48", "size: 48 b"))
    asked = "map", str(file), str(file), "--objective", "energy", "--jobs", "1", "--quiet", "--json", str(result)
    status, out, err = run_command(capsys, *asked)
    assert (status, err) == (0, "")
    assert "warnings" not in out
    status, out, err = run_command(capsys, *asked, "--exchange", "any")
    assert (status, err) == (0, f"warning: {free.evaluation.warnings[0]}\n")
    assert re.search(r"warnings +1\b", out)
    (saved,) = json.loads(result.read_text())["mappings"]
    assert saved["warnings"] == list(free.evaluation.warnings)
    assert f"warning: {saved['warnings'][0]}" in run_command(capsys, "compare", str(result), str(result))[1]


PAIR = """
arch:
  nodes:
  - !Memory {{name: DRAM, size: inf, component_class: Dummy, leak_power: 0, tensors: {{keep: ~Intermediates, may_keep: All}},
             actions: [{{name: read, energy: 10, throughput: inf}}, {{name: write, energy: 10, throughput: inf}}]}}
  - !Memory {{name: GLB, size: {glb}, component_class: Dummy, leak_power: 0, tensors: {{keep: ~DRAM, may_keep: T}},
             actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]}}
  - !Compute {{name: MAC, component_class: Dummy, leak_power: 0, actions: [{{name: compute, energy: 0, throughput: 1}}]}}
workload:
  bits_per_value: {{All: 1}}
  iteration_space_shape: {{n: 0 <= n < 64, k: 0 <= k < 4, q: 0 <= q < {q}}}
  einsums:
  - {{name: T, tensor_accesses: [{{name: A, projection: [n, k]}}, {{name: T, projection: {{N: {made}}}, output: true}}]}}
  - {{name: U, tensor_accesses: [{{name: T, projection: {{N: {used}}}}}, {{name: U, projection: [q], output: true}}]}}
"""


@pytest.mark.parametrize(
    ("made", "used", "q", "fused"),
    [
        ("n", "q", 64, True), ("n + 1", "q + 1", 64, True), ("63 - n", "63 - q", 64, True), ("2*n", "2*q", 64, True),
        ("n", "q - 1", 64, False), ("n", "q + 1", 64, False), ("n", "q + 32", 64, False), ("n", "63 - q", 64, False),
        ("n", "2*q", 32, False), ("n", "2*q", 64, False), ("n", "q - 1", 63, False), ("n", "q + 1", 63, False),
        ("n + 1", "q", 64, False), ("63 - n", "q", 64, False), ("2*n", "q", 64, False),
    ],
)  # fmt: skip
def test_shifted_mirrored_and_strided_indices(made: str, used: str, q: int, fused: bool) -> None:
    """256 values of A are read from DRAM, U's are written there: 2,560 + 10 q. T is added up in the buffer with 256 writes
    and 192 reads. If one value of it is enough there, U reads it there: q more. If not, and the buffer has one, T goes
    through DRAM: 64 reads and 64 writes of 10, and q reads of 10. If all of T fits the buffer, any index will do.
    """
    fused_energy = 2560 + 10 * q + 256 + 192 + q
    unfused_energy = 2560 + 10 * q + 256 + 192 + 64 + 640 + 10 * q
    for glb, expected in ((1, fused_energy if fused else unfused_energy), (127, fused_energy)):
        spec = load_text(PAIR.format(glb=glb, made=made, used=used, q=q))
        (best,) = fusiest.map(spec, "energy", windows="none", jobs=1).mappings
        assert best.energy == expected
        check_values(spec, [best])


SLICE = """
arch:
  nodes:
  - !Memory {{name: DRAM, size: inf, component_class: Dummy, leak_power: 0, tensors: {{keep: ~Intermediates, may_keep: All}},
             actions: [{{name: read, energy: 10, throughput: inf}}, {{name: write, energy: 10, throughput: inf}}]}}
  - !Memory {{name: GLB, size: {glb}, component_class: Dummy, leak_power: 0, tensors: {{keep: ~DRAM}},
             actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]}}
  - !Compute {{name: MAC, component_class: Dummy, leak_power: 0, actions: [{{name: compute, energy: 0, throughput: 1}}]}}
workload:
  bits_per_value: {{All: 1}}
  iteration_space_shape: {{n: 0 <= n < 8, q: 0 <= q < 4}}
  einsums:
  - {{name: T, tensor_accesses: [{{name: A, projection: [n]}}, {{name: T, projection: {{N: n}}, output: true}}]}}
  - name: S
    is_copy_operation: true
    tensor_accesses: [{{name: T, projection: {{N: q + 2}}}}, {{name: S, projection: {{Q: q}}, output: true}}]
  - {{name: R, tensor_accesses: [{{name: S, projection: {{Q: q}}}}, {{name: R, projection: {{Q: q}}, output: true}}]}}
  - {{name: Z, tensor_accesses: [{{name: R, projection: {{Q: q}}}}, {{name: Z, projection: {{Q: q}}, output: true}}]}}
"""


@pytest.mark.parametrize(("glb", "energy"), [(9, 80 + 8 + 4 + 4 + 4 + 40), (8, 80 + 8 + 4 + 40 + 40 + 40)])
def test_a_copy_of_a_part_takes_the_space_of_the_whole(glb: int, energy: int) -> None:
    """8 values of A are read from DRAM, 4 of Z written there. T has 8 values in the buffer; its copy S, a part of it, lies in
    their place while R is made and used, one value at a time. If there is no room for that one, R goes through DRAM: 40 to
    write it and 40 to read it, in place of 4 and 4.
    """
    spec = load_text(SLICE.format(glb=glb))
    (best,) = fusiest.map(spec, "energy", windows="none", jobs=1).mappings
    check_values(spec, [best])
    assert best.energy == energy
    check_front(WorkloadCase(spec))


def test_other_exchanges_are_not_known(capsys: Capture) -> None:
    status, _, err = run_command(capsys, "map", "simple", "matmuls", "--exchange", "finishd")
    assert (status, err) == (2, "exchange 'finishd' is not known; did you mean 'finished'?\n")


def test_the_report_shows_warnings() -> None:
    subject = subject_of(fusiest.map(diamond(), "energy", exchange="any", jobs=1))
    assert [view["warnings"] for view in views(subject)] == [list(subject.result.mappings[0].evaluation.warnings)]
    assert "Warning: Einsum E2 uses T1" in subject.result._repr_html_()


def mapped(case: WorkloadCase, objective: str, exchange: str) -> list[Mapping]:
    try:
        mappings = fusiest.map(
            case.spec, objective, orders=case.orders, exchange=exchange, windows="none", jobs=1
        ).mappings
    except fusiest.NoMapping:
        return []
    except fusiest.FusiestError as error:
        assume("not supported" not in str(error))
        raise
    check_values(case.spec, mappings)
    return mappings


def points(mappings: list[Mapping]) -> list[CostPoint]:
    return [(m.energy, m.latency) for m in mappings]


@floors(30, fused=0.25)
@run(30)
@given(case=diamonds())
def test_any_exchange_finds_the_front(case: WorkloadCase) -> None:
    check_front(case, "any")


def test_producer_and_consumer_hold_the_same_above_their_common_loop() -> None:
    """E2 needs all of T1 in the buffer in each turn. E1 would do with one element, but must hold it there as well."""
    case = WorkloadCase(diamond(dram="~T0", glb=56))
    best = mapped(case, "energy", "any")[0]
    assert best.looptree.nodes[1] == Storage(tensors=("T1",), component="GLB")
    check_front(case, "any", dataclasses.replace(LIMITS, trees=40_000))


@run(20)
@given(case=st.one_of(workload_cases(), diamonds()), objective=st.sampled_from(["energy,latency", *OBJECTIVES]))
def test_both_find_the_same_where_no_tensor_is_used_unfinished(case: WorkloadCase, objective: str) -> None:
    finished, free = mapped(case, objective, "finished"), mapped(case, objective, "any")
    warned = any(m.evaluation.warnings for m in free)
    event("warned" if warned else "same")
    assert not any(m.evaluation.warnings for m in finished)
    if objective == "energy,latency":
        assert all(covers(points(free), p) for p in points(finished))
        assert warned or same_front(points(free), points(finished))
    elif finished:
        score, best = (getattr(own[0], objective) for own in (finished, free))
        assert best <= score * (1 + 1e-9)
        assert warned or math.isclose(best, score, rel_tol=1e-9)


@st.composite
def joined_trees(draw: st.DrawFn) -> Case:
    """A diamond with some LoopTree of it, from all that there are with common loops; memories are large enough."""
    spec = draw(diamonds(glb="inf")).spec
    try:
        mapper = WorkloadMapper(spec, LIMITS, "any")
    except TooManyTrees:
        assume(False)
        raise
    order = tuple(spec.info.einsums)
    chains = [(shapes, common) for shapes, common in ShapeChains(spec, order, mapper.classes).all() if any(common)]
    assume(chains)
    shapes, common = draw(st.sampled_from(chains))
    picks = [draw(st.sampled_from(mapper.classes[name][shape])) for name, shape in zip(order, shapes, strict=True)]
    try:
        return Case(spec, joined_tree([c.nodes for c in picks], common, mapper.tensors, mapper.copies))
    except NoTree:
        assume(False)
        raise


@run(30)
@given(joined_trees())
def test_what_the_model_does_not_warn_of_is_right(case: Case) -> None:
    """Costs agree also if tensors are used before they are finished; values are right if the model does not warn."""
    evaluation, simulation = fusiest.evaluate(case.spec, case.tree), simulate(case.spec, case.tree)
    check_costs(evaluation, simulation)
    event(f"warnings: {bool(evaluation.warnings)}, wrong values: {bool(simulation.wrong_tensors)}")
    assert evaluation.warnings or not simulation.wrong_tensors
