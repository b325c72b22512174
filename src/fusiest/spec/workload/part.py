"""A part of a workload as a workload of its own, with all that its Einsums knew of the whole written out.

What an Einsum calls its input or weight may depend on the others: in the part, names stand for the tensors that they stood
for. Tensors that the part shares with others are its inputs and results; those that it does not have are empty sets, as they are
in Einsums of the whole that do not use them; and so are ranks and variables.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fusiest.base.frozen import FrozenDict
from fusiest.spec.language.affine import Affine, Constraint
from fusiest.spec.language.namesets import NameSet
from fusiest.spec.language.renames import rename_tables
from fusiest.spec.workload.einsums import Einsum, Rename, TensorAccess

if TYPE_CHECKING:
    from fusiest.spec.spec import Spec

_NO_VARIABLES = "Nothing.rank_variables"


def part_of(spec: Spec, einsums: Collection[str]) -> Spec:
    """Only these Einsums."""
    workload = spec.require_workload()
    chosen = tuple(
        explicit_einsum(spec, e, spec.info.einsums[e.name].bounds, {}) for e in workload.einsums if e.name in einsums
    )
    whole = replace(
        workload,
        einsums=_with_absent(chosen, workload.einsums),
        rank_sizes=FrozenDict(),
        iteration_space_shape=(),
        bits_per_value=None,
        persistent_tensors="Nothing",
    )
    return replace(spec, workload=whole, mapping=None, renames=())


def merged(spec: Spec, runs: Collection[Sequence[str]]) -> Spec:
    """The workload with each of these runs of Einsums as one, named like its last: it uses what the run shares with others, whole,
    and makes what the last one makes. How it does that is not said: such an Einsum cannot be explored."""
    inner = {name for run in runs for name in run[:-1]}
    part = part_of(spec, [name for name in spec.info.einsums if name not in inner])
    workload = part.require_workload()
    changed = {
        last: _merged_einsum(spec, run, last) for run in runs for last in workload.einsums if last.name == run[-1]
    }
    einsums = tuple(changed.get(e, e) for e in workload.einsums)
    return replace(part, workload=replace(workload, einsums=_with_absent(einsums, workload.einsums)))


def _merged_einsum(spec: Spec, run: Sequence[str], last: Einsum) -> Einsum:
    infos = [spec.info.einsums[name] for name in run]
    output = infos[-1].output
    tensors = dict.fromkeys(
        t for info in infos for t in info.accesses if t == output or not set(spec.info.users[t]) <= set(run)
    )
    accesses, shape = [], []
    for number, tensor in enumerate(tensors):
        users = [info for info in infos if tensor in info.accesses]
        ranks: dict[str, Affine] = {}
        for rank in users[0].accesses[tensor].ranks:
            variable = f"merged_{number}_{len(ranks)}"
            length = max(info.accesses[tensor].ranks[rank].length(info.bounds) for info in users)
            ranks[rank] = Affine(FrozenDict({variable: 1}))
            shape.append(Constraint(f"0 <= {variable} < {length}"))
        width = users[0].bits_per_value[tensor]
        accesses.append(
            TensorAccess(name=tensor, projection=FrozenDict(ranks), output=tensor == output, bits_per_value=width)
        )
    local = spec.info.einsums[str(last.name)].names.local
    renames = tuple(_restricted(rename, local.get(rename.name), tensors.keys()) for rename in last.renames)
    return replace(
        last, tensor_accesses=tuple(accesses), iteration_space_shape=tuple(shape), renames=renames, formula=None
    )


def _restricted(rename: Rename, stands_for: object, tensors: Collection[str]) -> Rename:
    """A name for those of its tensors that there are; of variables, for none."""
    if not isinstance(stands_for, NameSet):
        return rename
    members = frozenset() if stands_for.kind == "variable" else stands_for.members & frozenset(tensors)
    return _written(str(rename.name), replace(stands_for, members=members))


def _with_absent(einsums: Sequence[Einsum], whole: Sequence[Einsum]) -> tuple[Einsum, ...]:
    """Some Einsums, for which what only others of the whole name is empty: an architecture may speak of it."""
    present = _named(einsums)
    absent = tuple(Rename(name=name, source=source) for name, source in _named(whole).items() if name not in present)
    return tuple(replace(e, renames=(*e.renames, *absent)) for e in einsums)


def _named(einsums: Sequence[Einsum]) -> dict[str, str]:
    """What Einsums give a name to, each with an empty set of its kind."""
    accesses = [access for einsum in einsums for access in einsum.tensor_accesses]
    indices = [item for access in accesses for item in access.projection.items()]
    counted = {str(name) for rank, index in indices for name in (rank, *index.variables)}
    return dict.fromkeys(counted, _NO_VARIABLES) | {str(access.name): "Nothing" for access in accesses}


def explicit_einsum(
    spec: Spec, einsum: Einsum, bounds: Mapping[str, int], ranks: Mapping[str, Mapping[str, Affine]]
) -> Einsum:
    """An Einsum with these bounds, and other indices where they are given; variables count from 0."""
    info = spec.info.einsums[einsum.name]
    accesses = tuple(
        TensorAccess(
            name=access.name,
            projection=FrozenDict(ranks.get(str(access.name), info.accesses[str(access.name)].ranks)),
            output=access.output,
            bits_per_value=info.bits_per_value[str(access.name)],
            persistent=str(access.name) in info.persistent,
        )
        for access in einsum.tensor_accesses
    )
    names = rename_tables(spec.require_workload(), spec.renames)[str(einsum.name)]
    shape = tuple(Constraint(f"0 <= {v} < {bound}") for v, bound in bounds.items())
    written = tuple(_written(str(rename.name), info.names.local[rename.name]) for rename in names)
    return replace(
        einsum, tensor_accesses=accesses, iteration_space_shape=shape, rank_sizes=FrozenDict(), renames=written
    )


def _written(name: str, members: object) -> Rename:
    """A name for what it stands for in the whole."""
    assert isinstance(members, NameSet)
    nothing = _NO_VARIABLES if members.kind == "variable" else "Nothing"
    return Rename(name=name, source=" | ".join(sorted(members.members)) or nothing)
