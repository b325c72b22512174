"""Small Timeloop descriptions for tests."""

from __future__ import annotations

from pathlib import Path

PROBLEM = """
problem:
  shape:
    name: Conv1D
    dimensions: [K, R, P]
    coefficients: [{name: stride, default: 1}]
    data_spaces:
    - {name: Weights, projection: [[[K]], [[R]]]}
    - {name: Inputs, projection: [[[R], [P, stride]]]}
    - {name: Outputs, projection: [[[K]], [[P]]], read_write: true}
  instance: {K: 4, R: 3, P: 16}
"""

PROCESSED = """
architecture:
  version: 0.4
  subtree:
  - name: system
    local:
    - name: DRAM[1..1]
      class: DRAM
      attributes: {width: 64, datawidth: 8, meshX: 1, meshY: 1}
    - name: inter_PE_spatial[1..1]
      class: dummy_storage
      attributes: {width: 1, depth: 1, datawidth: 1, meshX: 1, meshY: 1}
    - name: Register[1..4]
      class: regfile
      attributes: {depth: 32, width: 8, datawidth: 8, read_bandwidth: 4, write_bandwidth: 1, meshX: 4, meshY: 1}
    - name: MAC[1..4]
      class: intmac
      attributes: {meshX: 4, meshY: 1, global_cycle_seconds: 2e-9}
"""

TABLES = """
ERT:
  tables:
  - name: system.DRAM[1..1]
    actions: [{name: read, energy: 512}, {name: write, energy: 512}, {name: update, energy: 512}, {name: leak, energy: 0}]
  - name: system.Register[1..4]
    actions: [{name: read, energy: 0.5}, {name: write, energy: 0.25}, {name: update, energy: 0.25}, {name: leak, energy: 0.001}]
  - name: system.MAC[1..4]
    actions: [{name: compute, energy: 0.75}, {name: leak, energy: 0.5}]
ART:
  tables: [{name: "system.Register[1..4]", area: 100.0}]
"""

MAPPING = """
mapping:
- {target: DRAM, type: temporal, factors: "P=16", permutation: RKP}
- {target: inter_PE_spatial, type: spatial, factors: "K=4", permutation: KRP}
- {target: Register, type: temporal, factors: "R=3", permutation: RKP}
"""

NODES = """
architecture:
  version: 0.4
  nodes:
  - !Container {name: system, attributes: {global_cycle_seconds: 2e-9}}
  - !Component {name: DRAM, class: DRAM, attributes: {width: 64, datawidth: 8}}
  - !Container {name: PE, spatial: {meshX: 4}}
  - !Component
    name: Register
    class: regfile
    attributes: {depth: 4 * 8, width: 8, datawidth: 8, read_bandwidth: 4, write_bandwidth: 1}
  - !Component {name: MAC, class: intmac}
"""


def write(folder: Path, *texts: str) -> list[str]:
    """A file for each text."""
    names = []
    for number, text in enumerate(texts):
        path = folder / f"part{number}.yaml"
        path.write_text(text, encoding="utf-8")
        names.append(str(path))
    return names
