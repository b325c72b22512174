"""Why one mapping costs more than another of the same workload: by component and tensor, and how often data is fetched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fusiest.comparison import Comparison, Row, Saved
from fusiest.model import Anatomy, backing_memories, footprint, take_apart
from fusiest.report.data.traffic import bits_moved

COMPUTE, LEAKAGE = "compute", "leakage"


@dataclass(frozen=True, slots=True)
class Fetches:
    """How often the outermost memory of a tensor reads and writes all of it, against once."""

    memory: str
    read: float
    written: float


@dataclass(frozen=True, slots=True)
class Reasons:
    """Joules and busy seconds of every component for every tensor, the largest difference first; fetches by tensor."""

    energy: list[Row]
    seconds: list[Row]
    fetches: dict[str, tuple[Fetches, ...]]
    """Per tensor, for each of the results; the largest difference in bits first."""


def reasons(comparison: Comparison) -> Reasons | None:
    """What differs between two mappings; None if there are more, or if their workloads are not the same."""
    if len(comparison.results) != 2 or not _same_workload(*comparison.results):
        return None
    a, b = comparison.results
    of_a, of_b = (take_apart(saved.spec, saved.looptree) for saved in (a, b))
    return Reasons(
        energy=_rows(_joules(a), _joules(b)),
        seconds=_rows(_seconds(a, of_a), _seconds(b, of_b)),
        fetches=_fetches(_moved(a, of_a), _moved(b, of_b), a),
    )


def _same_workload(a: Saved, b: Saved) -> bool:
    of_a, of_b = ({n: (i.bounds, i.accesses, i.n_instances) for n, i in s.spec.info.einsums.items()} for s in (a, b))
    return of_a == of_b


def _rows(first: Mapping[str, float], other: Mapping[str, float]) -> list[Row]:
    rows = [Row(name, (first.get(name), other.get(name))) for name in dict.fromkeys([*first, *other])]
    return sorted((row for row in rows if any(row.values)), key=lambda row: -abs(difference(row)))


def difference(row: Row) -> float:
    """The second figure less the first."""
    first, other = (value or 0.0 for value in row.values)
    return other - first


def _joules(saved: Saved) -> dict[str, float]:
    return _summed(saved, lambda name: saved.evaluation.einsums[name].energies)


def _seconds(saved: Saved, parts: Anatomy) -> dict[str, float]:
    """What each component's actions for a tensor take by themselves."""

    def seconds(name: str) -> dict[tuple[str, str, str], float]:
        instances = saved.spec.info.einsums[name].n_instances
        calls = saved.evaluation.einsums[name].per_unit
        return {key: parts.bound[name][key[0]].latency({key[2]: n}) * instances for key, n in calls.items()}

    return _summed(saved, seconds)


def _summed(saved: Saved, figures: Callable[[str], Mapping[tuple[str, str, str], float]]) -> dict[str, float]:
    """The figures of all Einsums, by component and tensor."""
    sums: dict[str, float] = {}
    for name in saved.evaluation.einsums:
        for (component, tensor, action), value in figures(name).items():
            key = f"{component} {tensor or (LEAKAGE if action == 'leak' else COMPUTE)}"
            sums[key] = sums.get(key, 0.0) + value
    return sums


def _moved(saved: Saved, parts: Anatomy) -> dict[str, Fetches]:
    """Per tensor: its outermost memory, and the bits read and written there, over those of the tensor."""
    moved: dict[str, Fetches] = {}
    for tensor, memory in backing_memories(saved.looptree).items():
        bits = {"read": 0.0, "write": 0.0}
        for name, einsum in saved.evaluation.einsums.items():
            for key in einsum.actions.keys() & {(memory, tensor, action) for action in bits}:
                bits[key[2]] += bits_moved(parts, saved.evaluation, name, key)
        once = _once(saved, tensor)
        moved[str(tensor)] = Fetches(str(memory), bits["read"] / once, bits["write"] / once)
    return moved


def _once(saved: Saved, tensor: str) -> float:
    """Bits of a tensor: all that the Einsum uses which uses most of it."""
    info = saved.spec.info
    users = (info.einsums[user] for user in info.users[tensor])
    return max(footprint(u.accesses[tensor], u.bounds) * u.bits_per_value[tensor] * u.n_instances for u in users)


def _fetches(first: dict[str, Fetches], other: dict[str, Fetches], saved: Saved) -> dict[str, tuple[Fetches, ...]]:
    def change(tensor: str) -> float:
        a, b = first[tensor], other[tensor]
        return abs(b.read + b.written - a.read - a.written) * _once(saved, tensor)

    tensors = sorted((tensor for tensor in first if tensor in other), key=lambda tensor: -change(tensor))
    return {tensor: (first[tensor], other[tensor]) for tensor in tensors}
