"""Tables that leave throughputs open, once settled, have the rows of those that are explored for these throughputs."""

from __future__ import annotations

import numpy as np
import pytest

from fusiest.mapper import Options, open_tables, question_of
from fusiest.pmapping import Floats, Rows, explore, open_memories, with_rates
from fusiest.spec import Spec
from tests.load_text import load_text

ARCH = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, leak_power: %(leak)s, tensors: {keep: ~Intermediates, may_keep: All},
             actions: [{name: read, energy: 1, throughput: %(dram)s}, {name: write, energy: 0.1, throughput: %(dram)s}]}
  - !Memory {name: GLB, size: 23, leak_power: 0, tensors: {keep: ~DRAM, may_keep: All},
             actions: [{name: read, energy: 5, throughput: %(glb)s}, {name: write, energy: 5, throughput: 7}]}
  - !Container {name: PE, spatial: [{name: X, fanout: 3}]}
  - !Memory {name: RF, size: 12, leak_power: 0, tensors: {keep: ~GLB, may_keep: All},
             actions: [{name: read, energy: 0.1, throughput: 9}, {name: write, energy: 0.1, throughput: 9}]}
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 3, throughput: 1}]}
"""
WORK = """
workload:
  rank_sizes: {M: 6, N: 4, K: 4, L: 6}
  bits_per_value: {All: 1}
  einsums: ["B[m, n] = A[m, k] * W[k, n]", "C[m, l] = B[m, n] * V[n, l]"]
"""


def chip(dram: float, glb: float, leak: float) -> Spec:
    return load_text(ARCH % {"dram": dram, "glb": glb, "leak": leak}, WORK)


def rows_of(rows: Rows) -> Floats:
    columns = np.column_stack([rows.tiles, rows.energy, rows.latency, rows.bits.reshape(len(rows), -1)])
    found: Floats = np.unique(np.round(columns, 6), axis=0)
    return found


@pytest.mark.parametrize("leak", [0, 0.5])
def test_settled_rows_are_those_explored(leak: float) -> None:
    options = Options(objective=("edp",), windows="none", jobs=1)
    names = open_memories(chip(1, 1, leak))
    assert names == {"DRAM", "GLB"}
    tables = open_tables(chip(2, 2, leak), options, names)
    counts = set()
    for dram, glb in [(0.1, 5), (1, 1), (4, 0.5), (100, 100)]:
        spec = chip(dram, glb, leak)
        for name, table in tables.items():
            own, settled = explore(spec, name, question_of(options)), with_rates(spec, table, names)
            assert own.groups.keys() == settled.groups.keys()
            for compatibility, rows in own.groups.items():
                np.testing.assert_allclose(rows_of(settled.groups[compatibility]), rows_of(rows), rtol=1e-6)
            counts.add((name, len(own)))
    assert len(counts) > len(tables), "throughputs should matter"
    assert all(len(tables[name]) >= count for name, count in counts)
