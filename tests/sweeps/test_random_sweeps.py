"""Random small sweeps: every answer equals `fusiest map` on its design, with each kind of reuse on or off."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fusiest
from fusiest.base.objective import cost_of
from fusiest.mapper.results.result import Result
from fusiest.pmapping.explain.why_none import NoMapping
from fusiest.spec.hardware.architecture import flatten
from fusiest.sweeps import Reuse, Store
from fusiest.sweeps.file.parameters import Figure
from fusiest.sweeps.file.sweepfile import make_sweep
from fusiest.sweeps.reuse.design_bounds import least_costs
from fusiest.sweeps.reuse.table_cache import own_shelf
from fusiest.sweeps.runs.attempt import Outcome, SearchTask, SweepTask, attempt
from fusiest.sweeps.runs.driver import Driver, run_all
from fusiest.sweeps.views.answers import Answer
from fusiest.sweeps.views.best_designs import DesignFigures, best_designs, design_figures
from tests.proving import PROVE, cases

compared: Counter[str] = Counter()


class Here:
    """Does tasks in this process, one at a time."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Outcome]] = []

    @property
    def idle(self) -> int:
        return 1 - len(self.done)

    @property
    def running(self) -> int:
        return len(self.done)

    def submit(self, key: str, task: SweepTask) -> None:
        if isinstance(task, SearchTask) and task.family:
            known = bool(own_shelf().tables(task.spec, task.options))
            compared["from tables"] += known
            compared["from open tables"] += not known and bool(
                own_shelf().open_tables(task.spec, task.options, task.rates)
            )
            before = points_known()
            compared["from a front of sizes"] += own_shelf().result(task.spec, task.options) is not None
            compared["fronts gone on"] += points_known() > before
            compared["begun with mappings"] += bool(own_shelf().start(task.family))
        self.done.append((key, attempt(task)))

    def finished(self, seconds: float) -> Iterator[tuple[str, Outcome]]:
        done, self.done = self.done, []
        yield from done


def points_known() -> int:
    """How many best mappings of smaller sizes this process knows."""
    return sum(len(front.points) for _, front in own_shelf().fronts.values())


CHIP = """
arch:
  nodes:
  - !Memory
    name: DRAM
    size: inf
    tensors: {keep: ~Intermediates, may_keep: All}
    leak_power: %(leak)s
    actions: [{name: read, energy: 8, throughput: %(speed)s}, {name: write, energy: 9, throughput: %(speed)s}]
  - !Memory
    name: GLB
    size: %(size)s
    tensors: {keep: ~DRAM, may_keep: All}
    leak_power: 0
    actions: [{name: read, energy: 1, throughput: 64}, {name: write, energy: 1, throughput: 64}]%(latency)s
  - !Container
    name: PE
    spatial: [{name: X, fanout: %(fanout)s}]
  - !Compute
    name: MAC
    leak_power: 0
    actions: [{name: compute, energy: 0.5, throughput: 4}]
"""
PARAMETERS: dict[str, list[Any]] = {
    "GLB.size": [256, 330, 420, 500, 600, 700, 800, 950, 1200, 1500, 2500], "DRAM.read.throughput": [2, 9, 40],
    "DRAM.write.energy": [9, 30],
    "GLB.read.throughput": [3, 20, 64], "GLB.leak_power": [0, 0.5], "PE.X.fanout": [1, 4], "MAC.compute.energy": [0.5, 2],
}  # fmt: skip
SWITCHED = (
    Reuse(), Reuse(covered=False), Reuse(known=False), Reuse(tables=False), Reuse(covered=False, tables=False),
)  # fmt: skip
FRONT = {"pareto": ["energy", "latency"]}
BOUNDED: tuple[tuple[dict[str, Any], Reuse], ...] = (
    ({}, Reuse(covered=False)), ({}, Reuse()), (FRONT, Reuse(covered=False)), (FRONT, Reuse()), ({}, Reuse(bounds=False)),
)  # fmt: skip
"""What is asked for (nothing: the least of the objective), and with what reuse."""
OBJECTIVES = ("edp", "energy", "latency", "energy,latency")


@st.composite
def products(draw: st.DrawFn, folder: Path) -> dict[str, Any]:
    """One to three matrix products in a row."""
    del folder
    numbers = st.sampled_from([4, 6, 12]), st.sampled_from([4, 6, 8])
    shape = {"N_EINSUMS": draw(st.integers(1, 3)), "M": draw(numbers[0]), "KN": draw(numbers[1])}
    return {"file": "matmuls", "defines": shape}


