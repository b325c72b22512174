"""Einsums that read one tensor twice: equal reads are one; for different ones a copy of the tensor is put in between."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Set

from fusiest.base.errors import Located, SpecError, warn
from fusiest.base.frozen import FrozenDict
from fusiest.spec.language.affine import Affine
from fusiest.spec.language.formulas import renamed
from fusiest.spec.workload.einsums import Einsum, TensorAccess, Workload


def read_once(workload: Workload) -> Workload:
    """Change a workload so that no Einsum reads a tensor twice.

    >>> from fusiest.spec.language.einsum_text import parse_einsum
    >>> def einsum(text):
    ...     inputs, output, *_ = parse_einsum(text)
    ...     accesses = [TensorAccess(name=name, projection=index) for name, index in inputs]
    ...     written = TensorAccess(name=output.name, projection=output.projection, output=True)
    ...     return Einsum(name=output.name, tensor_accesses=(*accesses, written))
    >>> [len(e.tensor_accesses) for e in read_once(Workload(einsums=(einsum("B[m] = A[m] + A[m]"),))).einsums]
    [2]
    """
    if all(len({a.name for a in e.tensor_accesses}) == len(e.tensor_accesses) for e in workload.einsums):
        return workload
    names = {str(a.name) for e in workload.einsums for a in e.tensor_accesses} | {str(e.name) for e in workload.einsums}
    names |= {variable for e in workload.einsums for variable in e.variables}
    einsums = tuple(separated for einsum in workload.einsums for separated in _separated(einsum, workload, names))
    return dataclasses.replace(workload, einsums=einsums)


def _separated(einsum: Einsum, workload: Workload, names: set[str]) -> Iterator[Einsum]:
    """The copies that an Einsum needs, then the Einsum."""
    accesses: list[TensorAccess] = []
    copies: dict[str, list[str]] = {}
    for access in dict.fromkeys(einsum.tensor_accesses):
        first = next((earlier for earlier in accesses if earlier.name == access.name), None)
        if first is not None and (access.output or first.output):
            raise SpecError(f"Einsum {einsum.name} reads and writes tensor {access.name}: not supported", access.name)
        if first is None:
            accesses.append(access)
            continue
        if set(access.projection) != set(first.projection):
            raise SpecError(
                f"tensor {access.name} has other ranks at its second place in Einsum {einsum.name}", access.name
            )
        copied = _new_name(f"{access.name}_copy", names)
        name = Located(copied, access.name.source if isinstance(access.name, Located) else None)
        warn(
            f"Einsum {einsum.name} reads {access.name} in two ways; for one of them, Einsum {copied} copies it",
            access.name,
        )
        accesses.append(dataclasses.replace(access, name=name))
        copies.setdefault(str(access.name), []).append(copied)
        yield _copy(access, name, einsum, names, workload.rank_sizes.keys() | einsum.rank_sizes.keys())
    ways = {f"{tensor}.{way}": copy for tensor, names in copies.items() for way, copy in enumerate(names, start=2)}
    formula = renamed(einsum.formula, ways) if einsum.formula is not None and ways else einsum.formula
    yield dataclasses.replace(einsum, tensor_accesses=tuple(accesses), formula=formula)


def _copy(access: TensorAccess, name: str, reader: Einsum, names: set[str], sized: Set[str]) -> Einsum:
    """An Einsum that copies a whole tensor, as often as its reader runs. A rank that one variable steps keeps that variable, and
    so its bounds. `sized`: ranks whose sizes are known.
    """
    projection: dict[str, Affine] = {}
    for rank, index in access.projection.items():
        alone = len(index.variables) == 1 and index.coefficients[index.variables[0]] == 1 and not index.constant
        if not alone and rank not in sized:
            raise SpecError(
                f"tensor {access.name} is read in two ways and has to be copied; give its rank {rank} a size in rank_sizes",
                access.name,
            )
        variable = index.variables[0] if alone else _new_name(rank.lower(), names)
        projection[rank] = Affine(FrozenDict({variable: 1}))
    whole = dataclasses.replace(access, projection=FrozenDict(projection))
    return Einsum(
        name=name,
        is_copy_operation=True,
        tensor_accesses=(whole, dataclasses.replace(whole, name=name, output=True)),
        iteration_space_shape=tuple(
            c for c in reader.iteration_space_shape if whole.variables.keys() >= set(c.variables)
        ),
        rank_sizes=FrozenDict({rank: size for rank, size in reader.rank_sizes.items() if rank in projection}),
        n_instances=reader.n_instances,
    )


def _new_name(wanted: str, names: set[str]) -> str:
    """A name that is none yet, and is one now."""
    name, number = wanted, 2
    while name in names:
        name, number = f"{wanted}{number}", number + 1
    names.add(name)
    return name
