"""A good spec with a mapping, its lines by name, and what a case does to it."""

from __future__ import annotations

from dataclasses import dataclass

GOOD = """\
variables: {word: 8}
renames:
  einsums:
  - name: default
    tensor_accesses:
    - {name: output, source: Outputs, expected_count: 1}
arch:
  nodes:
  - !Memory
    name: DRAM
    size: inf
    leak_power: 0
    area: 0
    tensors: {keep: ~Intermediates, may_keep: All}
    actions:
    - {name: read, energy: 2, throughput: 4}
    - {name: write, energy: 2, throughput: 4}
  - !Toll
    name: Link
    direction: up_and_down
    leak_power: 0
    area: 0
    actions: [{name: read, energy: 1, throughput: inf}]
  - !Memory
    name: Buffer
    size: 100 * word
    leak_power: 0
    area: 0
    tensors: {keep: output}
    actions:
    - {name: read, energy: 1, throughput: inf}
    - {name: write, energy: 1, throughput: inf}
  - !Container
    name: Array
    spatial:
    - {name: X, fanout: 4}
    - {name: Y, fanout: 2}
  - !Compute
    name: MAC
    leak_power: 0
    area: 0
    actions: [{name: compute, energy: 1, throughput: 1}]
workload:
  rank_sizes: {M: 4, K: 4, N: 4, P: 4}
  bits_per_value: {All: word}
  einsums:
  - B[m, n] = A[m, k] * V[k, n]
  - name: C
    tensor_accesses:
    - {name: B, projection: [m, n]}
    - {name: W, projection: [n, p]}
    - {name: C, projection: [m, p], output: True}
mapping:
  nodes:
  - !Storage {tensors: [A, V, W, C], component: DRAM}
  - !Temporal {rank_variable: m, tile_shape: 2}
  - !Storage {tensors: [B], component: Buffer}
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Storage {tensors: [A, V], component: Buffer}
      - !Spatial {rank_variable: k, tile_shape: 2, component: Array, name: X}
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Temporal {rank_variable: k, tile_shape: 1}
      - !Temporal {rank_variable: n, tile_shape: 1}
      - !Compute {einsum: B, component: MAC}
    - !Nested
      nodes:
      - !Storage {tensors: [W, C], component: Buffer}
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Temporal {rank_variable: n, tile_shape: 1}
      - !Temporal {rank_variable: p, tile_shape: 1}
      - !Compute {einsum: C, component: MAC}
"""


@dataclass(frozen=True)
class MalformedCase:
    """`old` becomes `new` in the good spec; the one line of the error has all the `words`."""

    name: str
    old: str
    new: str
    words: tuple[str, ...]
    status: int = 2


def case(name: str, old: str, new: str, *words: str, status: int = 2) -> MalformedCase:
    assert GOOD.count(old) >= 1, f"{name}: {old!r} is not in the good spec"
    return MalformedCase(name, old, new, words, status)


DRAM_READ = "    - {name: read, energy: 2, throughput: 4}\n"
DIMENSION = "    - {name: X, fanout: 4}\n"
SIZES = "  rank_sizes: {M: 4, K: 4, N: 4, P: 4}\n"
FIRST = "  - B[m, n] = A[m, k] * V[k, n]\n"
SECOND = "    - {name: W, projection: [n, p]}\n"
BITS = "  bits_per_value: {All: word}\n"
BUFFER_KEEP = "    tensors: {keep: output}\n"
HOLD_ALL = "  - !Storage {tensors: [A, V, W, C], component: DRAM}\n"
HOLD_B = "  - !Storage {tensors: [B], component: Buffer}\n"
HOLD_AV = "      - !Storage {tensors: [A, V], component: Buffer}\n"
LOOP_M = "  - !Temporal {rank_variable: m, tile_shape: 2}\n"
SPATIAL = "      - !Spatial {rank_variable: k, tile_shape: 2, component: Array, name: X}\n"
LOOP_P = "      - !Temporal {rank_variable: p, tile_shape: 1}\n"
COMPUTE_B = "      - !Compute {einsum: B, component: MAC}\n"
COMPUTE_C = "      - !Compute {einsum: C, component: MAC}\n"
DIRECTION = "    direction: up_and_down\n"
RENAME = "    - {name: output, source: Outputs, expected_count: 1}\n"
SIZE = "    size: 100 * word\n"
MAPPING_BODY = GOOD[GOOD.index("  - !Storage") :]
DRAM_AREA = "    area: 0\n    tensors: {keep: ~Intermediates, may_keep: All}\n"
