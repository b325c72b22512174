"""Writes docs/spec-reference.md from the types that a spec is read into: `python docs/generate_reference.py`.

Fields, types and defaults come from the dataclasses; what a field means stands in DESCRIPTIONS below. A field without a
description, or a description without a field, is an error.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from fusiest.looptree import nodes as looptree
from fusiest.spec import architecture as arch
from fusiest.spec import dataflow as flow
from fusiest.spec import workload as work
from fusiest.spec.spec import Spec

FILE = Path(__file__).parent / "spec-reference.md"

CLASSES: dict[str, tuple[type[Any], ...]] = {
    "Sections": (Spec,),
    "Architecture": (
        arch.Architecture, arch.Container, arch.Component, arch.Memory, arch.Toll, arch.Compute, arch.Fork, arch.Dimension,
        arch.Tensors, arch.Action, arch.Comparison,
    ),
    "Dataflow": (flow.Dataflow, flow.MemoryConstraints),
    "Workload": (work.Workload, work.Einsum, work.TensorAccess, work.Rename, work.EinsumRenames),
    "Mapping": (
        looptree.LoopTree, looptree.Temporal, looptree.Spatial, looptree.Storage, looptree.Toll, looptree.Compute,
        looptree.Sequential, looptree.Nested,
    ),
}  # fmt: skip

TITLES: dict[type[Any], str] = {
    Spec: "A spec: one file or several",
    arch.Architecture: "`arch`",
    arch.Container: "`!Container`",
    arch.Component: "Every component: `!Memory`, `!Toll`, `!Compute`",
    arch.Memory: "`!Memory`",
    arch.Toll: "`!Toll`",
    arch.Compute: "`!Compute`",
    arch.Fork: "`!Fork`",
    arch.Dimension: "An entry of `spatial`",
    arch.Tensors: "`tensors` of a memory or Toll",
    arch.Action: "An entry of `actions`",
    arch.Comparison: "An entry of `loop_bounds` or `tile_shape`",
    flow.Dataflow: "`dataflow`",
    flow.MemoryConstraints: "An entry of `memories` of a dataflow",
    work.Workload: "`workload`",
    work.Einsum: "An entry of `einsums`",
    work.TensorAccess: "An entry of an Einsum's `tensor_accesses`",
    work.Rename: "A rename",
    work.EinsumRenames: "An entry of `renames: {einsums: …}`",
    looptree.LoopTree: "`mapping`",
    looptree.Temporal: "`!Temporal`",
    looptree.Spatial: "`!Spatial`",
    looptree.Storage: "`!Storage`",
    looptree.Toll: "`!Toll` in a mapping",
    looptree.Compute: "`!Compute` in a mapping",
    looptree.Sequential: "`!Sequential`",
    looptree.Nested: "`!Nested`",
}

NOTES: dict[type[Any], str] = {
    Spec: "Each section may stand in any of the files, all but `renames` and `variables` in one of them only.",
    arch.Architecture: "`!Hierarchical {nodes}` may wrap nodes; it changes nothing.",
    arch.Component: (
        "These fields, and those of `!Container`, belong to every component. Without `component_class: Dummy`, a component "
        "must give `leak_power`, `area`, and the energy and throughput of each of its actions."
    ),
    arch.Memory: "Actions: `read`, `write`.",
    arch.Toll: "Actions: `read`.",
    arch.Compute: "Actions: `compute`.",
    arch.Comparison: (
        "In `loop_bounds` the number compared is the iterations of a variable's loop on this dimension, 1 if it has none; "
        "in `tile_shape`, the variable's extent at this memory's outermost holder."
    ),
    work.Einsum: (
        "An entry may also be a string, `C[m, n] = A[m, k] * B[k, n]`, or have that string in a field `einsum` in place of "
        "`tensor_accesses`; `name` is then the output's name unless given. `M: p` in a string names the rank."
    ),
    work.Rename: "Also `{name: source, …}` as a table, without `expected_count`.",
    work.EinsumRenames: "The top-level section `renames` has one field, `einsums`, a list of these.",
}

KIND = {
    "Value": "number or expression",
    "Value | None": "number or expression",
    "PerTensor | None": "number, expression, or {set: number}",
    "bool": "true or false",
    "str": "text",
    "str | None": "text",
    "int": "whole number, at least 1",
    "tuple[Dimension, ...]": "list",
    "tuple[Action, ...]": "list",
    "tuple[Comparison, ...]": "list",
    "tuple[Rename, ...]": "list or {name: set}",
    "tuple[TensorAccess, ...]": "list",
    "tuple[Einsum, ...]": "list",
    "tuple[EinsumRenames, ...]": "{einsums: list}",
    "tuple[ArchitectureNode, ...]": "list of nodes",
    "tuple[Node, ...]": "list of nodes",
    "tuple[Nested, ...]": "list of `!Nested`",
    "tuple[Constraint, ...]": "{variable: constraint}, or list of constraints",
    "tuple[str, ...]": "list of names",
    "tuple[tuple[str, ...], ...]": "list of lists of sets",
    "Tensors": "table",
    "GivenTensors": "table",
    "FrozenDict[str, VariableValue]": "{name: number, expression, word or list}",
    "FrozenDict[str, int]": "{rank: number}",
    "FrozenDict[str, Affine]": "list, or {rank: index}",
    "str | FrozenDict[str, str]": "text, or {set: text}",
    "RankVariable": "name, or {Einsum: name}",
    "Architecture | None": "table",
    "Workload | None": "table",
    "LoopTree | None": "table",
    "Dataflow | None": "table",
    "tuple[MemoryConstraints, ...]": "list",
}

SETS = frozenset(
    ["may_reuse", "reuse", "keep", "may_keep", "back", "no_refetch_from_above", "no_resend_to_below", "source",
     "persistent_tensors"]
)  # fmt: skip

DESCRIPTIONS: dict[tuple[type[Any], str], str] = {
    (Spec, "arch"): "The architecture.",
    (Spec, "dataflow"): "Constraints to put on the architecture, whatever its memories are called.",
    (Spec, "workload"): "The workload.",
    (Spec, "mapping"): "The mapping to evaluate or show.",
    (Spec, "renames"): "Names for sets of tensors, per Einsum or for all.",
    (
        Spec,
        "variables",
    ): "Values that expressions may name, in any order; one that names tensors has a value for each Einsum.",
    (arch.Architecture, "nodes"): "The nodes from the outermost in, each the parent of the next.",
    (arch.Architecture, "variables"): "As the section `variables`, for this architecture.",
    (arch.Container, "name"): "Unique in the architecture.",
    (arch.Container, "spatial"): (
        "Dimensions of a fanout: this node and all below it on the path exist that many times. Dimensions multiply."
    ),
    (arch.Component, "component_class"): (
        "`Dummy`: energy, leakage and area that are not given are 0, throughput is inf. No other class is supported yet."
    ),
    (arch.Component, "enabled"): (
        "Per Einsum. A memory that is not enabled holds nothing (its fanout stays); a compute cannot run the Einsum."
    ),
    (arch.Component, "leak_power"): "Watts per instance, for as long as anything runs.",
    (arch.Component, "area"): "Square metres per instance. Read and checked; no result uses it yet.",
    (arch.Component, "actions"): "What the component does, with energy and throughput.",
    (arch.Component, "total_latency"): (
        "Seconds busy, as an expression over `actions` (each with `name`, `n_calls`, `throughput`) and the component's own "
        "figures. Default: the sum of n_calls / throughput. It must not fall when a count rises."
    ),
    (arch.Component, "n_parallel_instances"): "Multiplies throughput, leakage and area; not size, not energy.",
    (arch.Component, "bits_per_action"): "Bits that one action moves, where the action does not say. Default 1.",
    (arch.Component, "values_per_action"): "Values that one action moves; goes before bits_per_action.",
    (arch.Component, "bits_per_value"): "Bits per value in this component, in place of the workload's.",
    (arch.Component, "energy_scale"): "Multiplies the energy of every action.",
    (arch.Component, "throughput_scale"): "Multiplies the throughput of every action.",
    (arch.Component, "actions_scale"): "Multiplies the count of every action.",
    (arch.Component, "leak_power_scale"): "Multiplies leak_power.",
    (arch.Component, "area_scale"): "Multiplies area.",
    (arch.Memory, "size"): "Bits per instance; `inf` for no limit.",
    (arch.Memory, "tensors"): "What is held here, and how.",
    (arch.Memory, "skip_initial_output_write"): (
        "Whether partial sums are not moved the first time, when there are none yet."
    ),
    (arch.Toll, "direction"): (
        "`down` (towards the compute), `up` or `up_and_down`; or by set, covering every tensor. Only these ways are charged."
    ),
    (arch.Toll, "tensors"): "Which tensors pass here.",
    (arch.Compute, "skip_initial_output_write"): "As for a memory.",
    (arch.Fork, "nodes"): "A side branch below the node above; the main path goes on after it.",
    (arch.Fork, "name"): "For people only.",
    (arch.Fork, "forked_power_gateable"): "Its nodes do not leak while another branch runs.",
    (arch.Fork, "non_forked_power_gateable"): "What comes after the fork does not leak while the fork runs.",
    (arch.Dimension, "name"): "Unique in its node.",
    (arch.Dimension, "fanout"): "How many there are.",
    (arch.Dimension, "may_reuse"): (
        "Tensors that are multicast or reduced for free across loops on this dimension that do not index them. Default: "
        "`reuse` if given, else All. It restricts no loop."
    ),
    (arch.Dimension, "reuse"): (
        "Loops here may run only over variables that index none of these tensors. Default Nothing."
    ),
    (arch.Dimension, "loop_bounds"): "What the iterations of the loops on this dimension must obey.",
    (arch.Dimension, "min_usage"): (
        "The mapper keeps a Spatial choice only if no other uses every dimension at least as well and one better, counting "
        "usage up to this fraction. 1: use as much as possible. Not for copies."
    ),
    (arch.Dimension, "usage_scale"): "Usage is instances used times this, over the fanout; it must not exceed 1.",
    (arch.Dimension, "power_gateable"): "Leakage of this node and all below counts only for the fraction in use.",
    (arch.Tensors, "keep"): (
        "Must be held here. The name of an outer memory is the set it holds; `Above` is the union of all of them. "
        "Default Nothing."
    ),
    (arch.Tensors, "may_keep"): "May be held here. Default: All if `keep` is absent, else Nothing.",
    (arch.Tensors, "back"): "Must be held here and in no memory above.",
    (arch.Tensors, "tile_shape"): "What extents at this memory's outermost holder must obey.",
    (arch.Tensors, "no_refetch_from_above"): (
        "For these tensors, no Temporal loop that does not index them fully between the backing holder and this one."
    ),
    (arch.Tensors, "no_resend_to_below"): "The same between this holder and the next below, or the compute.",
    (arch.Tensors, "no_fused_loops"): (
        "Rank variables that no loop may step above a tensor of several Einsums that is backed here: its tiles are whole in them."
    ),
    (arch.Tensors, "tensor_order_options"): (
        "Options, each a list of disjoint sets, highest first. This memory's holders satisfy at least one; tensors that are "
        "not listed are free."
    ),
    (arch.Tensors, "force_memory_hierarchy_order"): (
        "Holders of outer memories stand above those of inner ones. `false` on either memory lifts that between different tensors; "
        "the mapper then takes its slower, general search."
    ),
    (arch.Action, "name"): "`read`, `write` or `compute`.",
    (arch.Action, "energy"): "Joules per action.",
    (arch.Action, "throughput"): "Actions per second, per instance; `inf` for no limit.",
    (arch.Action, "bits_per_action"): "Bits that this action moves. Default: the component's.",
    (arch.Action, "values_per_action"): "Values that this action moves. Default: the component's.",
    (arch.Action, "energy_scale"): "Multiplies energy, on top of the component's.",
    (arch.Action, "throughput_scale"): "Multiplies throughput, on top of the component's.",
    (arch.Action, "actions_scale"): "Multiplies the count, on top of the component's.",
    (arch.Comparison, "expression"): (
        "A set of rank variables, such as `m | n`, `~m` or `weight.rank_variables`; `All` means all variables of the Einsum."
    ),
    (arch.Comparison, "operator"): (
        "`==` `<=` `>=` `<` `>`, for each variable; with `product` in front, as in `product<=`, for their product."
    ),
    (arch.Comparison, "value"): "What to compare with.",
    (flow.Dataflow, "memories"): "The memories that are constrained.",
    (flow.MemoryConstraints, "memory"): (
        "`outermost`; `shared`, the last memory outside all fanouts, where Einsums can exchange tensors on chip; or a name."
    ),
    (flow.MemoryConstraints, "tensors"): (
        "As `tensors` of a memory. Fields that are given take the place of the architecture's, the others stay."
    ),
    (work.Workload, "einsums"): "In the order that `--orders given` means.",
    (work.Workload, "rank_sizes"): "Sizes of ranks: every index into the rank is at least 0 and less than this.",
    (
        work.Workload,
        "iteration_space_shape",
    ): "Constraints on rank variables, such as `0 <= m < 128`, each for the Einsums that have its variables.",
    (work.Workload, "bits_per_value"): "Bits of a value, for all tensors or by disjoint sets, `Other` being the rest.",
    (work.Workload, "persistent_tensors"): (
        "Tensors that stay for all of the run: backed above all loops, with space for every instance."
    ),
    (work.Workload, "n_instances"): (
        "How often the workload runs: multiplies energy, latency, actions and persistent space."
    ),
    (work.Einsum, "name"): "Unique in the workload.",
    (work.Einsum, "tensor_accesses"): "The tensors that are read and the one that is written.",
    (work.Einsum, "renames"): "Names for this Einsum alone; they go before the section `renames`.",
    (work.Einsum, "iteration_space_shape"): "Constraints for this Einsum alone.",
    (work.Einsum, "n_instances"): "How often this Einsum runs, on top of the workload's.",
    (work.Einsum, "is_copy_operation"): "The output is the input, elsewhere: moved once, nothing computed.",
    (work.Einsum, "operation"): (
        "What it computes, in a word that expressions of the architecture may compare: `matmul`, `add`, `exp`, … Default: see "
        "[workload.md](workload.md#what-an-einsum-computes)."
    ),
    (work.TensorAccess, "name"): "The tensor.",
    (work.TensorAccess, "projection"): (
        "One index per rank: `[m, n]` for ranks M and N, or `{H: 2*p + r}`. A variable may not index two ranks of one tensor."
    ),
    (work.TensorAccess, "output"): "Exactly one access of an Einsum is its output.",
    (work.TensorAccess, "bits_per_value"): "In place of the workload's; all users of a tensor must agree.",
    (work.Rename, "name"): "The name, for use in the architecture's set expressions.",
    (work.Rename, "source"): "What it stands for; earlier renames may be used.",
    (work.Rename, "expected_count"): "How many tensors that must be; checked.",
    (work.EinsumRenames, "name"): (
        "An Einsum, or `default` for all. An Einsum's own entry goes before it, name by name."
    ),
    (work.EinsumRenames, "tensor_accesses"): "The renames, in order.",
    (looptree.LoopTree, "nodes"): "From the root down. Only the last may be a `!Sequential`.",
    (looptree.Temporal, "rank_variable"): (
        "The variable that is stepped; by Einsum where fused Einsums call it differently."
    ),
    (looptree.Temporal, "tile_shape"): "The variable's extent below the loop.",
    (looptree.Spatial, "rank_variable"): "As for `!Temporal`.",
    (looptree.Spatial, "tile_shape"): "As for `!Temporal`.",
    (looptree.Spatial, "component"): "The node whose fanout the iterations run on.",
    (looptree.Spatial, "name"): "The dimension of that fanout.",
    (looptree.Storage, "tensors"): "Tensors whose tiles are kept from here down.",
    (looptree.Storage, "component"): "The memory.",
    (looptree.Storage, "persistent"): "Held for all of the run; only above all loops.",
    (looptree.Toll, "tensors"): "Tensors that pass.",
    (looptree.Toll, "component"): "The Toll.",
    (looptree.Compute, "einsum"): "The Einsum computed here.",
    (looptree.Compute, "component"): "The compute that it runs on.",
    (looptree.Sequential, "nodes"): "Branches that run one after the other.",
    (looptree.Nested, "nodes"): "The nodes of one branch.",
}


def own_fields(kind: type[Any]) -> list[dataclasses.Field[Any]]:
    """Fields that a class adds to those of its bases."""
    return [f for f in dataclasses.fields(kind) if f.name in kind.__annotations__]


def missing() -> list[str]:
    """Fields without a description, and descriptions without a field."""
    fields = {(kind, f.name) for kinds in CLASSES.values() for kind in kinds for f in own_fields(kind)}
    return sorted(f"{kind.__qualname__}.{name}" for kind, name in fields ^ DESCRIPTIONS.keys())


def _type(kind: type[Any], field: dataclasses.Field[Any]) -> str:
    if field.name in SETS:
        return "set"
    if (kind, field.name) == (arch.Tensors, "no_fused_loops"):
        return "set of rank variables"
    if (kind, field.name) in ((arch.Component, "total_latency"), (arch.Comparison, "expression")):
        return "expression" if kind is arch.Component else "set of rank variables"
    return KIND[str(field.type)]


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return "required" if field.default_factory is dataclasses.MISSING else ""
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    return f"`{field.default}`" if isinstance(field.default, (int, float, str)) else ""


def reference() -> str:
    """The whole page."""
    if missing():
        raise SystemExit(f"without field or without description: {', '.join(missing())}")
    lines = [
        "# Spec reference",
        "",
        "Every field of a spec. This page is generated by `python docs/generate_reference.py`; do not edit it. A field that",
        "is not listed here is an error. What numbers, expressions and sets look like is in",
        "[architecture.md](architecture.md) and [workload.md](workload.md).",
    ]
    for section, kinds in CLASSES.items():
        lines += ["", f"## {section}"]
        for kind in kinds:
            lines += ["", f"### {TITLES[kind]}", ""]
            if kind in NOTES:
                lines += [NOTES[kind], ""]
            fields = own_fields(kind)
            if not fields:
                continue
            lines += ["| field | value | default | meaning |", "| --- | --- | --- | --- |"]
            for f in fields:
                cells = [f"`{f.name}`", _type(kind, f), _default(f), DESCRIPTIONS[kind, f.name]]
                lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
