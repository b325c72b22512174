"""Fields that change a cost, drawn onto any random spec: what the strategy of the spec leaves out, alone and together.

Whatever is drawn stays valid with all the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fusiest.base.frozen import FrozenDict
from fusiest.spec import architecture as arch
from fusiest.spec.hardware import component_classes as own
from fusiest.spec.hardware.actions import Action
from fusiest.spec.hardware.dataflow import Dataflow, MemoryConstraints, constrained
from fusiest.spec.language.affine import Constraint
from fusiest.spec.spec import Spec
from fusiest.spec.workload.einsums import Einsum, EinsumRenames, Rename
from tests.drawing.bits import changed, draw_bits
from tests.drawing.dice import Dice

Change = Callable[[Dice, Spec], Spec]
_SCALES = ("energy_scale", "throughput_scale", "latency_scale", "actions_scale")
_RATES = [2, 0.5, 4]


def draw_costs(dice: Dice, spec: Spec, most: int = 3) -> Spec:
    """A spec with a few more of its fields given, mostly none."""
    for _ in range(dice.one_of([0, 1, 0, 2, most])):
        spec = dice.one_of(CHANGES)(dice, spec)
    return spec


# ---------------------------------------------------------------------------------------------------------- components


def _nodes(spec: Spec) -> list[Any]:
    return [node for node in arch.flatten(spec.require_arch().nodes) if isinstance(node, arch.Component)]


def _component(dice: Dice, spec: Spec) -> tuple[Any, Spec]:
    """A memory, a Toll or a compute; a Toll is added if there is none."""
    kind = dice.one_of([arch.Memory, arch.ComputeUnit, arch.TollStation])
    if not any(isinstance(node, kind) for node in _nodes(spec)):
        spec = _toll(dice, spec)
    return dice.one_of([node for node in _nodes(spec) if isinstance(node, kind)] or _nodes(spec)), spec


def _movers(spec: Spec) -> list[Any]:
    """Memories and Tolls."""
    return [node for node in _nodes(spec) if not isinstance(node, arch.ComputeUnit)]


def _memory(dice: Dice, spec: Spec) -> Any:
    return dice.one_of([node for node in _nodes(spec) if isinstance(node, arch.Memory)])


def _tensors(spec: Spec) -> list[str]:
    return list(dict.fromkeys(str(a.name) for e in spec.require_workload().einsums for a in e.tensor_accesses))


def _set(dice: Dice, spec: Spec) -> str:
    return dice.one_of(["Outputs", "Inputs", "Shared", "~Shared", "Intermediates", "All", *_tensors(spec)])


def _by_einsum(dice: Dice, one: arch.Value, other: arch.Value) -> arch.Value:
    """A value, or one for some Einsums and another for others."""
    conditions = ["len(All) == 2", "operation == 'matmul'", "len(Intermediates) > 1"]
    return f"{one} if {dice.one_of(conditions)} else {other}" if dice.chance(30) else one


def _action(dice: Dice, node: Any, **fields: object) -> dict[str, object]:
    """The actions of a component, one of them with other fields."""
    chosen = node.action(dice.one_of(node.ACTIONS))
    others = tuple(action for action in node.actions if action.name != chosen.name)
    return {"actions": (*others, replace(chosen, **fields))}


def _counts_bits(node: Any) -> bool:
    """Whether a figure of a component counts the bits that an action moves: then they must be the same for all tensors."""
    texts = [f"{action.energy} {action.throughput}" for action in node.actions]
    return "bit" in " ".join(texts) or node.component_class == "Wide"


def _figure(name: str, *values: arch.Value) -> Change:
    """Of a component."""

    def change(dice: Dice, spec: Spec) -> Spec:
        node, spec = _component(dice, spec)
        value = _by_einsum(dice, dice.one_of(values), dice.one_of(values))
        return changed(spec, {node.name: {name: value}})

    return change


def _figure_of_action(name: str, *values: arch.Value) -> Change:
    def change(dice: Dice, spec: Spec) -> Spec:
        node, spec = _component(dice, spec)
        value = _by_einsum(dice, dice.one_of(values), dice.one_of(values))
        fields = {name: value} | (
            {"throughput": None} if name == "latency" else {"latency": None} if name == "throughput" else {}
        )
        return changed(spec, {node.name: _action(dice, node, **fields)})

    return change


def _per_tensor(name: str, in_action: bool) -> Change:
    """`bits_per_action` or `values_per_action`: a number, or by set."""

    def change(dice: Dice, spec: Spec) -> Spec:
        movers = [node for node in _movers(spec) if not _counts_bits(node)]
        if not movers:
            return spec
        node, values = dice.one_of(movers), [2, 4, 1, 8]
        tables: list[object] = [dice.one_of(values), FrozenDict({_set(dice, spec): dice.one_of(values), "Other": 2})]
        fields = {name: dice.one_of(tables)}
        return changed(spec, {node.name: _action(dice, node, **fields) if in_action else fields})

    return change


def _per_bit(dice: Dice, spec: Spec) -> Spec:
    """Energy and throughput for each bit that an action moves."""
    node = dice.one_of(_movers(spec))
    actions = tuple(
        replace(node.action(name), energy=dice.one_of(["2 J/bit", "1 J/bit", 3]), throughput=dice.one_of(["4 bit/s", "16 bit/s", 2]),
                latency=None, bits_per_action=None, values_per_action=None)
        for name in node.ACTIONS
    )  # fmt: skip
    fields = {
        "actions": actions,
        "bits_per_action": dice.one_of([4, 16, 1]),
        "values_per_action": None,
        "component_class": "Dummy",
    }
    return changed(spec, {node.name: fields})


def _total_latency(dice: Dice, spec: Spec) -> Spec:
    texts = [
        "max(a.n_calls / a.throughput for a in actions)",
        "sum(a.n_calls for a in actions) / 4",
        "sum(a.n_calls for a in actions) / 4 * n_parallel_instances",
    ]
    node, spec = _component(dice, spec)
    return changed(spec, {node.name: {"total_latency": dice.one_of(texts)}})


def _component_class(dice: Dice, spec: Spec) -> Spec:
    """A class of the spec's own, in place of a component's own figures: of any actions, or of `width` bits."""
    node, spec = _component(dice, spec)
    is_wide = not isinstance(node, arch.ComputeUnit) and dice.chance(40)
    actions = tuple(
        own.ClassAction(name=name, energy=energy, **rate)
        for name, energy in (("read", "cost + 1"), ("write", "twice"), ("compute", "inner.read.energy"))
        for rate in [dice.one_of([{"throughput": "cost"}, {"latency": "1 / cost"}, {}])]
    )
    attributes = {"cost": own.ClassAttribute(), "leaks": own.ClassAttribute(default=1)}
    written = own.WrittenClass(
        name="Wide" if is_wide else "Cell",
        attributes=FrozenDict(attributes | ({"width": own.ClassAttribute(default=8)} if is_wide else {})),
        parts=FrozenDict({"inner": FrozenDict({"class": "Inner", "cost": "cost"})}),
        variables=FrozenDict({"twice": "2 * cost"}),
        leak_power="leaks / 4",
        actions=actions,
    )
    inner = own.WrittenClass(
        name="Inner",
        attributes=FrozenDict({"cost": own.ClassAttribute()}),
        actions=(own.ClassAction(name="read", energy="3 * cost"),),
    )
    classes = {str(c.name): c for c in (*spec.component_classes, inner, written)}
    cost = _by_einsum(dice, dice.one_of([1, 2, 4]), 3)
    fields: dict[str, object] = {"component_class": str(written.name), "actions": (), "leak_power": None}
    if is_wide:
        fields |= {"bits_per_action": dice.one_of([8, 4, 16]), "values_per_action": None}
    architecture = spec.require_arch()
    if dice.chance(50):
        fields["attributes"] = FrozenDict({"cost": cost, "leaks": dice.one_of([0, 1, 2])})
    architecture = replace(architecture, attributes=FrozenDict({**architecture.attributes, "cost": 2}))
    spec = replace(spec, arch=architecture, component_classes=tuple(classes.values()))
    return changed(spec, {node.name: fields})


def _variables(dice: Dice, spec: Spec) -> Spec:
    """A variable of the spec or of the architecture, by which something is multiplied."""
    node, spec = _component(dice, spec)
    value = dice.one_of([2, 3, "len(All)"])
    table = FrozenDict({"factor": value})
    if dice.chance(50):
        spec = replace(spec, variables=table)
    else:
        spec = replace(spec, variables=FrozenDict(), arch=replace(spec.require_arch(), variables=table))
    return changed(spec, {node.name: {dice.one_of(_SCALES): "factor / 2"}})


def _size(dice: Dice, spec: Spec) -> Spec:
    """Of a memory that has one: not the same for all Einsums."""
    limited = [n for n in _nodes(spec) if isinstance(n, arch.Memory) and isinstance(n.size, int)]
    if not limited:
        return spec
    node = dice.one_of(limited)
    sizes = [node.size, node.size * 2] if dice.chance(70) else [node.size, "inf"]
    return changed(spec, {node.name: {"size": "{} if len(All) == 2 else {}".format(*dice.shuffled(sizes))}})


def _skips(dice: Dice, spec: Spec) -> Spec:
    nodes = [node for node in _nodes(spec) if not isinstance(node, arch.TollStation)]
    return changed(spec, {dice.one_of(nodes).name: {"skip_initial_output_write": False}})


def _toll(dice: Dice, spec: Spec) -> Spec:
    """One more Toll, right below a memory."""
    nodes = spec.require_arch().nodes
    tags = {str(node.name) for node in arch.flatten(nodes)}
    places = [i for i, node in enumerate(nodes) if isinstance(node, arch.Memory | arch.Container)]
    places = [i for i in places if not isinstance(nodes[i], arch.ComputeUnit)]
    if "Link" in tags or not places:
        return spec
    ways: list[Any] = ["up_and_down", "down", "up"]
    link = arch.TollStation(
        name="Link",
        component_class="Dummy",
        direction=dice.one_of([dice.one_of(ways), FrozenDict({"Outputs": dice.one_of(ways), "Other": "down"})]),
        tensors=arch.Tensors(keep=_set(dice, spec), may_keep="All" if dice.chance(30) else None),
        actions=(Action(name="read", energy=dice.one_of([2, 1, 5]), throughput=dice.one_of([2, 5])),),
    )
    at = dice.one_of(places) + 1
    return replace(spec, arch=replace(spec.require_arch(), nodes=(*nodes[:at], link, *nodes[at:])))


def _fork(dice: Dice, spec: Spec) -> Spec:
    """What gates the leakage of a Fork that is there, or of a new one beside the compute."""
    nodes = spec.require_arch().nodes
    gates = {"forked_power_gateable": dice.chance(60), "non_forked_power_gateable": dice.chance(60)}
    side = arch.ComputeUnit(
        name="Aside", enabled="len(All) == 2", component_class="Dummy", leak_power=1,
        actions=(Action(name="compute", energy=dice.one_of([1, 3]), throughput=dice.one_of([2, 1])),),
    )  # fmt: skip
    has_fork = any(isinstance(node, arch.Fork) for node in nodes)
    new = (*nodes[:-1], *(() if has_fork else (arch.Fork(nodes=(side,)),)), nodes[-1])
    gated = tuple(replace(node, **gates) if isinstance(node, arch.Fork) else node for node in new)
    return replace(spec, arch=replace(spec.require_arch(), nodes=gated))


# -------------------------------------------------------------------------------------------- constraints and fanouts


def _dimension(**fields: Callable[[Dice, Spec], object]) -> Change:
    """Fields of a dimension of a fanout, if there is one."""

    def change(dice: Dice, spec: Spec) -> Spec:
        nodes = [node for node in arch.flatten(spec.require_arch().nodes) if node.spatial]
        if not nodes:
            return spec
        node = dice.one_of(nodes)
        drawn = {name: draw(dice, spec) for name, draw in fields.items()}
        chosen = dice.number(0, len(node.spatial) - 1)
        spatial = tuple(replace(d, **drawn) if i == chosen else d for i, d in enumerate(node.spatial))
        return changed(spec, {str(node.name): {"spatial": spatial}})

    return change


def _comparison(dice: Dice, spec: Spec) -> tuple[arch.WrittenComparison, ...]:
    expression = dice.one_of(["All", *(f"{t}.rank_variables" for t in _tensors(spec))])
    operator = dice.one_of(["<=", "product<=", "==", ">=", "<", "product=="])
    return (arch.WrittenComparison(expression=expression, operator=operator, value=dice.one_of([2, 1, 3])),)


def _constraint(name: str, draw: Callable[[Dice, Spec], object]) -> Change:
    """A field of what a memory may, must and must not do with tensors."""

    def change(dice: Dice, spec: Spec) -> Spec:
        node = _memory(dice, spec)
        return changed(spec, {node.name: {"tensors": replace(node.tensors, **{name: draw(dice, spec)})}})

    return change


def _order(dice: Dice, spec: Spec) -> tuple[tuple[str, ...], ...]:
    tensors = dice.shuffled(_tensors(spec))
    return (tuple(tensors[:2]), tuple(reversed(tensors[:2]))) if dice.chance(30) else (tuple(tensors[:2]),)


def _rank_names(dice: Dice, spec: Spec) -> Spec:
    """A name for some rank variables, which no loop may step above what a memory backs."""
    source = dice.one_of(["Outputs.rank_variables", "Inputs.rank_variables", "~Outputs.rank_variables"])
    named = (Rename(name="some", source=source),)
    entries = [entry for entry in spec.renames if entry.name != "default"]
    default = next((entry for entry in spec.renames if entry.name == "default"), EinsumRenames(name="default"))
    spec = replace(spec, renames=(replace(default, rank_variables=named), *entries))
    return _constraint("no_fused_loops", lambda dice, spec: "some")(dice, spec)


def _dataflow(dice: Dice, spec: Spec) -> Spec:
    """A constraint on a memory, whatever it is called."""
    tensors: FrozenDict[str, object] = FrozenDict({"keep": dice.one_of(["~Intermediates", "All", "~Shared"])})
    dataflow = Dataflow(memories=(MemoryConstraints(memory="outermost", tensors=tensors),))
    return replace(spec, arch=constrained(spec.require_arch(), dataflow), dataflow=dataflow)


# ------------------------------------------------------------------------------------------------------------ workload


def _with_einsums(spec: Spec, change: Callable[[Einsum], Einsum], **fields: Any) -> Spec:
    workload = spec.require_workload()
    return replace(spec, workload=replace(workload, einsums=tuple(change(e) for e in workload.einsums), **fields))


def _access(name: str, *values: object) -> Change:
    """A field of a tensor, the same for all its users."""

    def change(dice: Dice, spec: Spec) -> Spec:
        produced = {str(a.name) for e in spec.require_workload().einsums for a in e.tensor_accesses if a.output}
        tensors = [t for t in _tensors(spec) if name != "persistent" or t not in produced]
        if not tensors:
            return spec
        tensor, value = dice.one_of(tensors), dice.one_of(values)

        def given(e: Einsum) -> Einsum:
            accesses = tuple(replace(a, **{name: value}) if a.name == tensor else a for a in e.tensor_accesses)
            return replace(e, tensor_accesses=accesses)

        return _with_einsums(spec, given)

    return change


def _instances(dice: Dice, spec: Spec) -> Spec:
    if dice.chance(50):
        return _with_einsums(spec, lambda e: e, n_instances=dice.one_of([2, 3]))
    chosen = dice.one_of([str(e.name) for e in spec.require_workload().einsums])
    return _with_einsums(spec, lambda e: replace(e, n_instances=2) if e.name == chosen else e)


def _operation(dice: Dice, spec: Spec) -> Spec:
    """What Einsums compute, and what it costs there."""

    def named(e: Einsum) -> Einsum:
        return e if e.is_copy_operation or not dice.chance(50) else replace(e, operation=dice.one_of(["exp", "add"]))

    compute = next(node for node in reversed(_nodes(spec)) if isinstance(node, arch.ComputeUnit))
    energy = dice.one_of(["3 if operation == 'exp' else 1", "1 if operation == 'matmul' else 2"])
    return _with_einsums(changed(spec, {str(compute.name): _action(dice, compute, energy=energy)}), named)


def _ends(spec: Spec, einsum: str, rank: str) -> list[tuple[int, int]]:
    """The first and the last index of each tensor of an Einsum in a rank."""
    info = spec.info.einsums[einsum]
    indices = [access.ranks[rank] for access in info.accesses.values() if rank in access.ranks]
    reaches = [[a * (info.bounds[v] - 1) for v, a in index.coefficients.items()] for index in indices]
    return [
        (index.constant + sum(min(0, n) for n in reach), index.constant + sum(max(0, n) for n in reach))
        for index, reach in zip(indices, reaches, strict=True)
    ]


def _rank_sizes(dice: Dice, spec: Spec) -> Spec:
    """The size of a rank in place of a bound, or one that says the same once more for the whole workload."""
    workload = spec.require_workload()
    e = dice.one_of(workload.einsums)
    access = dice.one_of(e.tensor_accesses)
    if not access.projection:
        return spec
    rank, index = dice.one_of(list(access.projection.items()))
    everywhere = [end for other in workload.einsums for end in _ends(spec, str(other.name), rank)]
    if min(low for low, _ in everywhere) < 0:
        return spec
    if dice.chance(50):
        size = max(high for _, high in everywhere) + 1
        return replace(spec, workload=replace(workload, rank_sizes=FrozenDict({**workload.rank_sizes, rank: size})))
    ((low, high), *others) = set(_ends(spec, str(e.name), rank))
    if low or others or list(index.coefficients.values()) != [1]:
        return spec
    (v,) = index.coefficients
    left = tuple(c for c in e.iteration_space_shape if set(c.variables) != {v})
    sized = replace(e, rank_sizes=FrozenDict({**e.rank_sizes, rank: high + 1}), iteration_space_shape=left)
    return _with_einsums(spec, lambda other: sized if other.name == e.name else other)


def _shape(dice: Dice, spec: Spec) -> Spec:
    """A constraint for the whole workload, that the Einsums obey already."""
    v = dice.one_of([v for e in spec.require_workload().einsums for v in e.variables] or [""])
    if not v:
        return spec
    return _with_einsums(spec, lambda e: e, iteration_space_shape=(Constraint(f"-1000 <= {v} < 1000"),))


CHANGES: list[Change] = [
    lambda dice, spec: draw_bits(dice, spec, 40),
    _figure("leak_power", 1, 0.25, 3),
    _figure("leak_power_scale", 2, 0.5),
    _figure("n_parallel_instances", 2, 3),
    *(_figure(name, *_RATES) for name in _SCALES),
    *(_figure_of_action(name, *_RATES) for name in _SCALES),
    _figure_of_action("energy", 3, 1, 7),
    _figure_of_action("throughput", 2, 1, 3),
    _figure_of_action("latency", 2, 0.5),
    *(_per_tensor(name, where) for name in ("bits_per_action", "values_per_action") for where in (False, True)),
    _per_bit,
    _total_latency,
    _component_class,
    _variables,
    _size,
    lambda dice, spec: changed(
        spec, {_memory(dice, spec).name: {"enabled": dice.one_of(["len(All) > 2", "len(Shared) > 1"])}}
    ),
    _skips,
    _toll,
    _fork,
    _dimension(usage_scale=lambda dice, spec: dice.one_of([1.5, 0.5])),
    _dimension(power_gateable=lambda dice, spec: True),
    _dimension(min_usage=lambda dice, spec: dice.one_of([1, 0.5])),
    _dimension(may_reuse=_set),
    _dimension(reuse=_set),
    _dimension(loop_bounds=_comparison),
    _constraint("tile_shape", _comparison),
    _constraint("no_refetch_from_above", _set),
    _constraint("no_resend_to_below", _set),
    _constraint("no_fused_loops", lambda dice, spec: f"{dice.one_of(_tensors(spec))}.rank_variables"),
    _rank_names,
    _constraint("tensor_order_options", _order),
    _constraint("force_memory_hierarchy_order", lambda dice, spec: False),
    _constraint("back", _set),
    _dataflow,
    _access("bits_per_value", 4, 16),
    _access("persistent", True),
    _instances,
    _operation,
    _rank_sizes,
    _shape,
]
