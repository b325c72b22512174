"""The bundled specs: all load, fit together, and say what the published ones say."""

from __future__ import annotations

import math
from pathlib import Path as File
from typing import Any

import pytest

import fusiest
from fusiest.spec import Path, architecture_names, bind, bind_node
from fusiest.spec.hardware.architecture import Memory, TollStation, computes, flatten
from fusiest.spec.hardware.placement_sets import placement_sets
from fusiest.spec.reading.loading import bundled
from fusiest.spec.spec import Spec

SHARED = File(__file__).parents[2] / "shared" / "specs"
LIBRARY = bundled()
FEW = ("resnet18", "mobilenet", "gpt3_6.7B", "matmuls")
PAIRS = [
    (architecture, workload)
    for architecture in LIBRARY["arches"]
    for workload in LIBRARY["workloads"]
    if "/" not in architecture or workload in FEW
]
"""Chips that compute in memory are much alike: they get some workloads only."""


def test_the_library_is_described() -> None:
    assert all(about for names in LIBRARY.values() for about in names.values())
    assert {"tpu_v4i", "simple", "snowcat", "edge_transformer"} <= LIBRARY["arches"].keys()
    assert {"gpt3_6.7B", "matmuls", "matvecs", "mobilenet_28"} <= LIBRARY["workloads"].keys()


def most_units(path: Path) -> dict[tuple[str, str], tuple[int, int]]:
    """Per fanout dimension above a compute: instances that some loops could use at most, and all."""
    info = path.einsum
    found = {}
    for d in (d for component in path.components for d in component.dimensions):
        fixed = {v for t in d.reuse for v in info.accesses[t].variables}
        for rule in d.loop_bounds:
            if rule.operator == "==" and rule.value == 1:
                fixed |= rule.variables
        usable = math.prod(bound for v, bound in info.bounds.items() if v not in fixed)
        found[d.component, d.name] = min(d.most, usable), d.fanout
    return found


def wasted(spec: Spec) -> list[str]:
    """Einsums that no compute is enabled for, or of every enabled one less than 1%, though another could do it faster."""
    names = []
    for name, einsum in spec.info.einsums.items():
        rates = {True: 0.0, False: 0.0}
        share = 0.0
        if einsum.is_copy_operation:
            continue
        somewhere = False
        for compute in computes(spec.require_arch()):
            path = bind(spec, name, compute)
            units = most_units(path)
            used, there = (math.prod(u[i] for u in units.values()) for i in (0, 1))
            enabled = path.compute.enabled
            somewhere |= enabled
            if math.isinf(path.compute.actions["compute"].throughput) and not enabled:
                continue  # what is done elsewhere, and not counted
            rates[enabled] = max(rates[enabled], used * path.compute.actions["compute"].throughput)
            if enabled:
                one_step = used >= math.prod(einsum.bounds.values())
                share = max(share, 1.0 if one_step else used / there)
        if not somewhere or (share < 0.01 and rates[False] > rates[True]):
            names.append(name)
    return names


@pytest.mark.parametrize(("architecture", "workload"), PAIRS)
def test_every_einsum_runs_on_a_unit_that_it_can_use(architecture: str, workload: str) -> None:
    assert wasted(fusiest.load(architecture, workload)) == []


def test_a_rule_by_the_number_of_tensors_wastes_the_array() -> None:
    """What the test above is for: by such a rule, one MAC of each core multiplies Llama's gates."""
    spec = fusiest.load("tpu_v4i", "llama3_8B")
    spec = spec.with_component("ScalarUnit", enabled="len(All) == 2").with_component("MAC", enabled="len(All) == 3")
    assert {"l0_add", "l0_ffp", "l0_out"} <= set(wasted(spec))


def test_the_gates_of_llama_take_little_of_its_time() -> None:
    found = fusiest.map(fusiest.load("tpu_v4i", "llama3_8B", N_TOKENS=64), "edp", orders="given").best("edp")
    assert found.evaluation.einsums["l0_ffp"].latency < 0.02 * found.latency
    assert ("ScalarUnit", "", "compute") in found.evaluation.einsums["l0_ffp"].actions


@pytest.mark.parametrize("objective", ["energy", "latency"])
def test_a_depthwise_convolution_runs_where_it_is_better(objective: str) -> None:
    """On the array it costs less energy, on the vector unit less time."""
    found = fusiest.map(fusiest.load("edge_transformer", "mobilenet", SIZE=8), objective).best(objective)
    unit = {"energy": "MAC", "latency": "VectorUnit"}[objective]
    assert (unit, "", "compute") in found.evaluation.einsums["Filtered"].actions


