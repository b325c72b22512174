"""What a dataflow makes of an architecture's constraints."""

from __future__ import annotations

import dataclasses

import pytest

from fusiest.base.errors import SpecError
from fusiest.spec.dumping import dump
from fusiest.spec.hardware.architecture import Memory, Tensors, WrittenTensors
from tests.load_text import load_text

ARCH = """\
arch:
  nodes:
  - !Memory
    name: DRAM
    size: inf
    component_class: Dummy
    tensors: {force_memory_hierarchy_order: false, back: Outputs, keep: Inputs, tensor_order_options: [[Inputs]]}
  - !Compute {name: MAC, component_class: Dummy}
"""


def tensors_with(given: str) -> WrittenTensors:
    spec = load_text(ARCH, f"dataflow: {{memories: [{{memory: outermost, tensors: {given}}}]}}")
    assert load_text(dump(spec)) == spec
    memory = spec.require_arch().nodes[0]
    assert isinstance(memory, Memory)
    return memory.tensors


def test_fields_that_are_given_replace_the_architectures() -> None:
    assert tensors_with("{keep: All}") == dataclasses.replace(tensors_with("{}"), keep="All")


def test_a_field_can_be_set_to_its_default() -> None:
    defaults = "{force_memory_hierarchy_order: true, back: Nothing, tensor_order_options: []}"
    assert tensors_with(defaults) == Tensors(keep="Inputs", back="Nothing")


def test_a_dataflow_says_what_a_memory_can_say() -> None:
    with pytest.raises(SpecError, match=r"b\.yaml:1: unknown field 'kep' in tensors; did you mean 'keep'\?"):
        load_text(ARCH, "dataflow: {memories: [{memory: DRAM, tensors: {kep: All}}]}")


@pytest.mark.parametrize("memory", ["outermost", "shared"])
def test_an_architecture_without_memories(memory: str) -> None:
    with pytest.raises(SpecError, match=r"^\S*b\.yaml:1: the dataflow constrains .*, but the architecture has none$"):
        load_text(
            "arch: {nodes: [!Compute {name: MAC, component_class: Dummy}]}",
            f"dataflow: {{memories: [{{memory: {memory}, tensors: {{keep: All}}}}]}}",
        )
