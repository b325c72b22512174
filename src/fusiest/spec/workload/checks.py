"""Checks of a workload as a whole: consistent ranks, no cycles, no unknown names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from fusiest.base.errors import SpecError, check_known, closest, did_you_mean, warn
from fusiest.spec.language.affine import Affine
from fusiest.spec.language.allowed_names import repeated
from fusiest.spec.workload.einsums import Einsum, EinsumRenames, Workload, check_new

MAX_ACCESSES = 256


def check_einsums(workload: Workload) -> None:
    seen: set[str] = set()
    ranks: dict[str, tuple[Einsum, frozenset[str]]] = {}
    for einsum in workload.einsums:
        check_new(einsum, seen)
        if len(einsum.tensor_accesses) > MAX_ACCESSES:
            raise SpecError(f"Einsum {einsum.name} accesses more than {MAX_ACCESSES} tensors", einsum.name)
        if einsum.name == "default":
            raise SpecError("no Einsum can be named default: in renames, that means all Einsums", einsum.name)
        outputs = [a.name for a in einsum.tensor_accesses if a.output]
        if len(outputs) != 1:
            raise SpecError(
                f"Einsum {einsum.name} has {len(outputs)} outputs; mark exactly one access 'output: True'", einsum.name
            )
        if tensor := repeated(access.name for access in einsum.tensor_accesses):
            raise SpecError(f"Einsum {einsum.name} accesses tensor {tensor} twice: not supported", tensor)
        for access in einsum.tensor_accesses:
            own_ranks = frozenset(access.projection)
            earlier, earlier_ranks = ranks.setdefault(access.name, (einsum, own_ranks))
            if own_ranks != earlier_ranks:
                raise SpecError(
                    f"tensor {access.name} has ranks {_list(earlier_ranks)} in Einsum {earlier.name} but {_list(own_ranks)} in "
                    f"Einsum {einsum.name}; name the rank as in '{access.name}[M: p]'",
                    access.name,
                )
            _check_projection(access.name, access.projection, access.output)
        if einsum.is_copy_operation and len(einsum.tensor_accesses) != 2:
            raise SpecError(f"copy Einsum {einsum.name} needs exactly one input and one output", einsum.name)


def _list(names: frozenset[str]) -> str:
    return "[" + ", ".join(sorted(names)) + "]"


def _check_projection(tensor: str, projection: Mapping[str, Affine], output: bool) -> None:
    for rank, affine in projection.items():
        if output and len(affine.variables) > 1:
            raise SpecError(f"output {tensor} has several variables in rank {rank} ({affine}): not supported", tensor)
    if variable := repeated(v for affine in projection.values() for v in affine.variables):
        raise SpecError(f"variable {variable} is in two ranks of tensor {tensor}: not supported", tensor)


def check_dependencies(workload: Workload) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Who uses and who makes each tensor, in listed order."""
    users: dict[str, list[str]] = {}
    producers: dict[str, list[str]] = {}
    for einsum in workload.einsums:
        for access in einsum.tensor_accesses:
            users.setdefault(access.name, []).append(einsum.name)
            if access.output:
                producers.setdefault(access.name, []).append(einsum.name)
    waiting = {tensor: set(names) for tensor, names in producers.items()}
    for einsum in workload.einsums:
        for access in einsum.tensor_accesses:
            if not access.output and waiting.get(access.name):
                cycle = _find_cycle(workload, producers)
                if cycle:
                    raise SpecError(f"the Einsums depend on each other in a cycle: {' -> '.join(cycle)}", access.name)
                late = next(name for name in producers[access.name] if name in waiting[access.name])
                raise SpecError(
                    f"Einsum {einsum.name} reads {access.name} before Einsum {late} writes it; list {late} first",
                    access.name,
                )
        for access in einsum.tensor_accesses:
            if access.output:
                waiting[access.name].discard(einsum.name)
    return {t: tuple(names) for t, names in users.items()}, {t: tuple(names) for t, names in producers.items()}


def _find_cycle(workload: Workload, producers: Mapping[str, Sequence[str]]) -> list[str]:
    """A cycle of Einsums, each reading what the one before writes; empty if there is none."""
    reads = {
        e.name: [source for a in e.tensor_accesses if not a.output for source in producers.get(a.name, ())]
        for e in workload.einsums
    }
    try:
        TopologicalSorter(reads).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def check_names(workload: Workload, renames: tuple[EinsumRenames, ...]) -> None:
    variables = {v for einsum in workload.einsums for v in einsum.variables}
    ranks = {rank for e in workload.einsums for a in e.tensor_accesses for rank in a.projection}
    for rank in workload.rank_sizes:
        if rank not in ranks and closest(rank, ranks - workload.rank_sizes.keys()) is not None:
            warn(f"rank_sizes: no tensor has a rank {rank}{did_you_mean(rank, ranks)}", rank)
    for einsum in workload.einsums:
        for rank in einsum.rank_sizes:
            own_ranks = {name for access in einsum.tensor_accesses for name in access.projection}
            check_known(rank, own_ranks, f"rank_sizes: no tensor of Einsum {einsum.name} has a rank {rank}", rank)
    for constraint in workload.iteration_space_shape:
        for v in constraint.variables:
            check_known(v, variables, f"no Einsum has a rank variable {v}", constraint.text)
    _check_renames(workload, renames)


def _check_renames(workload: Workload, renames: tuple[EinsumRenames, ...]) -> None:
    einsums = {"default", *(e.name for e in workload.einsums)}
    for entry in renames:
        check_known(entry.name, einsums, f"renames: there is no Einsum {entry.name}", entry.name)
    if name := repeated(entry.name for entry in renames):
        raise SpecError(f"renames: {name} is listed twice", name)
    for table in (*(e.tensor_accesses + e.rank_variables for e in renames), *(e.renames for e in workload.einsums)):
        if name := repeated(rename.name for rename in table):
            raise SpecError(f"rename {name} is given twice", name)
