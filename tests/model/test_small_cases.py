"""Small cases worked out by hand: leakage with Forks and gating, copies, persistent tensors, latency expressions."""

from __future__ import annotations

import dataclasses

import pytest

import fusiest
from fusiest.report.data.limits import limits
from fusiest.report.data.machine import Machine
from fusiest.show import show_text
from tests.load_text import load_text
from tests.reference.simulator import simulate

COPY_ARCH = """\
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy,
             actions: [{name: read, energy: 1, throughput: 8}, {name: write, energy: 2, throughput: 8}]}
  - !Memory {name: Buffer, size: inf, component_class: Dummy}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 1, throughput: 1}]}
"""


def leaks(arch: str, mapping: str) -> dict[str, float]:
    workload = """
    workload:
      rank_sizes: {M: 4}
      bits_per_value: {All: 8}
      einsums: ["B[m] = A[m]"]
    """
    einsum = fusiest.evaluate(load_text(arch, workload, mapping)).einsums["B"]
    return {component: joules for (component, _, action), joules in einsum.energies.items() if action == "leak"}


def on(compute: str, loop: str = "!Temporal {rank_variable: m, tile_shape: 1}") -> str:
    return f"""
    mapping:
      nodes:
      - !Storage {{tensors: [A, B], component: DRAM}}
      - {loop}
      - !Temporal {{rank_variable: m, tile_shape: 1}}
      - !Compute {{einsum: B, component: {compute}}}
    """


FORK = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, leak_power: 1}
  - !Fork
    GATES
    nodes:
    - !Memory {name: SideBuffer, size: inf, component_class: Dummy, leak_power: 2}
    - !Compute {name: SideMAC, component_class: Dummy, leak_power: 4, actions: [{name: compute, throughput: 1}]}
  - !Memory {name: Buffer, size: inf, component_class: Dummy, leak_power: 8}
  - !Compute {name: MAC, component_class: Dummy, leak_power: 16, actions: [{name: compute, throughput: 1}]}
"""
ALL = {"DRAM": 4, "SideBuffer": 8, "SideMAC": 16, "Buffer": 32, "MAC": 64}


@pytest.mark.parametrize(
    ("gates", "compute", "off"),
    [
        ("name: F", "MAC", []),
        ("name: F", "SideMAC", []),
        ("forked_power_gateable: true", "MAC", ["SideBuffer", "SideMAC"]),
        ("forked_power_gateable: true", "SideMAC", []),
        ("non_forked_power_gateable: true", "MAC", []),
        ("non_forked_power_gateable: true", "SideMAC", ["Buffer", "MAC"]),
    ],
)
def test_forks_gate_what_does_not_run(gates: str, compute: str, off: list[str]) -> None:
    assert leaks(FORK.replace("GATES", gates), on(compute)) == {**ALL, **dict.fromkeys(off, 0)}


def array(x: str, more: str = "") -> str:
    return f"""
    arch:
      nodes:
      - !Memory {{name: DRAM, size: inf, component_class: Dummy, leak_power: 1}}
      - !Fork
        nodes:
        - !Compute {{name: Side, component_class: Dummy, leak_power: 1, spatial: [{{name: S, fanout: 5, power_gateable: true}}]}}
      - !Container {{name: Array, spatial: [{{name: X, fanout: 4{x}}}, {{name: Y, fanout: 3}}]}}
      - !Compute {{name: MAC, component_class: Dummy, leak_power: 1, n_parallel_instances: 10, leak_power_scale: 0.5,
                   actions: [{{name: compute, throughput: 0.1}}]{more}}}
    """


@pytest.mark.parametrize(
    ("x", "mac"),
    [
        ("", 5 * 4 * 3),
        (", power_gateable: true", 5 * 2 * 3),
        (", power_gateable: true, usage_scale: 2", 5 * 4 * 3),
    ],
)
def test_fanout_and_gating(x: str, mac: float) -> None:
    """Two of the four units of X run for 2 s. Leakage is per instance; the Side dimension is off the path: no leakage."""
    found = leaks(array(x), on("MAC", "!Spatial {rank_variable: m, tile_shape: 2, component: Array, name: X}"))
    assert found == {"DRAM": 2, "Side": 0, "MAC": mac * 2}


COPY = """
workload:
  rank_sizes: {M: 4}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "I[m] = I_in[m]", is_copy_operation: true}
  - P[m] = I[m]
  - Q[m] = I[m]
