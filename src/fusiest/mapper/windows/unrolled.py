"""A plan of windows as a spec without windows, and its mapping written back.

Each iteration of the loop is one value of a new variable, and tensors of the chain have one more rank. A mapping of
that spec becomes a mapping of the workload. In the spec windows have no borders: it counts padding, and takes the first
window for one like the others. The model computes the true cost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeAlias

from fusiest.base.frozen import FrozenDict
from fusiest.looptree import (
    LoopTree,
    Nested,
    Node,
    Sequential,
    Spatial,
    Storage,
    Temporal,
    einsums,
    variable_in,
)
from fusiest.mapper.windows.window_plans import WindowPlan
from fusiest.spec import Affine, EinsumInfo, Spec, explicit_einsum, part_of
from fusiest.spec import architecture as arch

TURN = "window_turn"
"""The new variable; in capitals, the new rank."""
FirstCut: TypeAlias = Literal["outside", "inside", "not"]


def unrolled(spec: Spec, plan: WindowPlan, only_turns: bool = False) -> Spec:
    """Write the chain alone as a spec in which `TURN` counts the loop's iterations; no Spatial loop may run over it.

    Exchanged tensors stay on chip: through the outermost memory, shorter chains would do as well.

    `only_turns`: no other loop is fused. So retained tensors, which go above that loop, are not above any other.
    """
    part = part_of(spec, plan.einsums)
    workload = part.require_workload()
    changed = []
    for einsum in workload.einsums:
        info = spec.info.einsums[einsum.name]
        bounds = {**info.bounds, plan.variables[info.name]: plan.tiles[info.name].length, TURN: plan.times}
        ranks = {t: _ranks(plan, info, t) for t in info.accesses}
        changed.append(explicit_einsum(spec, einsum, bounds, ranks))
    return replace(
        part,
        arch=_on_chip(_constrained(part.require_arch(), only_turns), plan),
        workload=replace(workload, einsums=tuple(changed)),
    )


def _ranks(plan: WindowPlan, info: EinsumInfo, tensor: str) -> dict[str, Affine]:
    """The indices of a tensor, by the position in this iteration's tile and the iteration."""
    variable, line = plan.variables[info.name], plan.tiles[info.name]
    ranks, exchanged = {}, tensor in plan.windows or info.accesses[tensor].output
    for rank, affine in info.accesses[tensor].ranks.items():
        a = affine.coefficients.get(variable, 0)
        if not a:
            ranks[rank] = affine
        elif not exchanged:
            terms = {**affine.coefficients, TURN: a * line.step}
            ranks[rank] = Affine(FrozenDict(terms), affine.constant + a * line.start)
        else:
            before = plan.windows[tensor].start if tensor in plan.windows else 0
            shift = affine.constant + a * line.start - before if tensor in plan.windows else 0
            ranks[rank] = Affine(affine.coefficients, shift)
    if exchanged:
        ranks[TURN.upper()] = Affine(FrozenDict({TURN: 1}))
    return ranks


def _constrained(architecture: arch.Architecture, only_turns: bool) -> arch.Architecture:
    """Constrain the architecture: no iterations of the loop run on fanouts; with `only_turns`, no other loop is fused."""
    never = arch.WrittenComparison(expression=TURN, operator="==", value=1)

    def changed(node: arch.Container) -> arch.Container:
        node = replace(node, spatial=tuple(replace(d, loop_bounds=(*d.loop_bounds, never)) for d in node.spatial))
        if only_turns and isinstance(node, arch.Memory):
            written = node.tensors.no_fused_loops
            barred = f"({written}) | ~{TURN}" if written else f"~{TURN}"
            node = replace(node, tensors=replace(node.tensors, no_fused_loops=barred))
        return node

    return replace(architecture, nodes=arch.rewritten(architecture.nodes, changed))


def _on_chip(architecture: arch.Architecture, plan: WindowPlan) -> arch.Architecture:
    """Constrain the architecture: the outermost memory does not hold the tensors that the chain exchanges."""
    outer = next(node for node in arch.flatten(architecture.nodes) if isinstance(node, arch.Memory))
    may_keep = outer.tensors.may_keep or ("All" if outer.tensors.keep is None else "Nothing")
    allowed = f"({may_keep}) - ({' | '.join(sorted(plan.windows))})"
    node = replace(outer, tensors=replace(outer.tensors, may_keep=allowed))
    return replace(architecture, nodes=tuple(node if n is outer else n for n in architecture.nodes))


