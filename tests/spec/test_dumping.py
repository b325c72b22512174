"""load(dump(spec)) == spec, whatever the spec."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fusiest
from fusiest.base.frozen import FrozenDict
from fusiest.looptree import nodes as tree
from fusiest.spec import architecture as arch
from fusiest.spec.dumping import dump, dump_mapping
from fusiest.spec.hardware.actions import Action
from fusiest.spec.language.affine import Affine, Constraint
from fusiest.spec.language.expressions import Word
from fusiest.spec.language.ranges import LARGEST, SMALLEST
from fusiest.spec.reading.loading import bundled
from fusiest.spec.spec import Spec
from fusiest.spec.workload.einsums import Einsum, EinsumRenames, Rename, TensorAccess, Workload
from tests.load_text import load_text

GOLDEN = Path(__file__).parents[3] / "shared" / "golden"
CASES = sorted([*GOLDEN.glob("cases/*.yaml"), *GOLDEN.glob("mapper_cases/*.yaml")])
LIBRARY: list[tuple[str, dict[str, Any]]] = [(name, {}) for names in bundled().values() for name in names]
DEFINED: list[tuple[str, dict[str, Any]]] = [
    ("simple", {"GlobalBufferSize": 1000, "MainMemoryEnergy": 2.5}),
    ("snowcat", {"ADDITIONAL_GLB_CONSTRAINTS": {"may_keep": "All", "keep": "Inputs"}}),
    ("matmuls", {"N_EINSUMS": 5, "KN": 16}),
    ("gpt3_6.7B", {"BATCH_SIZE": 4, "N_TOKENS": 256}),
    ("fused_matmuls_to_simple", {"N_EINSUMS": 4}),
    ("fused_matvecs_to_simple_tiled", {"Y_IN_MAIN_MEMORY": False}),
]


@pytest.mark.parametrize(("name", "defines"), [*LIBRARY, *DEFINED])
def test_library(name: str, defines: dict[str, Any]) -> None:
    spec = fusiest.load(name, **defines)
    assert load_text(dump(spec)) == spec


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_golden_cases(case: Path) -> None:
    spec = fusiest.load(case)
    assert load_text(dump(spec)) == spec
    if spec.mapping is not None:
        assert load_text(dump_mapping(spec.mapping)).mapping == spec.mapping


DUMMY: dict[str, Any] = {"component_class": "Dummy"}
BUILT = Spec(
    arch=arch.Architecture(
        variables=FrozenDict(
            {
                "word": 16, "half": "word / 2", "quarter": "max([half, 1][0] / 2, {A, B}.bits_per_value)", "on": True,
                "text": Word("a: b # {{c}}"), "empty": (), "inner": "~A | {{A}, {B}}", "list": (1, "half", "[1, 2][0]"),
            }
        ),
        nodes=(
            arch.Memory(
                name="DRAM", size=float("inf"), leak_power=1e-12, area=0, bits_per_action=FrozenDict({"A | V": 64, "Other": "8*8"}),
                tensors=arch.Tensors(
                    keep="~Intermediates", may_keep="All", back="V", no_refetch_from_above="V", no_resend_to_below="A",
                    tile_shape=(arch.WrittenComparison(expression="m", operator="product<=", value="4 * word"),),
                    tensor_order_options=(("A", "V"), ("V",)), force_memory_hierarchy_order=False,
                ),
                actions=(
                    Action(name="read", energy=0.1, throughput=1e15, values_per_action=3),
                    Action(name="write", energy="1 + 2", throughput=7, energy_scale=2, actions_scale=0),
                ),
                skip_initial_output_write=False, total_latency="max(a.n_calls for a in actions)", enabled="len(All) == 3",
            ),
            arch.Fork(name="F", forked_power_gateable=True, nodes=(arch.ComputeUnit(name="Side", **DUMMY),)),
            arch.Fork(non_forked_power_gateable=True, nodes=(arch.ComputeUnit(name="Side2", **DUMMY),)),
            arch.TollStation(name="Link", direction=FrozenDict({"A": "up", "Other": "down"}), **DUMMY),
            arch.Container(
                name="Array",
                spatial=(
                    arch.Dimension(name="X", fanout=4, may_reuse="A", reuse="V", min_usage=0.5, usage_scale=2, power_gateable=True),
                    arch.Dimension(
                        name="Y", fanout="2 * word",
                        loop_bounds=(arch.WrittenComparison(expression="~m", operator="==", value=1),),
                    ),
                ),
            ),
            arch.Container(name="Empty"),
            arch.ComputeUnit(name="MAC", enabled=False, skip_initial_output_write=False, **DUMMY),
        ),
    ),
    workload=Workload(
        rank_sizes=FrozenDict({"M": 4}),
        iteration_space_shape=(Constraint("0 <= k < 4"), Constraint("0 <= n < 4 and n < 9")),
        bits_per_value=FrozenDict({"Inputs": 8, "Other": 2.5}),
        persistent_tensors="V", n_instances=3,
        einsums=(
            Einsum(
                name="B",
                tensor_accesses=(
                    TensorAccess(name="A", projection=FrozenDict({"H": Affine.parse("2*k - 3*m + 1"), "Z": Affine.parse("0")})),
                    TensorAccess(name="V", projection=FrozenDict({"K": Affine.parse("k"), "N": Affine.parse("n")}), bits_per_value="4+4"),
                    TensorAccess(name="B", projection=FrozenDict({"M": Affine.parse("m"), "N": Affine.parse("n")}), output=True),
                ),
                renames=(Rename(name="weight", source="V", expected_count=1),),
                iteration_space_shape=(Constraint("0 <= m < 2"),), n_instances=2,
            ),
            Einsum(
                name="Copy", is_copy_operation=True,
                tensor_accesses=(
                    TensorAccess(name="S", projection=FrozenDict({})),
                    TensorAccess(name="T", projection=FrozenDict({}), output=True),
                ),
            ),
        ),
    ),
    renames=(
        EinsumRenames(name="default", tensor_accesses=(Rename(name="x", source="~(Inputs | Outputs)", expected_count="0"),)),
        EinsumRenames(name="B", tensor_accesses=()),
    ),
    variables=FrozenDict({"w": 1, "inverse": "1 / w"}),
    mapping=tree.LoopTree(
        nodes=(
            tree.Storage(tensors=("A", "V"), component="DRAM", persistent=True),
            tree.Temporal(rank_variable=FrozenDict({"B": "m", "C": "p"}), tile_shape=2),
            tree.Sequential(
                nodes=(
                    tree.Nested(
                        nodes=(
                            tree.Toll(tensors=("A",), component="Link"),
                            tree.Spatial(rank_variable="m", tile_shape=1, component="Array", name="X"),
                            tree.Compute(einsum="B", component="MAC"),
                        )
                    ),
                    tree.Nested(nodes=(tree.Compute(einsum="C", component="MAC"),)),
                )
            ),
        )
    ),
)  # fmt: skip


def test_built_in_python() -> None:
    """Everything that a field can be, section by section (together they would not pass the checks)."""
    assert load_text(dump(Spec(arch=BUILT.arch))).arch == BUILT.arch
    assert load_text(dump(Spec(mapping=BUILT.mapping))).mapping == BUILT.mapping
    rest = dataclasses.replace(BUILT, arch=None, mapping=None)
    assert load_text(dump(rest)) == rest


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=12)
awkward = st.sampled_from(
    ["{{ x }}", "{% if %}", "{# c #}", "a: b", "- a", "#", "'", '"', "\\", "null", "~", "1e5", ".5", "yes", "0x1", "!Tag",
     "{{{%{#", "é", "\u2028", "\x85", "\ufeff", "\t", "a\nb", "=", "<<", "inf", ".nan", "*a", "&a", "\x7f", "\x00"]
)  # fmt: skip


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.lists(words | awkward, min_size=1, max_size=4).filter(lambda texts: all(t.strip() for t in texts)))
def test_any_text_survives(texts: list[str]) -> None:
    mapping = tree.LoopTree(nodes=(tree.Storage(tensors=tuple(texts), component=texts[0]),))
    assert load_text(dump_mapping(mapping)).mapping == mapping


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.floats(min_value=SMALLEST, max_value=LARGEST) | st.integers(1, 2**61))
def test_any_number_survives(number: float) -> None:
    mac = arch.ComputeUnit(name="MAC", actions=(Action(name="compute", energy=number, throughput=number),))
    spec = Spec(arch=arch.Architecture(nodes=(arch.Memory(name="M", size=number, **DUMMY), mac)))
    assert load_text(dump(spec)) == spec
