"""Whether two workloads are the same up to names, the order of Einsums and that of ranks."""

from __future__ import annotations

from typing import Any

from fusiest.spec.spec import Spec


def shape_of(spec: Spec) -> list[Any]:
    """A description without names: equal for workloads that differ in names only.

    Einsums, tensors, ranks and variables get labels from what they are connected with, refined until nothing changes.
    """
    info = spec.info
    einsums = {
        name: hash((e.operation, e.is_copy_operation, tuple(sorted(e.bounds.values()))))
        for name, e in info.einsums.items()
    }
    tensors = {t: hash((len(users), t in info.producers)) for t, users in info.users.items()}
    variables = {(n, v): hash(size) for n, e in info.einsums.items() for v, size in e.bounds.items()}
    ranks: dict[tuple[str, str], int] = {
        (a.tensor, r): 0 for e in info.einsums.values() for a in e.accesses.values() for r in a.ranks
    }
    for _ in range(len(einsums) + 4):
        new_ranks: dict[tuple[str, str], list[int]] = {key: [] for key in ranks}
        new_variables: dict[tuple[str, str], list[int]] = {key: [] for key in variables}
        new_tensors: dict[str, list[int]] = {t: [] for t in tensors}
        for name, e in info.einsums.items():
            for access in e.accesses.values():
                for rank, affine in access.ranks.items():
                    terms = sorted((variables[name, v], c) for v, c in affine.coefficients.items())
                    new_ranks[access.tensor, rank].append(
                        hash((tuple(terms), affine.constant, access.output, einsums[name]))
                    )
                    for v, c in affine.coefficients.items():
                        new_variables[name, v].append(
                            hash((ranks[access.tensor, rank], c, affine.constant, access.output))
                        )
                new_tensors[access.tensor].append(hash((einsums[name], access.output)))
        einsums = {
            name: hash((einsums[name], tuple(sorted(hash((tensors[t], a.output)) for t, a in e.accesses.items()))))
            for name, e in info.einsums.items()
        }
        ranks = {key: hash((ranks[key], tuple(sorted(found)))) for key, found in new_ranks.items()}
        variables = {key: hash((variables[key], tuple(sorted(found)))) for key, found in new_variables.items()}
        tensors = {
            t: hash((tensors[t], tuple(sorted(found)), tuple(sorted(r for (u, _), r in ranks.items() if u == t))))
            for t, found in new_tensors.items()
        }
    return sorted(einsums.values())
