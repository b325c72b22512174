"""What follows from a workload: bounds, relevance, sharing, named sets. Linear in the size of the DAG.

Mistakes in the workload as a whole (cycles, inconsistent ranks, unbounded variables) are errors with their line.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fusiest.base.errors import SpecError
from fusiest.base.frozen import FrozenDict
from fusiest.spec.language.affine import Affine
from fusiest.spec.language.expressions import NameSet, Universe, by_set, name_set, number
from fusiest.spec.language.namesets import SetKind
from fusiest.spec.language.ranges import Limits
from fusiest.spec.language.renames import misspelt_tensor, rename_tables
from fusiest.spec.language.scope import EinsumNames, tensor_set
from fusiest.spec.language.variables import VariableValue, split
from fusiest.spec.workload.checks import check_dependencies, check_einsums, check_names
from fusiest.spec.workload.einsums import Einsum, EinsumRenames, Rename, TensorAccess, Workload
from fusiest.spec.workload.made_in_parts import SharedOut, shared_out, written
from fusiest.spec.workload.spaces import Spaces


class Stepping(NamedTuple):
    """A rank that one variable steps alone: its index is coefficient · variable + constant."""

    rank: str
    coefficient: int
    constant: int

    def __str__(self) -> str:
        return self.rank


@dataclass(frozen=True, slots=True)
class Access:
    """How an Einsum indexes one tensor. Variables count from 0, as loops do: from their least values."""

    tensor: str
    output: bool
    ranks: FrozenDict[str, Affine]

    def stepping(self, variable: str) -> Stepping | None:
        """The rank that a variable steps alone, and how."""
        for rank, affine in self.ranks.items():
            if affine.variables == (variable,):
                return Stepping(rank, affine.coefficients[variable], affine.constant)
        return None

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(v for affine in self.ranks.values() for v in affine.variables)

    @property
    def fully_relevant(self) -> frozenset[str]:
        """Variables that are alone in their rank."""
        return frozenset(a.variables[0] for a in self.ranks.values() if len(a.variables) == 1)

    @property
    def partially_relevant(self) -> frozenset[str]:
        return self.variables - self.fully_relevant


@dataclass(frozen=True, slots=True)
class EinsumInfo:
    """One Einsum, resolved."""

    name: str
    bounds: FrozenDict[str, int]
    least: FrozenDict[str, int]
    """The least value of each rank variable as the workload has it. Everywhere else variables count from 0."""
    accesses: FrozenDict[str, Access]
    output: str
    bits_per_value: FrozenDict[str, int | float]
    persistent: frozenset[str]
    n_instances: int
    is_copy_operation: bool
    operation: str
    """What it computes, in a word: what it says, or what follows from its accesses."""
    names: EinsumNames
    """Everything that an expression may refer to in this Einsum: sets, tensors, renames, variables."""
    shared_out: FrozenDict[str, SharedOut] = field(default_factory=FrozenDict)
    """Tensors that several Einsums make, by name."""
    replicable: frozenset[str] = frozenset()
    """Inputs that no other Einsum uses: instances of a fanout may have one copy each. A copy Einsum has none."""
    formula: str | None = field(default=None, compare=False)
    """What it computes, if that is more than its operation says."""


@dataclass(frozen=True)
class WorkloadInfo:
    """What follows from a workload's text: the Einsums with their bounds, and who makes and uses which tensor."""

    einsums: FrozenDict[str, EinsumInfo]
    users: FrozenDict[str, tuple[str, ...]]
    """Einsums that read or write a tensor, in listed order."""
    producers: FrozenDict[str, tuple[str, ...]]
    """Einsums that make a tensor, in listed order: one, or several that each write a part of it."""
    rank_sizes: FrozenDict[str, int] = field(default_factory=FrozenDict)
    """Sizes that the workload gives for ranks, the same for all Einsums."""

    @functools.cached_property
    def shared(self) -> frozenset[str]:
        return frozenset(t for t, users in self.users.items() if len(users) > 1)

    @functools.cached_property
    def needs(self) -> dict[str, frozenset[str]]:
        """The Einsums whose results each Einsum reads."""
        read = {
            name: [t for t, access in info.accesses.items() if not access.output] for name, info in self.einsums.items()
        }
        return {name: frozenset(e for t in inputs for e in self.producers.get(t, ())) for name, inputs in read.items()}

    @functools.cached_property
    def connected(self) -> dict[str, frozenset[str]]:
        """All Einsums that each Einsum has tensors in common with, one through the other, and itself."""
        sets = {name: {name} for name in self.einsums}
        for users in self.users.values():
            union = set[str]().union(*(sets[user] for user in users))
            sets.update(dict.fromkeys(union, union))
        return {name: frozenset(together) for name, together in sets.items()}

    def next_in_turn(self, finished: frozenset[str]) -> list[str]:
        """Einsums that can run next, if connected ones are finished before others begin, in listed order.

        No other order is better. Take connected Einsums out of a mapping, with the loops above them, and put them after all
        others: nothing is moved more often, and while each runs, memories hold less.
        """
        missing = [name for name in self.einsums if name not in finished]
        begun = (name for name in missing if not self.connected[name].isdisjoint(finished))
        together = self.connected[next(begun, missing[0])] if missing else frozenset[str]()
        return [name for name in missing if name in together and self.needs[name] <= finished]


