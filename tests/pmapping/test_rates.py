"""`total_latency` as throughputs: which expressions are, and that the search finds the same with them."""

from __future__ import annotations

import math

import pytest

import fusiest
from fusiest.pmapping.explore import paths
from fusiest.pmapping.reuse.throughputs import with_throughputs
from fusiest.spec import bind
from tests.load_text import load_text
from tests.pmapping.fronts import equal_table

SPEC = """
arch:
  nodes:
  - !Memory {{name: DRAM, size: inf, component_class: Dummy, tensors: {{keep: All}}, total_latency: {memory},
             actions: [{{name: read, energy: 10, throughput: 4}}, {{name: write, energy: 10, throughput: 2}}]}}
  - !Memory {{name: GLB, size: 6, component_class: Dummy, tensors: {{keep: A | B}}, spatial: [{{name: X, fanout: 2}}],
             actions: [{{name: read, energy: 1}}, {{name: write, energy: 1}}]}}
  - !Compute {{name: MAC, component_class: Dummy, total_latency: {compute}, actions: [{{name: compute, energy: 1, throughput: 8}}]}}
workload:
  rank_sizes: {{M: 4, N: 2, K: 4}}
  bits_per_value: {{All: 1}}
  einsums:
  - "Z[m, n] = A[m, k] * B[k, n]"
"""


@pytest.mark.parametrize(
    ("expression", "read", "write"),
    [
        ("sum(a.n_calls for a in actions) / 2 / 4", 8, 8),
        ("3 * sum(2 * x.n_calls / x.throughput for x in actions)", 4 / 6, 2 / 6),
        ("sum(a.n_calls for a in actions) + sum(a.n_calls / a.throughput for a in actions)", 1 / 1.25, 1 / 1.5),
        ("sum(0 * a.n_calls for a in actions)", math.inf, math.inf),
        ("max(a.n_calls for a in actions)", None, None),
        ("sum(a.n_calls for a in actions if a.name == 'read')", None, None),
        ("sum(a.n_calls * a.n_calls for a in actions)", None, None),
        ("sum(1 / (1 + a.n_calls) for a in actions)", None, None),
        ("1 + sum(a.n_calls for a in actions)", None, None),
        ("sum(a.n_calls for a in actions) * len(actions)", None, None),
    ],
)
def test_rates_of_expressions(expression: str, read: float | None, write: float | None) -> None:
    spec = load_text(SPEC.format(memory=expression, compute="sum(a.n_calls for a in actions)"))
    memory = with_throughputs(bind(spec, "Z", "MAC")).components[0]
    if read is None:
        assert memory.total_latency == expression
    else:
        assert memory.total_latency is None
        assert memory.actions["read"].throughput == pytest.approx(read)
        assert memory.actions["write"].throughput == pytest.approx(write)


@pytest.mark.parametrize(
    "memory", ["sum(a.n_calls for a in actions) / 3", "max(a.n_calls / a.throughput for a in actions)"]
)
@pytest.mark.parametrize("compute", ["sum(a.n_calls for a in actions) / 5", "2 + sum(a.n_calls for a in actions) / 5"])
def test_fronts_are_those_of_the_expressions(memory: str, compute: str) -> None:
    """The exhaustive mapper evaluates them as they are written."""
    equal_table(load_text(SPEC.format(memory=memory, compute=compute)), "Z")


def test_chips_of_the_library_have_throughputs() -> None:
    """All that bundled chips say of their computes are rates."""
    for chip in ("eyeriss", "simba", "nvdla", "edge_npu"):
        spec = fusiest.load(chip, "resnet18_block")
        for einsum in spec.info.einsums:
            assert all(path.compute.total_latency is None for path in paths(spec, einsum))
