"""The exact cost of a mapping: energy, latency, every action, and what each memory holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fusiest.base.errors import InvalidMapping, Located, SpecError, check_known
from fusiest.base.objective import OBJECTIVES, cost_of
from fusiest.looptree import Compute, Loop, LoopTree, Node, Sequential, Spatial, Storage, Temporal, Toll, einsums
from fusiest.model.accesses import AccessKey, count_accesses
from fusiest.model.evaluation import EinsumEvaluation, Evaluation
from fusiest.model.exchange import check_backings, out_of_turn
from fusiest.model.leakage import leak_power
from fusiest.model.nest import EinsumNest, TreeNode, build_nest, even_iterations, leaf_paths
from fusiest.model.occupancy import Occupancy, Sharing, occupancy, reservations, sharing
from fusiest.model.windows import keep_windows
from fusiest.spec import BoundComponent, Spec, bind, bind_all, computes, flatten
from fusiest.spec import architecture as arch

__all__ = ["EinsumEvaluation", "Evaluation", "evaluate"]

MOST_LOOPS = 1_000
"""One inside the other."""
MOST_NODES = 10_000_000
"""On all ways from the root to a compute."""


def evaluate(spec: Spec, mapping: LoopTree | None = None, fits: bool = True) -> Evaluation:
    """What a mapping costs. Raises InvalidMapping where the architecture cannot run it.

    Without a mapping, the spec's own is evaluated. If it need not fit, sizes of memories do not count.
    """
    tree = mapping if mapping is not None else spec.mapping
    if tree is None:
        raise SpecError("no file has a section 'mapping:'")
    check_tree(spec, tree)
    try:
        result = _evaluate(spec, tree, fits)
    except OverflowError:
        raise SpecError("the sizes are too large for numbers of 64 bits", _place_of(tree.nodes[0])) from None
    if not all(math.isfinite(cost_of(result, name)) for name in OBJECTIVES):
        raise SpecError("energy or latency is too large for a number of 64 bits", _place_of(tree.nodes[0]))
    return result


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A mapping taken apart, in execution order: what the evaluation and every drawing of its costs start from."""

    paths: list[tuple[TreeNode, ...]]
    nests: list[EinsumNest]
    bound: Mapping[str, Mapping[str, BoundComponent]]
    """Einsum → component → the component, evaluated for that Einsum."""
    common: Sharing
    held: Occupancy
    warnings: tuple[Located, ...]


def take_apart(spec: Spec, tree: LoopTree) -> Anatomy:
    """A tree that passed `check_tree`; capacities are not checked yet."""
    paths = leaf_paths(tree)
    names = [path[-1].node.einsum for path in paths if isinstance(path[-1].node, Compute)]
    bound = {name: bind_all(spec, spec.info.einsums[name]) for name in names}
    even = even_iterations(paths, {name: spec.info.einsums[name].bounds for name in names})
    nests = keep_windows([_nest(spec, path, even) for path in paths])
    for nest in nests:
        _check_fanout(nest)
    order = {name: i for i, name in enumerate(names)}
    common = sharing(nests, {t: sorted(order[u] for u in users) for t, users in spec.info.users.items()})
    check_backings(nests)
    return Anatomy(paths, nests, bound, common, occupancy(common), out_of_turn(common, spec.info.producers))


def _evaluate(spec: Spec, tree: LoopTree, fits: bool) -> Evaluation:
    parts = take_apart(spec, tree)
    bound = parts.bound
    peaks = _check_capacity(parts.nests, bound, parts.held, fits)
    shares = {nest.einsum.name: evaluate_einsum(spec, nest, bound[nest.einsum.name]) for nest in parts.nests}
    leak = sum(j for e in shares.values() for (_, _, action), j in e.energies.items() if action == "leak")
    dynamic = sum(j for e in shares.values() for (_, _, action), j in e.energies.items() if action != "leak")
    latency = sum(e.latency for e in shares.values())
    return Evaluation(dynamic + leak, dynamic, leak, latency, peaks, shares, parts.warnings)


def check_tree(spec: Spec, tree: LoopTree) -> None:
    """The tree's shape, its Einsums and their order, and the names in it (of components if the architecture is known)."""
    _check_shape(tree.nodes)
    infos = spec.info.einsums
    computed: set[str] = set()
    for einsum in einsums(tree.nodes):
        check_known(einsum, infos, f"the workload has no Einsum {einsum}", einsum)
        if einsum in computed:
            raise SpecError(f"Einsum {einsum} is computed twice", einsum)
        for tensor, access in infos[einsum].accesses.items():
            for producer in () if access.output else spec.info.producers.get(tensor, ()):
                if producer not in computed:
                    raise SpecError(f"Einsum {einsum} reads {tensor} before Einsum {producer} writes it", einsum)
        computed.add(str(einsum))
    for name in infos:
        if name not in computed:
            raise SpecError(f"the mapping does not compute Einsum {name}", _place_of(tree.nodes[0]))
    check_size(tree)
    if spec.arch is not None:
        _check_components(spec, leaf_paths(tree))


