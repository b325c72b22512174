"""Timeloop's constraints: what of them is applied, how, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

import fusiest
from fusiest.base.errors import SpecError
from fusiest.timeloop import TimeloopImport, import_timeloop
from tests.timeloop.descriptions import PROBLEM, TABLES, write

NODES = """
architecture:
  version: 0.4
  nodes:
  - !Component {name: DRAM, class: DRAM, attributes: {width: 64, datawidth: 8}}
  - !Component {name: Buffer, class: SRAM, attributes: {depth: 64, width: 8, datawidth: 8}, constraints: {dataspace: {bypass: [Weights]}}}
  - !Container
    name: PE
    spatial: {meshX: 4, meshY: 2}
    constraints: {spatial: SPATIAL}
  - !Parallel
    nodes:
    - !Component
      name: WReg
      class: regfile
      attributes: {depth: 4, width: 8, datawidth: 8}
      constraints: {dataspace: {keep: [Weights]}, temporal: {factors: [K=1, R<=3], permutation: [R, K, P]}}
    - !Component
      name: OReg
      class: regfile
      attributes: {depth: 4, width: 8, datawidth: 8}
      constraints: {dataspace: {keep: [Outputs], bypass: [Inputs]}, temporal: {factors: [K=1, P=2]}}
  - !Component {name: MAC, class: intmac}
"""


def convert(tmp_path: Path, spatial: str) -> TimeloopImport:
    return import_timeloop(write(tmp_path, PROBLEM, NODES.replace("SPATIAL", spatial), TABLES))


def test_what_memories_keep(tmp_path: Path) -> None:
    text = convert(tmp_path, "{split: 1, permutation: [K, P, R], factors: [K=4]}").yaml
    assert "keep: Nothing, may_keep: Input | Output" in text
    # Neighbours that never hold the same stand beside each other; what one must keep passes by the other.
    assert "  - !Parallel" in text
    assert "{keep: Weights, may_keep: Input}" in text
    assert "tensors:\n        keep: Output\n        may_keep: Nothing\n" in text


def test_spatial_factors_and_the_split(tmp_path: Path) -> None:
    found = convert(tmp_path, "{split: 1, permutation: [K, P, R], factors: [K=4, R<=2]}")
    x, y = found.yaml.split("name: Y")
    assert "{expression: r | p, operator: '==', value: 1}" in x
    assert "{expression: k, operator: '==', value: 4}" in x
    assert "{expression: k, operator: '==', value: 1}" in y
    assert "{expression: r, operator: '<=', value: 2}" in y
    tree = fusiest.map(found.spec, objective="energy").best("energy").looptree
    assert "parallel-for k (tile 1) on PE.X" in str(tree)


def test_temporal_factors_that_fix_a_tile(tmp_path: Path) -> None:
    found = convert(tmp_path, "{split: 1, permutation: [K, P, R], factors: [K=4]}")
    below = found.yaml.split("name: OReg")[1]
    assert "- {expression: k, operator: '==', value: 1}\n        - {expression: p, operator: '==', value: 2}" in below
    remarks = " ".join(found.report.remarks)
    assert "order of loops of WReg" in remarks
    assert "temporal factors of WReg (K=1, R<=3)" in remarks  # of what else it may hold, they fix no tile


def test_reuse_and_usage(tmp_path: Path) -> None:
    found = convert(tmp_path, "{no_reuse: [Inputs], no_iteration_over_dataspaces: [Weights], maximize_dims: [[P]]}")
    assert found.yaml.count("may_reuse: ~(Input)\n      reuse: Weights\n      min_usage: 1") == 2
    assert "parallel-for p" in str(fusiest.map(found.spec, objective="energy").best("energy").looptree)


@pytest.mark.parametrize(
    ("spatial", "message"),
    [
        ("{factors: [J=2]}", "J cannot have the factor 2"),
        ("{default_max_factor: 4}", "the constraint default_max_factor is not supported"),
        ("{no_link_transfer: [Inputs]}", "'no_link_transfer' is not supported"),
        ("{no_reuse: [Input]}", "no data space 'Input'; did you mean 'Inputs'"),
    ],
)
def test_what_is_refused(tmp_path: Path, spatial: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        convert(tmp_path, spatial)
