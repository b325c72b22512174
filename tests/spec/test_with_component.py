"""A spec with other figures for one component."""

from __future__ import annotations

import pytest

import fusiest
from fusiest.spec.architecture import Component, Memory, flatten
from fusiest.spec.load import load_texts


def sizes(spec: fusiest.Spec) -> dict[str, object]:
    return {str(node.name): node.size for node in flatten(spec.require_arch().nodes) if isinstance(node, Memory)}


def test_one_component_changes_and_the_spec_stays() -> None:
    spec = fusiest.load("tpu_v4i", "matmuls")
    changed = spec.with_component("GlobalBuffer", size=1000)
    assert sizes(changed) == {**sizes(spec), "GlobalBuffer": 1000}
    assert sizes(spec)["GlobalBuffer"] != 1000
    assert changed.workload is spec.workload


def test_it_is_as_if_it_had_been_written_so() -> None:
    template = {"N_EINSUMS": 2, "M": 8, "KN": 8}
    written = fusiest.load("simple", "matmuls", GlobalBufferSize=600, **template)
    assert fusiest.load("simple", "matmuls", **template).with_component("GlobalBuffer", size=600) == written


FORKED = """
arch:
  nodes:
  - !Memory {name: DRAM, component_class: Dummy, size: inf}
  - !Fork
    nodes:
    - !Compute {name: Vector, component_class: Dummy}
  - !Compute {name: MAC, component_class: Dummy}
"""


def test_inside_a_fork() -> None:
    spec = load_texts({"forked.yaml": FORKED}, {})
    leakage = {
        str(node.name): node.leak_power
        for node in flatten(spec.with_component("Vector", leak_power=7).require_arch().nodes)
        if isinstance(node, Component)
    }
    assert leakage == {"DRAM": None, "Vector": 7, "MAC": None}


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("GlobalBufer", {"size": 1}, "no component GlobalBufer; did you mean 'GlobalBuffer'?"),
        ("GlobalBuffer", {"sise": 1}, "GlobalBuffer has no field 'sise'; did you mean 'size'?"),
        ("GlobalBuffer", {"size": -1}, "GlobalBuffer: size must not be negative"),
        ("GlobalBuffer", {"size": "no_such_name"}, "no_such_name"),
    ],
)
def test_mistakes(name: str, fields: dict[str, object], words: str) -> None:
    with pytest.raises(fusiest.SpecError, match=words.replace("?", r"\?")):
        fusiest.load("simple", "matmuls").with_component(name, **fields)