def check_size(tree: LoopTree) -> None:
    """Far more than any mapping needs: what a few lines of a template can write must not fill the memory."""
    total = 0

    def walk(nodes: tuple[Node, ...], above: int, loops: int) -> None:
        nonlocal total
        for i, node in enumerate(nodes):
            if isinstance(node, Sequential):
                for branch in node.nodes:
                    walk(branch.nodes, above + i, loops)
                return
            if isinstance(node, (Temporal, Spatial)):
                loops += 1
                if loops > MOST_LOOPS:
                    raise SpecError(f"more than {MOST_LOOPS:,} loops, one inside the other", _place_of(node))
        total += above + len(nodes)
        if total > MOST_NODES:
            raise SpecError(
                f"the ways down to the computes have more than {MOST_NODES:,} nodes in all", _place_of(nodes[-1])
            )

    walk(tree.nodes, 0, 0)


def _check_shape(nodes: tuple[object, ...]) -> None:
    for node in nodes[:-1]:
        if isinstance(node, (Compute, Sequential)):
            raise SpecError(f"!{type(node).__name__} must be the last node of its branch", _place_of(node))
    last = nodes[-1] if nodes else None
    if not isinstance(last, (Compute, Sequential)):
        raise SpecError("each branch of a mapping must end with !Compute or !Sequential", _place_of(last))
    if isinstance(last, Sequential):
        for branch in last.nodes:
            _check_shape(branch.nodes)


def _place_of(node: object) -> str | None:
    """A text in the node that knows its line."""
    if isinstance(node, Sequential):
        return _place_of(node.nodes[0].nodes[0]) if node.nodes and node.nodes[0].nodes else None
    if isinstance(node, (Temporal, Spatial)):
        return node.rank_variable if isinstance(node.rank_variable, str) else next(iter(node.rank_variable), None)
    return getattr(node, "component", None)


def _check_components(spec: Spec, paths: list[tuple[TreeNode, ...]]) -> None:
    """Components exist, and every held tensor is used below its holder."""
    names = computes(spec.require_arch())
    nodes = {str(node.name): node for node in flatten(spec.require_arch().nodes)}
    tensors_below: dict[int, set[str]] = {}
    holders: dict[int, Storage | Toll] = {}
    for path in paths:
        leaf = path[-1].node
        assert isinstance(leaf, Compute)
        check_known(leaf.component, names, f"the architecture has no compute {leaf.component}", leaf.component)
        for item in path:
            if isinstance(item.node, (Temporal, Spatial)):
                _check_einsums(spec, item.node)
            if isinstance(item.node, (Storage, Toll)):
                holders[item.number] = item.node
                tensors_below.setdefault(item.number, set()).update(spec.info.einsums[leaf.einsum].accesses)
    for number, holder in holders.items():
        check_known(holder.component, nodes, f"the architecture has no {holder.component}", holder.component)
        for tensor in holder.tensors:
            check_known(tensor, spec.info.users, f"the workload has no tensor {tensor}", tensor)
            if tensor not in tensors_below[number]:
                raise SpecError(f"no Einsum below this holder in {holder.component} uses tensor {tensor}", tensor)
            if holder.tensors.count(tensor) > 1:
                raise SpecError(f"a holder in {holder.component} lists tensor {tensor} twice", tensor)


def _check_einsums(spec: Spec, loop: Loop) -> None:
    """A loop names only Einsums that exist."""
    tables = [loop.rank_variable, loop.tile_shape]
    if isinstance(loop, Temporal):
        tables += [size for size in (loop.initial_tile_shape, loop.step) if size is not None]
    for name in (name for table in tables if isinstance(table, Mapping) for name in table):
        check_known(name, spec.info.einsums, f"the workload has no Einsum {name}", name)


def _nest(spec: Spec, path: tuple[TreeNode, ...], even: Mapping[int, int]) -> EinsumNest:
    leaf = path[-1].node
    assert isinstance(leaf, Compute)
    components = bind(spec, leaf.einsum, leaf.component)
    if not components.runs:
        raise SpecError(f"{leaf.component} is not enabled for Einsum {leaf.einsum}", leaf.component)
    _check_parallel(spec, path)
    return build_nest(path, components, even)


def _check_parallel(spec: Spec, path: tuple[TreeNode, ...]) -> None:
    """A tensor is held in at most one of the memories of a `!Parallel`."""
    beside = arch.beside(spec.require_arch().nodes)
    holders = [
        (t, n.node.component)
        for n in path
        if isinstance(n.node, Storage) and n.node.component in beside
        for t in n.node.tensors
    ]
    for i, (tensor, memory) in enumerate(holders):
        for earlier, first in holders[:i]:
            if earlier == tensor and first in beside[memory]:
                raise SpecError(
                    f"{tensor} is held in {first} and in {memory}, which stand beside each other; a tensor is held in "
                    f"one of them at most",
                    tensor,
                )