@pytest.mark.parametrize("mapping", LIBRARY["mappings"])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_every_mapping_can_be_evaluated(mapping: str, n: int) -> None:
    defines = {"N_EINSUMS": n} if "matmuls" in mapping else {}
    workload = "matmuls" if "matmuls" in mapping else "matvecs"
    result = fusiest.evaluate(fusiest.load("simple", workload, mapping, defines=defines))
    assert result.energy > 0
    assert result.latency > 0


def facts(spec: Spec) -> dict[str, Any]:
    """What a workload says, without its comments and layout."""
    return {
        name: (
            dict(e.bounds),
            {t: (dict(a.ranks), a.output) for t, a in e.accesses.items()},
            dict(e.bits_per_value),
            e.persistent,
            e.n_instances,
            e.is_copy_operation,
        )
        for name, e in spec.info.einsums.items()
    }


@pytest.mark.parametrize(
    ("workload", "defines"),
    [
        ("gpt3_6.7B", {}),
        ("gpt3_6.7B", {"BATCH_SIZE": 64, "N_TOKENS": 1024}),
        ("gpt3_6.7B_kv_cache", {}),
        ("matmuls", {"N_EINSUMS": 3}),
        ("matmuls", {"N_EINSUMS": 2, "M": 16, "KN": 8}),
        ("matvecs", {}),
        ("mobilenet_28", {}),
        ("mobilenet_28", {"BATCH_SIZE": 4}),
    ],
)
@pytest.mark.skipif(not SHARED.exists(), reason="no data beside the project: ../shared")
def test_workloads_are_the_published_ones(workload: str, defines: dict[str, object]) -> None:
    theirs = fusiest.load(SHARED / "workloads" / f"{workload}.yaml", defines=defines)
    assert facts(fusiest.load(workload, defines=defines)) == facts(theirs)


def parts(architecture: str | File, workload: str, defines: dict[str, object]) -> dict[str, Any]:
    """All that an architecture says for each Einsum of a workload, by component."""
    spec = fusiest.load(architecture, workload, defines=defines)
    found: dict[str, Any] = {}
    for name, einsum in spec.info.einsums.items():
        names = architecture_names(spec, einsum)
        outer = frozenset[str]()
        for node in flatten(spec.require_arch().nodes):
            component = bind_node(node, einsum, names)
            # Two texts of one expression are as good as each other: compare what they give.
            seconds = component.latency(dict.fromkeys(component.actions, 3.0)) if component.kind != "container" else 0
            plain = {
                f: getattr(component, f) for f in type(component).__slots__ if f not in ("total_latency", "attributes")
            }
            found[f"{name}/{node.name}"] = (plain, seconds)
            if isinstance(node, (Memory, TollStation)):
                sets = placement_sets(node, names, outer)
                found[f"{name}/{node.name}/tensors"] = sets
                outer |= sets.keep | sets.may_keep
                names = names.choose(str(node.name), sets.keep)
    return found


@pytest.mark.parametrize(
    ("architecture", "workload", "defines"),
    [
        ("tpu_v4i", "gpt3_6.7B", {}),
        ("snowcat", "mobilenet_28", {}),
        ("snowcat", "matmuls", {"ADDITIONAL_MAINMEMORY_CONSTRAINTS": {"keep": "All"}}),
    ],
)
@pytest.mark.skipif(not SHARED.exists(), reason="no data beside the project: ../shared")
def test_architectures_are_the_published_ones(architecture: str, workload: str, defines: dict[str, object]) -> None:
    theirs = SHARED / "arches" / f"{architecture}.yaml"
    assert parts(architecture, workload, defines) == parts(theirs, workload, defines)


@pytest.mark.parametrize("mapping", LIBRARY["mappings"])
@pytest.mark.skipif(not SHARED.exists(), reason="no data beside the project: ../shared")
def test_mappings_cost_what_the_published_ones_cost(mapping: str) -> None:
    workload, defines = ("matmuls", {"N_EINSUMS": 3}) if "matmuls" in mapping else ("matvecs", {})
    theirs = fusiest.load("simple", workload, SHARED / "mappings" / f"{mapping}.yaml", defines=defines)
    ours = fusiest.load("simple", workload, mapping, defines=defines)
    assert fusiest.evaluate(ours).to_json() == fusiest.evaluate(theirs).to_json()