def analyze(
    workload: Workload, renames: tuple[EinsumRenames, ...], variables: Mapping[str, VariableValue]
) -> WorkloadInfo:
    check_einsums(workload)
    users, producers = check_dependencies(workload)
    check_names(workload, renames)
    tables = rename_tables(workload, renames)
    values, texts = split(variables)
    spaces = Spaces(workload, values)
    elsewhere = _elsewhere(workload, users, tables)
    infos: dict[str, EinsumInfo] = {}
    for einsum in workload.einsums:
        box = spaces.box(einsum)
        names = EinsumNames({"operation": einsum.computes}, elsewhere, _universe(einsum, box, {}))
        names = names.extended(values, variables=texts)
        infos[einsum.name] = _resolve(workload, einsum, box, names, tables[einsum.name], users, producers)
    spaces.check_all_used()
    _check_agreement(workload, infos, users)
    _share_out(spaces, infos, users, producers)
    ranks = dict.fromkeys(rank for info in infos.values() for access in info.accesses.values() for rank in access.ranks)
    own = {rank for einsum in workload.einsums for rank in einsum.rank_sizes}
    sizes = FrozenDict(spaces.rank_sizes(rank for rank in ranks if rank not in own))
    return WorkloadInfo(FrozenDict(infos), FrozenDict(users), FrozenDict(producers), sizes)


def _share_out(
    spaces: Spaces,
    infos: dict[str, EinsumInfo],
    users: Mapping[str, tuple[str, ...]],
    producers: Mapping[str, tuple[str, ...]],
) -> None:
    """Enter how several producers of a tensor share it out."""
    by_user: dict[str, dict[str, SharedOut]] = {}
    for tensor, names in producers.items():
        if len(names) > 1:
            producing = [infos[name] for name in names]
            for info in producing:
                if info.is_copy_operation:
                    raise SpecError(
                        f"tensor {tensor} is made by several Einsums, and {info.name} is a copy, which shares its space with "
                        "its source; leave is_copy_operation out",
                        tensor,
                    )
            makers = [written(info.name, tensor, info.accesses[tensor].ranks, info.bounds) for info in producing]
            sharing = shared_out(tensor, makers, spaces.rank_sizes(makers[0].ranges))
            for user in users[tensor]:
                by_user.setdefault(user, {})[tensor] = sharing
    for user, tensors in by_user.items():
        infos[user] = replace(infos[user], shared_out=FrozenDict(tensors))


def _elsewhere(
    workload: Workload, users: Mapping[str, object], tables: Mapping[str, Sequence[Rename]]
) -> dict[str, SetKind]:
    """What is named anywhere in the workload."""
    indices = [item for e in workload.einsums for a in e.tensor_accesses for item in a.projection.items()]
    kinds: dict[str, SetKind] = {str(rank): "variable" for rank, _ in indices}
    kinds.update({str(v): "variable" for _, index in indices for v in index.variables})
    kinds.update({str(rename.name): "tensor" for table in tables.values() for rename in table})
    kinds.update({str(tensor): "tensor" for tensor in users})
    return kinds


def _universe(einsum: Einsum, bounds: Mapping[str, object], bits: Mapping[str, int | float]) -> Universe:
    variables = {str(a.name): frozenset(a.variables) for a in einsum.tensor_accesses}
    ranks: dict[str, frozenset[str]] = {}
    for access in einsum.tensor_accesses:
        for rank, index in access.projection.items():
            ranks[rank] = ranks.get(rank, frozenset()) | frozenset(index.variables)
    return Universe(variables, frozenset(bounds), bits, ranks)