@st.composite
def layers(draw: st.DrawFn, folder: Path) -> dict[str, Any]:
    """Layers of few kinds, so that some are equal but for what touches their outputs."""
    kinds = draw(st.lists(st.sampled_from(["conv2", "conv3", "point", "pool"]), min_size=2, max_size=2, unique=True))
    chosen = ["conv2", *draw(st.lists(st.sampled_from(kinds), min_size=2, max_size=3)), draw(st.sampled_from(kinds))]
    return written(folder, chosen, draw(st.sampled_from([6, 8, 12])), draw(st.integers(1, 2)), draw(st.integers(0, 3)))


def written(folder: Path, kinds: list[str], length: int, channels: int, added: int = 0) -> dict[str, Any]:
    """A workload: convolutions over one rank, each touching two or three values of what is before it, or one; pooling halves.
    `added`: the tensor that is added to the last one, if it is as long."""
    einsums, lengths = [], [length]
    for i, kind in enumerate(kinds):
        stride, taps = {"conv2": (1, 2), "conv3": (1, 3), "point": (1, 1), "pool": (2, 2)}[kind]
        lengths.append(max(lengths[-1] // stride, 1))
        touched = [f"{{name: T{i}, projection: {{H: {stride} * p + s, C: c}}}}"]
        shape = f"0 <= p < {lengths[-1]}, 0 <= s < {taps}, 0 <= c < {channels}"
        if kind != "pool":
            touched.append(f"{{name: W{i}, projection: {{K: k, C: c, S: s}}}}")
            shape += f", 0 <= k < {channels}"
        touched.append(f"{{name: T{i + 1}, projection: {{H: p, C: {'c' if kind == 'pool' else 'k'}}}, output: true}}")
        einsums.append(f"{{name: E{i}, tensor_accesses: [{', '.join(touched)}], iteration_space_shape: [{shape}]}}")
    last = len(kinds)
    if 0 < added < last and lengths[added] == lengths[last]:
        read = ", ".join(f"{{name: T{i}, projection: {{H: p, C: c}}}}" for i in (last, added))
        shape = f"0 <= p < {lengths[last]}, 0 <= c < {channels}"
        made = f"{{name: T{last + 1}, projection: {{H: p, C: c}}, output: true}}"
        einsums.append(f"{{name: Sum, tensor_accesses: [{read}, {made}], iteration_space_shape: [{shape}]}}")
    lines = ["workload:", "  bits_per_value: {All: 8}", "  einsums:", *(f"  - {einsum}" for einsum in einsums)]
    (folder / "layers.yaml").write_text("\n".join(lines) + "\n")
    return {"file": str(folder / "layers.yaml")}


@cases(6, 200)
@given(data=st.data())
def test_every_run_equals_map(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("sweep")
    one = data.draw
    latency = "\n    total_latency: max(a.n_calls / a.throughput for a in actions) + 1e-3 * size"
    values = {"leak": one(st.sampled_from([0, 0.1])), "speed": one(st.sampled_from([2, 20])), "size": 2000,
              "latency": one(st.sampled_from(["", "", latency])), "fanout": one(st.integers(1, 4))}  # fmt: skip
    (folder / "spec.yaml").write_text(CHIP % values)
    objective = one(st.sampled_from(OBJECTIVES))
    names = one(st.lists(st.sampled_from(sorted(PARAMETERS)), min_size=1, max_size=2, unique=True))
    if one(st.booleans()):  # sizes cover each other more often than other figures do
        names = list(dict.fromkeys(["GLB.size", names[0]]))
    workload = one(st.one_of(products(folder), layers(folder)))
    parameters: dict[str, list[Any]] = {name: PARAMETERS[name] for name in names}
    if len(names) == 2 and "GLB.size" in names:
        parameters["GLB.size"] = PARAMETERS["GLB.size"][one(st.integers(0, 2)) :: 3]
    fields = {"arch": str(folder / "spec.yaml"), "workloads": [workload], "objective": objective,
              "windows": "none", "parameters": parameters}  # fmt: skip
    truth: dict[int, Result | None] = {}
    # Without covering, answers are what the searches say that they are compared with: only to prove.
    for i, reuse in enumerate(SWITCHED if PROVE else SWITCHED[:1]):
        for answer in run(fields, reuse, folder / f"runs{i}"):
            if answer.design.number not in truth:
                truth[answer.design.number] = mapped(folder, answer, objective, workload)
            check(answer, truth[answer.design.number])
    pruned_best(fields, folder, truth)
    compared["sweeps"] += 1


@cases(4, 300)
@given(data=st.data())
def test_curves_of_sizes_equal_map(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Many sizes of one memory: searches for the least EDP answer for smaller sizes, and go on with bounds of larger ones;
    others begin with tables of larger ones."""
    folder, one = tmp_path_factory.mktemp("curve"), data.draw
    values = {"leak": one(st.sampled_from([0, 0.1])), "speed": one(st.sampled_from([2, 20])), "size": 2000, "latency": "",
              "fanout": one(st.integers(1, 4))}  # fmt: skip
    (folder / "spec.yaml").write_text(CHIP % values)
    workload = one(st.one_of(products(folder), layers(folder)))
    objective = one(st.sampled_from(["edp", "edp", "energy"]))
    least, step, count = one(st.integers(4, 60)), one(st.sampled_from([1, 2, 5])), one(st.integers(8, 12))
    sizes = [8 * (least + step * i) for i in range(count)]
    fields = {"arch": str(folder / "spec.yaml"), "workloads": [workload], "objective": objective, "windows": "none",
              "parameters": {"GLB.size": sizes}}  # fmt: skip
    for answer in run(fields, Reuse(covered=one(st.booleans())), folder / "runs"):
        check(answer, mapped(folder, answer, objective, workload))
    compared["curves"] += 1


def run(fields: dict[str, object], reuse: Reuse, folder: Path) -> list[Answer]:
    with Store(folder) as store:
        return list(run_all(Driver(make_sweep(fields), store, reuse=reuse), Here()))


def mapped(folder: Path, answer: Answer, objective: str, workload: dict[str, Any]) -> Result | None:
    """What `fusiest map` says, of a spec in which values were changed by hand."""
    spec = fusiest.load(folder / "spec.yaml", workload["file"], defines=workload.get("defines", {}))
    for name, value in answer.design.values.items():
        component, *inner, field = name.split(".")
        node: Any = next(n for n in flatten(spec.require_arch().nodes) if n.name == component)
        changed: dict[str, Any] = {field: value}
        if inner:
            place = "spatial" if inner[0] == "X" else "actions"
            items = [dataclasses.replace(a, **changed) if a.name == inner[0] else a for a in getattr(node, place)]
            changed = {place: tuple(items)}
        spec = spec.with_component(component, **changed)
    try:
        return fusiest.map(spec, objective, windows="none", jobs=1)
    except NoMapping:
        return None


def check(answer: Answer, result: Result | None) -> None:
    row = answer.row
    compared[answer.how] += 1
    compared["between"] += answer.how == "covered" and row.cpu_seconds == 0
    if result is None:
        assert row.status == "no valid mapping", row
        return
    assert row.energy is not None, row
    assert row.latency is not None
    best = result.best(result.aim)
    for name in ("energy", "latency"):
        assert getattr(row, name) == pytest.approx(getattr(best, name), rel=1e-9), (name, row)
    least = least_costs(result.spec)
    for mapping in result.mappings:
        assert all(least[name] <= cost_of(mapping, name) for name in least)


def pruned_best(fields: dict[str, object], folder: Path, truth: dict[int, Result | None]) -> None:
    """With bounds, the best is the same as of all results."""
    aim = "edp" if fields["objective"] == "energy,latency" else str(fields["objective"])
    for number, (asked, reuse) in enumerate(BOUNDED[: None if PROVE else 1]):
        best = asked or {"minimize": aim}
        made = make_sweep({**fields, "best": best})
        assert made.best is not None
        found = {a.design.number: a for a in run({**fields, "best": best}, reuse, folder / f"best{number}")}
        compared["pruned"] += sum(a.how == "pruned" for a in found.values())
        label = made.workloads[0].label
        designs = {n: a.design for n, a in found.items()}
        area = Figure(0.0, {})
        costs = {n: (r.best(r.aim).energy, r.best(r.aim).latency) for n, r in truth.items() if r is not None}
        own = {n: (a.row.energy, a.row.latency) for n, a in found.items() if a.row.found}
        every = [design_figures(designs[n], area, {label: c}, made.workloads) for n, c in costs.items()]
        mine = [design_figures(designs[n], area, {label: c}, made.workloads) for n, c in own.items()]
        expected, got = best_designs(every, made.best), best_designs(mine, made.best)
        # Of designs that are equally good, those count that are searched or covered.
        names = ("energy", "latency") if made.best.pareto else (aim,)
        assert _points(got, names) == [pytest.approx(point, rel=1e-9) for point in _points(expected, names)]


def _points(designs: list[DesignFigures], names: tuple[str, ...]) -> list[tuple[float, ...]]:
    return sorted({tuple(float(f"{float(d[name]):.10g}") for name in names) for d in designs})


def test_fronts_of_sizes_equal_map(tmp_path: Path) -> None:
    """One search answers for smaller sizes whose best costs little more; the others are searched."""
    before = compared.copy()
    (tmp_path / "spec.yaml").write_text(CHIP % {"leak": 0.1, "speed": 2, "size": 2000, "latency": "", "fanout": 2})
    workload = {"file": "matmuls", "defines": {"N_EINSUMS": 2, "M": 12, "KN": 8}}
    sizes = [*range(400, 1600, 150), 2500]
    fields = {"arch": str(tmp_path / "spec.yaml"), "workloads": [workload], "objective": "edp",
              "parameters": {"GLB.size": sizes}}  # fmt: skip
    for answer in run(fields, Reuse(covered=False), tmp_path / "runs"):
        check(answer, mapped(tmp_path, answer, "edp", workload))
    assert compared["from a front of sizes"] > before["from a front of sizes"]
    compared.clear()  # the test below counts those of the random one, wherever that ran
    compared.update(before)


def test_equal_layers_equal_map(tmp_path: Path) -> None:
    """Two layers are equal and share a table. Others touch a halo of what the first makes: the second has rows that fit where
    the first's do not."""
    before = compared.copy()
    (tmp_path / "spec.yaml").write_text(CHIP % {"leak": 0, "speed": 2, "size": 2000, "latency": "", "fanout": 1})
    workload = written(tmp_path, ["conv2", "point", "conv3", "point", "pool"], 8, 1)
    fields = {"arch": str(tmp_path / "spec.yaml"), "workloads": [workload], "objective": "energy", "windows": "none",
              "parameters": {"GLB.size": [64, 100, 128, 136]}}  # fmt: skip
    for answer in run(fields, Reuse(covered=False), tmp_path / "runs"):
        check(answer, mapped(tmp_path, answer, "energy", workload))
    assert compared["from tables"] - before["from tables"] == 3
    compared.clear()
    compared.update(before)


def test_open_tables_equal_map(tmp_path: Path) -> None:
    """Tables are explored once for all throughputs, and settled for each, also where components leak."""
    before = compared.copy()
    (tmp_path / "spec.yaml").write_text(CHIP % {"leak": 0.1, "speed": 2, "size": 2000, "latency": "", "fanout": 2})
    workload = {"file": "matmuls", "defines": {"N_EINSUMS": 2, "M": 12, "KN": 8}}
    fields = {"arch": str(tmp_path / "spec.yaml"), "workloads": [workload], "objective": "edp",
              "parameters": {"DRAM.read.throughput": [2, 9, 40], "GLB.size": [800, 1500]}}  # fmt: skip
    for answer in run(fields, Reuse(covered=False), tmp_path / "runs"):
        check(answer, mapped(tmp_path, answer, "edp", workload))
    assert compared["from open tables"] - before["from open tables"] == 3
    assert compared["from tables"] - before["from tables"] == 3
    compared.clear()
    compared.update(before)


def test_enough_was_compared() -> None:
    """Runs after the test above, in the same process."""
    tried = compared["sweeps"]
    if compared:
        print(dict(compared))
    if compared["curves"] >= (30 if PROVE else 4):
        assert compared["from a front of sizes"] >= compared["curves"] / 2
        assert compared["fronts gone on"] > 0
    if tried:
        assert compared["searched"] > 5
        kinds = (
            "covered",
            "pruned",
            "from tables",
            "begun with mappings",
            "between",
            "from a front of sizes",
            "from open tables",
        )
        for kind in kinds if tried >= 50 else kinds[: 0 if PROVE else 1]:
            assert compared[kind] > 0, kind
        if tried >= 200:
            assert compared["covered"] >= 100
            assert compared["pruned"] >= 50
            assert compared["from tables"] >= 200
            assert compared["from open tables"] >= 50