"""


def copy_mapping(home: str) -> str:
    branch = "    - !Nested {{nodes: [!Temporal {{rank_variable: m, tile_shape: 1}}, !Compute {{einsum: {}, component: MAC}}]}}\n"
    branches = "".join(branch.format(e) for e in ("I", "P", "Q"))
    return (
        "mapping:\n  nodes:\n  - !Storage {tensors: [I_in, P, Q], component: DRAM}\n"
        f"  - !Storage {{tensors: [I], component: {home}}}\n  - !Sequential\n    nodes:\n{branches}"
    )


def test_a_copy_within_one_memory_moves_nothing_and_shares_the_space() -> None:
    result = fusiest.evaluate(load_text(COPY_ARCH, COPY, copy_mapping("DRAM")))
    copy = result.einsums["I"]
    assert (copy.points, copy.steps, copy.latency, copy.energy) == (0, 0, 0, 0)
    assert set(copy.actions.values()) == {0}
    # 4 values of 8 bits each: I_in and I together, then with them P, then Q.
    assert copy.occupancy_bits == {("DRAM", "I_in"): 32}
    assert result.peak_occupancy_bits == {"DRAM": 64}


def test_a_copy_between_memories_moves_each_element_once() -> None:
    result = fusiest.evaluate(load_text(COPY_ARCH, COPY, copy_mapping("Buffer")))
    actions = result.einsums["I"].actions
    assert (actions["DRAM", "I_in", "read"], actions["Buffer", "I_in", "write"]) == (32, 32)
    assert (actions["DRAM", "I_in", "write"], actions["Buffer", "I_in", "read"]) == (0, 0)
    assert result.einsums["I"].latency == 4
    assert result.peak_occupancy_bits == {"DRAM": 32, "Buffer": 32}


PERSISTENT = """
workload:
  rank_sizes: {M: 4, N: 2}
  bits_per_value: {All: 8}
  persistent_tensors: W
  n_instances: 3
  einsums:
  - {einsum: "B[m, n] = A[m] * W[n]", n_instances: 5}
"""


def persistent_mapping(first: str) -> str:
    return f"""
    mapping:
      nodes:
      - {first}
      - !Storage {{tensors: [A, B], component: DRAM}}
      - !Temporal {{rank_variable: m, tile_shape: 1}}
      - !Temporal {{rank_variable: n, tile_shape: 1}}
      - !Compute {{einsum: B, component: MAC}}
    """


TOLL = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: All}, skip_initial_output_write: SKIP,
             actions: [{name: read, energy: 100}, {name: write, energy: 10000}]}
  ARRAY
  - !Toll {name: Link, component_class: Dummy, direction: WAY, tensors: {keep: Outputs}, actions: [{name: read, energy: 1}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, throughput: 1}]}
workload:
  rank_sizes: {M: 4, K: 3}
  bits_per_value: {All: 1}
  einsums: ["EINSUM"]
"""


@pytest.mark.parametrize(
    "array", ["", "- !Container {name: Array, spatial: [{name: X, fanout: 2, may_reuse: Nothing}]}"]
)
@pytest.mark.parametrize(
    ("einsum", "way", "skip", "link", "reads", "writes"),
    [  # 4 results of 3 partial sums each; without a reduction 4 results that are written once
        ("Z[m] = A[m, k]", "up_and_down", "false", 12 + 12, 12, 12),
        ("Z[m] = A[m, k]", "up_and_down", "true", 8 + 12, 8, 12),
        ("Z[m] = A[m, k]", "down", "false", 12, 12, 12),
        ("Z[m] = A[m, k]", "down", "true", 8, 8, 12),
        ("Z[m] = A[m, k]", "up", "false", 12, 12, 12),
        ("Z[m] = A[m]", "down", "false", 4, 4, 4),
        ("Z[m] = A[m]", "down", "true", 0, 0, 4),
    ],
)
def test_a_toll_passes_on_what_the_memory_above_it_sends(
    einsum: str, way: str, skip: str, link: int, reads: int, writes: int, array: str
) -> None:
    """Whether a memory reads the partial sums of a first pass is up to the memory, not to the Toll below it."""
    words = {"SKIP": skip, "WAY": way, "EINSUM": einsum, "ARRAY": array}
    text = TOLL
    for word, value in words.items():
        text = text.replace(word, value)
    spec = load_text(text if "k" in einsum else text.replace(", K: 3", ""))
    inputs = 4 * 3 if "k" in einsum else 4
    best = fusiest.map(spec, "energy", jobs=1).best("energy")
    assert best.energy == link + 100 * (reads + inputs) + 10000 * writes
    for counts in (best.evaluation.einsums["Z"].actions, simulate(spec, best.looptree).einsums["Z"].actions):
        assert counts["Link", "Z", "read"] == link
        assert (counts["DRAM", "Z", "read"], counts["DRAM", "Z", "write"]) == (reads, writes)


