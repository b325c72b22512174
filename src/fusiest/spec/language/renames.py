"""Renames of each Einsum: which definition of a name counts, and in which order they are evaluated.

A definition may use those listed before it. An Einsum's own definition takes the place of the default, also for other
defaults that use the name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fusiest.base.errors import SpecError, closest
from fusiest.spec.language.allowed_names import circle
from fusiest.spec.language.expressions import names_in
from fusiest.spec.workload.einsums import Einsum, EinsumRenames, Rename, Workload


def filled_in(renames: Sequence[EinsumRenames], machine: Sequence[EinsumRenames]) -> tuple[EinsumRenames, ...]:
    """Renames of a workload, with the defaults of an architecture's file for names that the workload's defaults lack."""
    lists = [[entry for entry in entries if entry.name == "default"] for entries in (machine, renames)]
    if [len(entries) for entries in lists] != [1, 1]:
        return (*machine, *renames)
    own, default = lists[0][0], lists[1][0]
    merged = replace(
        default,
        tensor_accesses=_ordered((*own.tensor_accesses, *default.tensor_accesses)),
        rank_variables=_ordered((*own.rank_variables, *default.rank_variables)),
    )
    return (merged, *(entry for entry in (*machine, *renames) if entry.name != "default"))


def rename_tables(workload: Workload, renames: Sequence[EinsumRenames]) -> dict[str, tuple[Rename, ...]]:
    """Per Einsum its renames, each after those that it uses."""
    sections = {str(entry.name): (*entry.tensor_accesses, *entry.rank_variables) for entry in renames}
    default = sections.get("default", ())
    unchanged = _ordered(default)
    tables = {}
    for einsum in workload.einsums:
        specific = (*sections.get(str(einsum.name), ()), *einsum.renames)
        tables[str(einsum.name)] = _ordered((*default, *specific)) if specific else unchanged
    return tables


def _ordered(listed: Sequence[Rename]) -> tuple[Rename, ...]:
    """The last definition of every name, each after those that it uses."""
    first = {rename.name: index for index, rename in reversed(list(enumerate(listed)))}
    last = {rename.name: index for index, rename in enumerate(listed)}
    uses: dict[str, list[str]] = {}
    for name, index in last.items():
        uses[name] = [used for used in _names(listed[index]) if used in last]
        for used in uses[name]:
            if first[used] >= index:
                reason = "itself" if used == name else f"{used} before it is defined; list {used} first"
                raise SpecError(f"rename {name} uses {reason}", listed[index].source)
    return tuple(listed[last[name]] for name in _by_use(uses, {n: listed[i] for n, i in last.items()}))


def misspelt_tensor(
    einsum: Einsum, users: Mapping[str, tuple[str, ...]], producers: Mapping[str, tuple[str, ...]]
) -> str:
    """A question about an input that no other Einsum has and whose name is close to a tensor that one makes; else empty."""
    inputs = [str(access.name) for access in einsum.tensor_accesses if not access.output]
    made = [tensor for tensor in producers if einsum.name not in users[tensor]]
    for name in inputs:
        if name not in producers and len(users[name]) == 1 and (meant := closest(name, made)):
            return f"no other Einsum has {name}; did you mean '{meant}'?"
    return ""


def _names(rename: Rename) -> list[str]:
    texts = [text for text in (rename.source, rename.expected_count) if isinstance(text, str)]
    return sorted(name for text in texts for name in names_in(text))


def _by_use(uses: Mapping[str, Sequence[str]], definitions: Mapping[str, Rename]) -> list[str]:
    """The names in their order, but each after those that it uses."""
    ordered: dict[str, None] = {}
    for start in uses:
        path: dict[str, Iterator[str]] = {} if start in ordered else {start: iter(uses[start])}
        while path:
            name, pending = next(reversed(path.items()))
            used = next((other for other in pending if other not in ordered), None)
            if used is None:
                ordered[name] = None
                del path[name]
            elif used in path:
                raise SpecError(f"rename {circle(list(path), used)}", definitions[used].source)
            else:
                path[used] = iter(uses[used])
    return list(ordered)