def _check_fanout(nest: EinsumNest) -> None:
    used_fanout = nest.used_fanout()
    for component in nest.path.components:
        for d in component.dimensions:
            if used_fanout[d.component, d.name] > d.most:
                scale = f" x {d.usage_scale} (usage_scale)" if d.usage_scale != 1 else ""
                loops = (loop for loop in nest.loops if (loop.component, loop.dimension) == (d.component, d.name))
                raise InvalidMapping(
                    f"Einsum {nest.einsum.name} uses {used_fanout[d.component, d.name]}{scale} instances of {d.component} dimension "
                    f"{d.name}, whose fanout is {d.fanout}; use larger tile shapes in its Spatial loops",
                    next((loop.variable for loop in loops), None),
                )


def _check_capacity(
    nests: list[EinsumNest], bound: Mapping[str, Mapping[str, BoundComponent]], held: Occupancy, fits: bool
) -> dict[str, int | float]:
    peaks: dict[str, int | float] = {}
    for nest, total, parts in zip(nests, held.totals(), held.per_einsum, strict=True):
        for memory, bits in total.items():
            peaks[memory] = max(peaks.get(memory, 0), bits)
            size = bound[nest.einsum.name][memory].size
            if bits > size and fits:
                shares = ", ".join(f"{t} {b:,}" for (m, t), b in parts.items() if m == memory)
                raise InvalidMapping(
                    f"{memory} holds {bits:,} bits while Einsum {nest.einsum.name} runs, {bits - size:,} more than its size "
                    f"of {size:,} ({shares}); use smaller tile shapes above its holders",
                    next((h.tensor for n in (nest, *nests) for h in n.holders if h.component.name == memory), None),
                )
    return peaks


def evaluate_einsum(spec: Spec, nest: EinsumNest, bound: Mapping[str, BoundComponent]) -> EinsumEvaluation:
    """One Einsum's share of the costs, fit or not; `bound` is what `bind_all` gives for it."""
    counts = count_accesses(nest)
    instances = nest.einsum.n_instances
    compute = nest.path.compute
    total = action_counts(counts.total, bound)
    per_unit = action_counts(counts.per_unit, bound)
    scale = compute.actions["compute"].actions_scale
    total[compute.name, "", "compute"] = counts.operations * scale
    per_unit[compute.name, "", "compute"] = counts.steps * scale
    latencies = _latencies(nest, per_unit, bound)
    latency = max(latencies.values()) * instances
    energies = {key: n * bound[key[0]].actions[key[2]].energy * instances for key, n in total.items()}
    watts = leak_power(spec, compute.name, bound, nest.used_fanout())
    energies.update({(name, "", "leak"): power * latency for name, power in watts.items()})
    charged = reservations(nest)
    return EinsumEvaluation(
        energy=sum(energies.values()),
        latency=latency,
        latency_per_component={name: seconds * instances for name, seconds in latencies.items()},
        actions={key: n * instances for key, n in total.items()},
        energies=energies,
        occupancy_bits={(r.memory, _copied_name(nest, r.tensor)): r.bits for r in charged},
        per_unit=per_unit,
        points=counts.operations,
        steps=counts.steps,
        used_fanout=nest.used_fanout(),
        reservation_levels={(r.memory, _copied_name(nest, r.tensor)): r.level for r in charged},
    )


def _copied_name(nest: EinsumNest, tensor: str) -> str:
    """A copy Einsum's data goes by the input's name."""
    if not nest.einsum.is_copy_operation:
        return tensor
    return next(t for t in nest.einsum.accesses if t != nest.einsum.output)


def action_counts(values: Mapping[AccessKey, int], bound: Mapping[str, BoundComponent]) -> dict[AccessKey, float]:
    """Values moved, as numbers of actions."""
    counts: dict[AccessKey, float] = {}
    for (component, tensor, action), count in values.items():
        a = bound[component].actions[action]
        counts[component, tensor, action] = count / a.values_per_action[tensor] * a.actions_scale
    return counts


def _latencies(
    nest: EinsumNest, per_unit: Mapping[AccessKey, float], bound: Mapping[str, BoundComponent]
) -> dict[str, float]:
    """Seconds that each component on the path is busy."""
    calls: dict[str, dict[str, float]] = {c.name: {} for c in nest.path.components if c.kind != "container"}
    for (component, _, action), n in per_unit.items():
        calls[component][action] = calls[component].get(action, 0) + n
    return {name: bound[name].latency(actions) for name, actions in calls.items()}