def test_persistent_tensors_count_for_every_instance() -> None:
    mapping = persistent_mapping("!Storage {tensors: [W], component: DRAM}")
    once = fusiest.evaluate(load_text(COPY_ARCH, PERSISTENT.replace("3", "1").replace("5", "1"), mapping))
    all_of_them = fusiest.evaluate(load_text(COPY_ARCH, PERSISTENT, mapping))
    assert once.peak_occupancy_bits == {"DRAM": 16 + 32 + 64}
    assert all_of_them.peak_occupancy_bits == {"DRAM": 16 * 15 + 32 + 64}
    assert all_of_them.einsums["B"].reservation_levels["DRAM", "W"] == -1
    assert all_of_them.energy == 15 * once.energy
    assert all_of_them.latency == 15 * once.latency
    assert all_of_them.einsums["B"].actions["MAC", "", "compute"] == 15 * 8


def test_a_holder_can_be_persistent_by_itself() -> None:
    workload = PERSISTENT.replace("persistent_tensors: W", "persistent_tensors: Nothing")
    plain = persistent_mapping("!Storage {tensors: [W], component: DRAM}")
    marked = persistent_mapping("!Storage {tensors: [W], component: DRAM, persistent: true}")
    assert fusiest.evaluate(load_text(COPY_ARCH, workload, plain)).peak_occupancy_bits == {"DRAM": 112}
    assert fusiest.evaluate(load_text(COPY_ARCH, workload, marked)).peak_occupancy_bits == {"DRAM": 16 * 15 + 96}


@pytest.mark.parametrize(
    ("total_latency", "seconds"),
    [
        ("", 32 / 8 + 32 / 2),
        ("max(a.n_calls / a.throughput for a in actions)", 16),
        ("sum(a.n_calls for a in actions) / 32", 2),
        ("sum(a.n_calls / a.throughput for a in actions if a.name == 'write')", 16),
        ("min(a.throughput for a in actions)", 2),
        ("0 * leak_power", 0),
        ("3 if len(All) == 2 else 4", 3),
    ],
)
def test_total_latency(total_latency: str, seconds: float) -> None:
    """4 values of 8 bits are read and 4 are written, a bit per action."""
    field = f', total_latency: "{total_latency}"' if total_latency else ""
    arch = f"""
    arch:
      nodes:
      - !Memory {{name: DRAM, size: inf, component_class: Dummy, leak_power: 0{field},
                  actions: [{{name: read, throughput: 8}}, {{name: write, throughput: 2}}]}}
      - !Compute {{name: MAC, component_class: Dummy}}
    """
    workload = "workload: {rank_sizes: {M: 4}, bits_per_value: 8, einsums: ['B[m] = A[m]']}"
    einsum = fusiest.evaluate(load_text(arch, workload, on("MAC"))).einsums["B"]
    assert (einsum.latency_per_component["DRAM"], einsum.latency) == (seconds, seconds)


CALLS = "sum(a.n_calls for a in actions)"