def _resolve(
    workload: Workload,
    einsum: Einsum,
    box: Mapping[str, tuple[int, int]],
    names: EinsumNames,
    renames: Sequence[Rename],
    users: Mapping[str, tuple[str, ...]],
    producers: Mapping[str, tuple[str, ...]],
) -> EinsumInfo:
    """Named sets, then renames, then what is persistent, then bits: each may use those before it."""
    bounds = {v: high - low + 1 for v, (low, high) in box.items()}
    least = {v: low for v, (low, _) in box.items()}
    accesses = {str(a.name): _access(a, least) for a in einsum.tensor_accesses}
    output = next(t for t, a in accesses.items() if a.output)
    sets = _named_sets(accesses, output, _universe(einsum, bounds, {}), users, producers)
    names = names.extended(sets)
    for rename in renames:
        if rename.name in users:
            raise SpecError(f"rename {rename.name} is also the name of a tensor; choose another", rename.name)
        renamed = name_set(rename.source, names, f"rename {rename.name}")
        if rename.expected_count is not None:
            expected = number(rename.expected_count, names, "expected_count")
            if len(renamed) != expected:
                hint = misspelt_tensor(einsum, users, producers) if len(renamed) < expected else ""
                raise SpecError(
                    f"rename {rename.name} stands for {len(renamed)} {renamed.kind}s in Einsum {einsum.name} "
                    f"({', '.join(sorted(renamed.members)) or 'none'}), expected {expected}; "
                    f"{hint or f'set it there with renames: {{{rename.name}: …}}'}",
                    rename.source,
                )
        names.local[rename.name] = renamed
    marked = NameSet(frozenset(str(a.name) for a in einsum.tensor_accesses if a.persistent), names.universe)
    persistent = tensor_set(workload.persistent_tensors, names, "persistent_tensors") | marked
    names = names.extended({"Persistent": persistent})
    bits = _bits_per_value(workload, einsum, names)
    universe = _universe(einsum, bounds, bits)
    rebound = {
        name: NameSet(value.members, universe, value.kind)
        for name, value in names.local.items()
        if isinstance(value, NameSet)
    }
    return EinsumInfo(
        name=str(einsum.name),
        bounds=FrozenDict(bounds),
        least=FrozenDict(least),
        accesses=FrozenDict(accesses),
        output=output,
        bits_per_value=FrozenDict(bits),
        persistent=persistent.members,
        n_instances=workload.n_instances * einsum.n_instances,
        is_copy_operation=einsum.is_copy_operation,
        operation=einsum.computes,
        names=names.extended(rebound, universe),
        replicable=frozenset(
            t for t in accesses if t != output and len(users[t]) == 1 and not einsum.is_copy_operation
        ),
        formula=einsum.formula,
    )


def _access(access: TensorAccess, least: Mapping[str, int]) -> Access:
    return Access(
        str(access.name), access.output, FrozenDict({r: a.moved(least) for r, a in access.projection.items()})
    )


def _named_sets(
    accesses: Mapping[str, Access],
    output: str,
    universe: Universe,
    users: Mapping[str, tuple[str, ...]],
    producers: Mapping[str, tuple[str, ...]],
) -> dict[str, object]:
    sets: dict[str, frozenset[str]] = {t: frozenset([t]) for t in accesses}
    sets["All"] = sets["Tensors"] = frozenset(accesses)
    sets["Nothing"] = frozenset()
    sets["Outputs"] = frozenset([output])
    sets["Inputs"] = sets["All"] - sets["Outputs"]
    sets["Shared"] = frozenset(t for t in accesses if len(users[t]) > 1)
    sets["Intermediates"] = frozenset(t for t in accesses if 0 < len(producers.get(t, ())) < len(users[t]))
    named: dict[str, object] = {v: NameSet(frozenset([v]), universe, "variable") for v in universe.variables}
    named.update({name: NameSet(members, universe, "tensor") for name, members in sets.items()})
    return named


def _bits_per_value(workload: Workload, einsum: Einsum, names: EinsumNames) -> dict[str, int | float]:
    table = workload.bits_per_value
    if isinstance(table, FrozenDict):
        by_tensor = by_set(table, names, names.universe)
    else:
        by_tensor = {str(a.name): table for a in einsum.tensor_accesses if table is not None}
    bits: dict[str, int | float] = {}
    for access in einsum.tensor_accesses:
        value = access.bits_per_value if access.bits_per_value is not None else by_tensor.get(access.name)
        if value is None:
            raise SpecError(
                f"tensor {access.name} has no bits_per_value; give the workload bits_per_value: {{All: 8}}", access.name
            )
        bits[str(access.name)] = number(value, names, "bits_per_value") if isinstance(value, str) else value
        wrong = Limits(positive=True).complaint("bits_per_value", bits[access.name])
        if wrong:
            raise SpecError(f"tensor {access.name}: {wrong}", value if isinstance(value, str) else access.name)
    return bits


def _check_agreement(workload: Workload, infos: Mapping[str, EinsumInfo], users: Mapping[str, tuple[str, ...]]) -> None:
    """All users of a tensor see it alike."""
    for einsum in workload.einsums:
        info = infos[einsum.name]
        for access in einsum.tensor_accesses:
            tensor = access.name
            first = infos[users[tensor][0]]
            if (tensor in info.persistent) != (tensor in first.persistent):
                yes, no = (first, info) if tensor in first.persistent else (info, first)
                raise SpecError(
                    f"tensor {tensor} is persistent in Einsum {yes.name} but not in {no.name}; all users must agree",
                    tensor,
                )
            if info.bits_per_value[tensor] != first.bits_per_value[tensor]:
                raise SpecError(
                    f"tensor {tensor} has {first.bits_per_value[tensor]} bits per value in Einsum {first.name} "
                    f"but {info.bits_per_value[tensor]} in {info.name}",
                    tensor,
                )
