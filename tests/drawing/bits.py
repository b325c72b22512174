"""Random `bits_per_value` of memories and Tolls: for all, by name, by role, by names that each Einsum gives to other tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fusiest.base.frozen import FrozenDict
from fusiest.spec import architecture as arch
from fusiest.spec.spec import Spec
from fusiest.spec.workload.einsums import EinsumRenames, Rename
from tests.drawing.dice import Dice

WIDTHS = [2, 16, 4, 12, 8]
RENAMED = "wide"
"""A name that stands for other tensors in each Einsum."""
KINDS = ("one", "name", "role", "rename")


def draw_bits(dice: Dice, spec: Spec, percent: int = 60) -> Spec:
    """A spec whose memories and Tolls each have, with this chance, a `bits_per_value`; at least one of them does."""
    names = [
        str(n.name) for n in arch.flatten(spec.require_arch().nodes) if isinstance(n, arch.Memory | arch.TollStation)
    ]
    chosen = dice.subset(names, percent) or [dice.one_of(names)]
    tables = {name: _table(dice, spec) for name in chosen}
    return with_renames(dice, changed(spec, {name: {"bits_per_value": table} for name, table in tables.items()}))


def changed(spec: Spec, fields: Mapping[str, Mapping[str, object]]) -> Spec:
    """A spec with other fields of some nodes, by name."""

    def change(node: arch.Container) -> arch.Container:
        return replace(node, **fields.get(str(node.name), {}))  # type: ignore[arg-type]

    architecture = spec.require_arch()
    return replace(spec, arch=replace(architecture, nodes=arch.rewritten(architecture.nodes, change)))


def kinds_of_bits(spec: Spec) -> set[str]:
    """Which kinds of `bits_per_value` a spec's components have."""
    kinds, tensors = set(), set(spec.info.users)
    for node in arch.flatten(spec.require_arch().nodes):
        table = node.bits_per_value if isinstance(node, arch.Component) else None
        if isinstance(table, FrozenDict):
            own = {name for name in table if name != "Other"}
            kinds.add("rename" if RENAMED in own else "name" if own <= tensors else "role")
        elif table is not None:
            kinds.add("one")
    return kinds


def _table(dice: Dice, spec: Spec) -> arch.Value | FrozenDict[str, arch.Value]:
    tensors = list(dict.fromkeys(str(a.name) for e in spec.require_workload().einsums for a in e.tensor_accesses))
    first, second = dice.one_of(WIDTHS), dice.one_of(WIDTHS)
    kind = dice.one_of(["role", "rename", "name", "role", "rename", "name", "one"])
    if kind == "one":
        return first
    if kind == "name":
        one = dice.one_of(tensors)
        return FrozenDict({one: first, "Other": second} if dice.chance(50) else {one: first})
    if kind == "rename":
        return FrozenDict({RENAMED: first, "Other": second} if dice.chance(80) else {RENAMED: first})
    by_einsum = f"{first} if len(All) == 2 else {second}"
    tables: list[dict[str, arch.Value]] = [
        {"Outputs": first, "Other": second},
        {"Inputs": first, "Outputs": second},
        {"Inputs": first, "Other": second},
        {"Intermediates": first, "Other": second},
        {"Outputs & Shared": first, "Inputs & Shared": second},
        {"Shared": first},
        {"~Shared": first, "Shared": by_einsum},
        {"Outputs": by_einsum, "Other": 8},
    ]
    return FrozenDict(dice.one_of(tables))


def with_renames(dice: Dice, spec: Spec) -> Spec:
    """A spec whose Einsums each say what `wide` stands for, themselves or in the section `renames`."""
    workload = spec.require_workload()
    tables = [*(entry.tensor_accesses for entry in spec.renames), *(e.renames for e in workload.einsums)]
    if any(rename.name == RENAMED for table in tables for rename in table):
        return spec
    sources = {
        str(e.name): dice.one_of(["Outputs", "Inputs", "Nothing", "Shared", *(str(a.name) for a in e.tensor_accesses)])
        for e in workload.einsums
    }
    if dice.chance(50) or spec.renames:
        einsums = tuple(
            replace(e, renames=(*e.renames, Rename(name=RENAMED, source=sources[str(e.name)])))
            for e in workload.einsums
        )
        return replace(spec, workload=replace(workload, einsums=einsums))
    entries = [EinsumRenames(name="default", tensor_accesses=(Rename(name=RENAMED, source="Outputs"),))]
    entries += [
        EinsumRenames(name=name, tensor_accesses=(Rename(name=RENAMED, source=source),))
        for name, source in sources.items()
        if dice.chance(70)
    ]
    return replace(spec, renames=tuple(entries))