@pytest.mark.parametrize(
    ("total_latency", "reason"),
    [
        ("10**400", "must be a finite number from 0 to 1e\\+100, but is 1000"),
        ("1e308", "must be a finite number from 0 to 1e\\+100, but is 1e\\+308"),
        ("Memory0", "but is memory Memory0"),
        ("All", "but is a set of tensors"),
        (f"exp({CALLS})", "is more than 1e\\+100 for some mappings"),
        (f"1 / ({CALLS} - 1)", "division by zero|for some mappings"),
        (f"log({CALLS})", "is negative, or no number, for some mappings"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_total_latency_that_is_no_time(total_latency: str, reason: str) -> None:
    """Said in one line, whether at once or when it is searched with arrays of calls, without a word of NumPy."""
    memory = """{component_class: Dummy, leak_power: 0, size: inf, name: Memory%s, tensors: {%s}, total_latency: "%s",
                 actions: [{name: read, energy: %s}, {name: write, energy: %s}]}"""
    arch = f"""
    arch:
      nodes:
      - !Memory {memory % (0, "keep: All", 0, 9, 9)}
      - !Memory {memory % (1, "may_keep: All", total_latency, 1, 1)}
      - !Compute {{name: MAC, component_class: Dummy}}
    """
    workload = "workload: {rank_sizes: {M: 32, N: 32}, bits_per_value: 8, einsums: ['B[m] = A[m, n] * C[n]']}"
    with pytest.raises(fusiest.SpecError, match=reason):
        fusiest.map(load_text(arch, workload), jobs=1)


def test_numbers_that_do_not_fit() -> None:
    arch = COPY_ARCH.replace("energy: 1, throughput: 8", "energy: 1e300, throughput: 1e-200")
    workload = "workload: {rank_sizes: {M: 4}, bits_per_value: 8, einsums: ['B[m] = A[m]']}"
    with pytest.raises(fusiest.SpecError, match="too large"):
        fusiest.evaluate(load_text(arch, workload, on("MAC")))


def test_an_outermost_fanout_is_no_memory() -> None:
    """A Container above the first memory: each chip holds its own part."""
    arch = COPY_ARCH.replace("  nodes:\n", "  nodes:\n  - !Container {name: Board, spatial: [{name: X, fanout: 2}]}\n")
    workload = "workload: {rank_sizes: {M: 4}, bits_per_value: 8, einsums: ['B[m] = A[m]']}"
    mapping = """
    mapping:
      nodes:
      - !Spatial {rank_variable: m, tile_shape: 2, component: Board, name: X}
      - !Storage {tensors: [A, B], component: DRAM}
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Compute {einsum: B, component: MAC}
    """
    result = fusiest.evaluate(load_text(arch, workload, mapping))
    assert result.peak_occupancy_bits == {"DRAM": 32}
    assert result.einsums["B"].actions["DRAM", "A", "read"] == 32
    assert result.einsums["B"].latency == (16 + 16) / 8


THREE = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy}
  - !Memory {name: Buffer, size: "32 if len(All) == 2 and len(Inputs & P) == 0 else 16", component_class: Dummy}
  - !Compute {name: MAC, component_class: Dummy}
workload:
  rank_sizes: {M: 4}
  bits_per_value: {All: 8}
  einsums: ["I[m] = A[m]", "Q[m] = P[m]", "R[m] = I[m]"]
mapping:
  nodes:
  - !Storage {tensors: [A, P, Q, R], component: DRAM}
  - !Storage {tensors: [I], component: Buffer}
  - !Sequential
    nodes:
    - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Compute {einsum: I, component: MAC}]}
    - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Compute {einsum: Q, component: MAC}]}
    - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Compute {einsum: R, component: MAC}]}
"""


def test_a_memory_that_others_fill_is_too_small_where_they_hold_it() -> None:
    """While Q runs, which holds nothing in Buffer itself."""
    with pytest.raises(fusiest.SpecError, match=r"a\.yaml:14: Buffer holds 32 bits while Einsum Q runs"):
        fusiest.evaluate(load_text(THREE))


def test_products_of_decimals_are_rounded() -> None:
    """100 x 0.07 is 7, whatever comes out of it."""
    arch = array("").replace("fanout: 4", "fanout: 7, usage_scale: 0.07").replace("Side,", "Side, enabled: false,")
    workload = "workload: {rank_sizes: {M: 100}, bits_per_value: 8, einsums: ['B[m] = A[m]']}"
    loop = "!Spatial {{rank_variable: m, tile_shape: {}, component: Array, name: X}}"
    fusiest.evaluate(load_text(arch, workload, on("MAC", loop.format(1))))
    workload = workload.replace("100", "101")
    with pytest.raises(fusiest.SpecError, match=r"uses 101 x 0\.07 \(usage_scale\) instances"):
        fusiest.evaluate(load_text(arch, workload, on("MAC", loop.format(1))))
    (limit,) = limits(Machine(load_text(arch, workload))).values()
    assert limit.compute_seconds == pytest.approx(101 / (100 * 3) / 0.1 / 10)


LARGE = """
mapping:
  nodes:
  - !Storage {tensors: [A, B], component: DRAM}
{% for i in range(LOOPS) %}
  - !Temporal {rank_variable: m, tile_shape: 1}
{% endfor %}
{% for i in range(HOLDERS) %}
  - !Storage {tensors: [A], component: DRAM}
{% endfor %}
  - !Sequential
    nodes:
{% for i in range(LEAVES) %}
    - !Nested {nodes: [!Compute {einsum: B{{i}}, component: MAC}]}
{% endfor %}
"""


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((1001, 0, 1), r"a\.yaml:6: more than 1,000 loops, one inside the other"),
        ((20, 2500, 5000), "more than 10,000,000 nodes in all"),
    ],
)
def test_mappings_that_are_far_too_large(sizes: tuple[int, int, int], words: str) -> None:
    """Known before any path is made, with and without the workload."""
    mapping = load_text(LARGE, **dict(zip(("LOOPS", "HOLDERS", "LEAVES"), sizes, strict=True)))
    with pytest.raises(fusiest.SpecError, match=words):
        show_text(mapping)
    with pytest.raises(fusiest.SpecError, match="the workload has no Einsum B0"):
        fusiest.evaluate(dataclasses.replace(load_text(THREE), mapping=mapping.mapping))
