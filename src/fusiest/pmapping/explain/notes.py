"""Notes for users, one line each: what a search leaves out that may be better, and how to ask for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from fusiest.base.errors import SpecError
from fusiest.pmapping.lattice.applies import are_apart, beside, constrained_variables
from fusiest.pmapping.lattice.tile_problem import make_problem
from fusiest.pmapping.nest.factors import primes
from fusiest.pmapping.nest.memory_sizes import sized_paths
from fusiest.pmapping.nest.spatial import best_usages, fanouts
from fusiest.pmapping.placements.placement import graph_of
from fusiest.spec import Path, Spec, computes, flatten, path_nodes

_LARGE_PRIME = 16
"""A bound with a larger prime factor has few tiles that divide it."""
_MANY_CHOICES, _FEWER = 1_000, 4
"""Choices of Spatial loops that are many; and the factor by which `min_usage` must reduce them to be worth a note."""


def search_notes(spec: Spec, imperfect: bool) -> tuple[str, ...]:
    """Notes on a search, with `imperfect` tiles or without.

    >>> from fusiest import load
    >>> search_notes(load("simple", "matmuls", N_EINSUMS=2, M=64, KN=64), imperfect=False)
    ()
    """
    notes = [*_aside_notes(spec), *(_chain_note(run) for run in ordered_by_chance(spec))]
    return (*notes, *(() if imperfect else _imperfect_notes(spec)))


def _aside_notes(spec: Spec) -> list[str]:
    arch = spec.require_arch()
    ways = (path_nodes(arch.nodes, compute) or () for compute in computes(arch))
    used = {node.name for way in ways for node in way}
    aside = ", ".join(str(node.name) for node in flatten(arch.nodes) if node.name not in used)
    return [f"no !Compute stands below {aside}, so no data goes there"] if aside else []


def _chain_note(run: tuple[str, ...]) -> str:
    first = f"{', '.join(run[:-1])} and {run[-1]}"
    return (
        f"{first} hold different tensors but stand in a chain, so what {run[0]} holds is searched only above what "
        f"{run[1]} holds; if they stand beside each other, put them into a !Parallel"
    )


def ordered_by_chance(spec: Spec) -> list[tuple[str, ...]]:
    """Memories one below the other, with nothing between them, that never hold the same tensor of an Einsum.

    Their order in the spec is an order of the nest, though none is the way to another.
    """
    pairs: dict[tuple[str, str], bool] = {}
    for einsum in spec.info.einsums:
        for path in sized_paths(spec, einsum):
            if path.compute.enabled and not path.einsum.is_copy_operation:
                for pair, disjoint in _neighbours(spec, path):
                    pairs[pair] = pairs.get(pair, True) and disjoint
    runs: list[tuple[str, ...]] = []
    for (outer, inner), disjoint in pairs.items():
        if disjoint and runs and runs[-1][-1] == outer:
            runs[-1] = (*runs[-1], inner)
        elif disjoint:
            runs.append((outer, inner))
    return runs


def _neighbours(spec: Spec, path: Path) -> Iterator[tuple[tuple[str, str], bool]]:
    """Pairs of memories that hold tensors at once and whose order counts, and whether they never hold the same tensor."""
    memories = path.memories[1:]
    together = beside(spec, path)
    for outer, inner in zip(memories, memories[1:], strict=False):
        if (outer, inner) in together or are_apart(path, outer, inner):
            continue
        graph = graph_of(spec, path)
        pairs = graph.pairs(outer, inner) if graph is not None else set()
        holding = [(a, b) for a, b in pairs if a.held and b.held]
        loose = any(c.sets is not None and not c.sets.force_memory_hierarchy_order for pair in holding for c in pair)
        if holding and not loose:
            names = path.components[outer].name, path.components[inner].name
            yield names, not any(a.held & b.held for a, b in holding)


def _imperfect_notes(spec: Spec) -> Iterator[str]:
    """Rank variables that can hardly be divided."""
    examples: dict[int, str] = {}
    for info in spec.info.einsums.values():
        for v, bound in info.bounds.items():
            if max(primes(bound), default=1) > _LARGE_PRIME:
                examples.setdefault(bound, v)
    if examples:
        listed = ", ".join(f"{v} = {bound}" for bound, v in list(examples.items())[:3])
        ellipsis = ", …" if len(examples) > 3 else ""
        yield f"few tiles divide {listed}{ellipsis}; --imperfect also searches tiles that do not divide, and may find better"


def spatial_notes(spec: Spec) -> tuple[str, ...]:
    """Fanouts with very many choices of Spatial loops, where `min_usage` would leave few; the worst Einsum of each."""
    worst: dict[str, tuple[int, int, str]] = {}
    shapes_seen = set()
    for einsum, info in spec.info.einsums.items():
        alike = tuple(info.bounds.values()), tuple(len(a.ranks) for a in info.accesses.values())
        if alike in shapes_seen or info.is_copy_operation:
            continue
        shapes_seen.add(alike)
        for path in sized_paths(spec, einsum):
            if path.compute.enabled:
                with contextlib.suppress(SpecError):  # too many to count
                    for component, count, count_left in _choices(spec, path):
                        worst[component] = max(worst.get(component, (0, 0, "")), (count, count_left, einsum))
    return tuple(
        f"{einsum} on {component}: {count:,} choices of Spatial loops, which take time; min_usage: 1 leaves {count_left:,}"
        for component, (count, count_left, einsum) in worst.items()
        if count_left * _FEWER <= count
    )


def _choices(spec: Spec, path: Path) -> Iterator[tuple[str, int, int]]:
    """Components with very many choices of Spatial loops: their number, and that with as much as possible in use."""
    if all(d.min_usage >= 1 for c in path.components for d in c.dimensions):
        return
    constraints = constrained_variables(spec, path)
    problem = make_problem(path, *constraints)
    counts = {level: len(fanout) for level, fanout in fanouts(problem, best_usages(problem)).items()}
    large_counts = {level: count for level, count in counts.items() if count >= _MANY_CHOICES}
    if not large_counts:
        return
    full = replace(path, components=tuple(
        replace(c, dimensions=tuple(replace(d, min_usage=1) for d in c.dimensions)) for c in path.components
    ))  # fmt: skip
    most = make_problem(full, *constraints)
    used = fanouts(most, best_usages(most))
    for level, count in large_counts.items():
        yield path.components[level].name, count, len(used[level])
