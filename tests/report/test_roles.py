"""Colours say what a tensor is: roles, partial sums, and what is too small for a colour of its own."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import HealthCheck, given, settings

import fusiest
from fusiest.model.evaluate import take_apart
from fusiest.report.charts.chart import Bars
from fusiest.report.charts.colours import MOST_OF_A_ROLE, Names
from fusiest.report.charts.palette import PALETTES, PLAIN, colour
from fusiest.report.data.background import Background
from fusiest.report.data.energy_and_time import COMPUTE, LEAK, PARTIAL
from fusiest.report.data.roles import Role, energy_shares, tensor_roles
from fusiest.report.data.view import mapping_charts
from fusiest.spec.reading.loading import load_texts
from tests.report.subjects import gpt3, tradeoff
from tests.strategies import Case, cases


def roles(einsums: str) -> dict[str, Role]:
    variables = "".join(re.findall(r"\[.*?\]", einsums))
    ranks = ", ".join(f"{v.upper()}: 4" for v in "bknp" if v in variables)
    text = f"workload: {{rank_sizes: {{{ranks}}}, bits_per_value: 8, einsums: [{einsums}]}}"
    return tensor_roles(load_texts({"spec": text}, {}).info)


def test_roles_without_a_hint() -> None:
    """What does not have the ranks that all results have is a weight, if it is multiplied."""
    found = roles("'T[b, n] = A[b, k] * W[k, n]', 'Z[b, p] = T[b, n] * V[n, p]', 'Y[b, p] = Z[b, p] + C[p]'")
    assert {t for t, role in found.items() if role == "weight"} == {"W", "V"}
    assert {t for t, role in found.items() if role == "activation"} == {"A", "T", "Z", "Y", "C"}


def test_roles_that_names_say() -> None:
    einsum = "{einsum: 'T[b, n] = A[b, k] * W[b, k, n]', renames: {input: A, weight: W}}"
    assert roles(einsum)["W"] == "weight"
    assert roles(einsum.replace("weight", "cache"))["W"] == "cache"
    assert roles("'T[b, n] = A[b, k] * K_cache[b, k, n]'")["K_cache"] == "cache"
    assert roles("'T[b, n] = A[b, k] * past_key[b, k, n]'")["past_key"] == "cache"
    assert roles("'T[b, n] = A[b, k] * pastel[b, k, n]'")["pastel"] == "activation"


def test_what_stays_and_differs_by_batch_is_a_cache() -> None:
    text = "'T[b, n] = A[b, k] * V[b, k, n]', 'Z[b, p] = T[b, n] * W[n, p]'"
    spec = f"workload: {{rank_sizes: {{B: 2, K: 4, N: 4, P: 4}}, bits_per_value: 8, persistent_tensors: V | W, einsums: [{text}]}}"
    found = tensor_roles(load_texts({"spec": spec}, {}).info)
    assert (found["V"], found["W"], found["A"]) == ("cache", "weight", "activation")


def test_one_role_per_bundled_tensor() -> None:
    for name in ("llama3_8B_kv_cache", "mobilenet", "resnet18_downsample"):
        found = tensor_roles(fusiest.load(name).info)
        assert all((role == "weight") == t.startswith("W") for t, role in found.items()), name
        assert {t for t, role in found.items() if role == "cache"} == ({"K", "V"} if "llama" in name else set())


@settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_partial_sums_are_a_part_of_what_outputs_cost(case: Case) -> None:
    evaluation = fusiest.evaluate(case.spec, case.tree)
    shares = list(energy_shares(take_apart(case.spec, case.tree), evaluation))
    assert math.isclose(math.fsum(s.joules for s in shares), evaluation.energy, rel_tol=1e-9, abs_tol=1e-18)
    for share in shares:
        assert share.joules >= 0
        assert not share.partial or case.spec.info.einsums[share.einsum].output == share.tensor
    outputs = {(s.einsum, s.component, s.action): s.joules for s in shares if s.partial}
    for (einsum, component, action), joules in outputs.items():
        info = case.spec.info.einsums[einsum]
        assert joules <= evaluation.einsums[einsum].energies[component, info.output, action] * (1 + 1e-9)


def test_partial_sums_by_hand() -> None:
    """A matmul with the reduction outside: each of 16 results is written 4 times and read back 3 times."""
    text = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: All},
             actions: [{name: read, energy: 1}, {name: write, energy: 10}]}
  - !Compute {name: MAC, component_class: Dummy}
workload: {rank_sizes: {M: 4, K: 4, N: 4}, bits_per_value: 1, einsums: ["Z[m, n] = A[m, k] * B[k, n]"]}
mapping:
  nodes:
  - !Storage {tensors: [A, B, Z], component: DRAM}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Compute {einsum: Z, component: MAC}
"""
    spec = load_texts({"spec": text}, {})
    assert spec.mapping is not None
    shares = list(energy_shares(take_apart(spec, spec.mapping), fusiest.evaluate(spec)))
    found = {(s.action, s.partial): s.joules for s in shares if s.tensor == "Z"}
    assert found == pytest.approx({("read", True): 48, ("read", False): 0, ("write", True): 480, ("write", False): 160})
    chart = mapping_charts(Background(spec), spec.mapping, fusiest.evaluate(spec))["energy-component"]
    assert isinstance(chart, Bars)
    assert {s.name: s.values for s in chart.series} == {"B": [64], "A": [64], "Z": [160], PARTIAL: [528]}


def test_reserved_colours_are_no_tensors() -> None:
    tensors = {shade for role in ("weight", "cache", "activation") for shade in PALETTES[role]}
    reserved = [colour(name)[0] for name in ("compute", "leak", "partial")]
    assert len(set(reserved)) == 3
    assert not tensors & set(reserved)
    assert all(name in PLAIN for name in ("compute", "leak", "partial", "found", "other"))


def test_few_colours_for_many_tensors() -> None:
    names = Names(gpt3().spec)
    groups = names.groups(dict.fromkeys(names.tensors, 1.0))
    assert [group.name for group in groups if "other" in group.name] == ["other weights (2)", "other activations (7)"]
    assert len(groups) == 2 * MOST_OF_A_ROLE + 2
    assert sorted(t for group in groups for t in group.members) == sorted(names.tensors)
    assert len({colour(group.color) for group in groups}) == len(groups)
    alone = names.groups({"WV": 1.0, "QK": 1.0, "I": 1e-6})
    assert [group.name for group in alone] == ["WV", "QK", "I"]  # one alone needs no group


def test_series_of_energy_by_component() -> None:
    subject = tradeoff()
    mapping = subject.result.mappings[0]
    chart = mapping_charts(subject.background, mapping.looptree, mapping.evaluation)["energy-component"]
    assert isinstance(chart, Bars)
    colors = {series.name: series.color for series in chart.series}
    assert colors[COMPUTE] == "compute"
    assert colors[LEAK] == "leak"
    assert colors[PARTIAL] == "partial"
    assert colors["W"].startswith("weight:")