def rolled(tree: LoopTree, plan: WindowPlan, cut: FirstCut = "outside") -> LoopTree | None:
    """Write a mapping back with its windows; None if not all Einsums of the chain are in one loop over the iterations.

    `cut`: where a longer first window is cut into pieces, if it is: outside of all that an Einsum does in an iteration,
    right above its own loops over the rows, or not.
    """
    nodes = list(tree.nodes)
    turns = [i for i, node in enumerate(nodes) if isinstance(node, Temporal) and _steps_turns(node, plan)]
    everywhere = sum(_steps_turns(node, plan) for path in tree.paths() for node in path)
    if len(turns) != 1 or everywhere != len(plan.einsums):
        return None
    at = turns[0]
    while plan.kept and isinstance(nodes[at + 1], Temporal):  # nothing is held in between, so the order is free
        nodes[at], nodes[at + 1], at = nodes[at + 1], nodes[at], at + 1
    memories: dict[str, str] = {}
    below = tuple(_without_kept(node, plan.kept, memories) for node in nodes[at + 1 :])
    if memories.keys() != plan.kept:
        return None
    lifted = [
        Storage(tensors=tuple(t for t in memories if memories[t] == m), component=m)
        for m in dict.fromkeys(memories.values())
    ]
    inside = _cut_first(tuple(n for n in below if n is not None), plan, cut)
    return LoopTree(nodes=(*nodes[:at], *lifted, window_loop(plan), *inside))


def _steps_turns(node: Node, plan: WindowPlan) -> bool:
    return isinstance(node, Temporal | Spatial) and any(variable_in(node, name) == TURN for name in plan.einsums)


def window_loop(plan: WindowPlan) -> Temporal:
    """The loop that makes the windows of a plan."""
    tilings = {name: plan.tiling(name) for name in plan.einsums}
    first = {name: t.first for name, t in tilings.items() if t.first != t.tile}
    steps = {name: t.step for name, t in tilings.items() if t.step != t.tile}
    return Temporal(
        rank_variable=FrozenDict(plan.variables),
        tile_shape=FrozenDict({name: t.tile for name, t in tilings.items()}),
        initial_tile_shape=FrozenDict(first) if first else None,
        step=FrozenDict(steps) if steps else None,
    )


def _without_kept(node: Any, kept: frozenset[str], memories: dict[str, str]) -> Any:
    """The node without backing nodes of tensors that are retained above the loop; their memories go to `memories`."""
    if isinstance(node, Sequential):
        branches = []
        for branch in node.nodes:
            remaining = (_without_kept(inner, kept, memories) for inner in branch.nodes)
            branches.append(Nested(nodes=tuple(inner for inner in remaining if inner is not None)))
        return Sequential(nodes=tuple(branches))
    if not isinstance(node, Storage):
        return node
    out = [t for t in node.tensors if t in kept and memories.setdefault(t, node.component) == node.component]
    tensors = tuple(t for t in node.tensors if t not in out)
    return replace(node, tensors=tensors) if tensors else None


def _cut_first(nodes: tuple[Node, ...], plan: WindowPlan, cut: FirstCut) -> tuple[Node, ...]:
    """Cut a first window that is longer than the others into pieces of their length, in each Einsum's own branch."""
    users = einsums(nodes)
    if len(users) > 1:
        last = nodes[-1]
        assert isinstance(last, Sequential)
        return (*nodes[:-1], Sequential(nodes=tuple(Nested(nodes=_cut_first(b.nodes, plan, cut)) for b in last.nodes)))
    tiling, variable = plan.tiling(users[0]), plan.variables[users[0]]
    if tiling.first <= tiling.tile:
        return nodes
    loops = (
        i for i, n in enumerate(nodes) if isinstance(n, Temporal | Spatial) and variable_in(n, users[0]) == variable
    )
    first = next(loops, None)
    if cut == "not" and first is not None:
        return nodes
    at = 0 if cut == "outside" else len(nodes) - 1 if first is None else first
    return (*nodes[:at], Temporal(rank_variable=variable, tile_shape=tiling.tile), *nodes[at:])
