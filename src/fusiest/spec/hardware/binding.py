"""The architecture evaluated for one Einsum on one compute: every expression has become a number or a set.

A `Path` lists the nodes from the outermost down to the compute. What depends on the choices of outer memories (`keep`,
`may_keep`, …) is in `placement`.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fusiest.base.errors import SpecError, did_you_mean
from fusiest.base.frozen import FrozenDict
from fusiest.base.units import read_quantity
from fusiest.spec.hardware import architecture as arch
from fusiest.spec.hardware.actions import Action
from fusiest.spec.hardware.architecture import computes, flatten, path_nodes
from fusiest.spec.hardware.bound import BoundAction, BoundComponent, BoundDimension, ComponentKind, Path
from fusiest.spec.hardware.models import DUMMY, action_cost
from fusiest.spec.hardware.placement_sets import bind_comparison
from fusiest.spec.language.expressions import boolean, by_set, evaluate_expression, names_in, number
from fusiest.spec.language.fields import PerTensor, Value, fields_of
from fusiest.spec.language.ranges import LARGEST, SMALLEST
from fusiest.spec.language.scope import EinsumNames, tensor_set
from fusiest.spec.workload.analysis import EinsumInfo

if TYPE_CHECKING:
    from fusiest.spec.spec import Spec

_KINDS: dict[type, ComponentKind] = {
    arch.Memory: "memory", arch.TollStation: "toll", arch.ComputeUnit: "compute", arch.Container: "container",
}  # fmt: skip
_BOUND: weakref.WeakKeyDictionary[Spec, dict[tuple[str, str], Path]] = weakref.WeakKeyDictionary()
"""Paths that were bound, by Einsum and compute, for as long as their spec is in use."""


def bind(spec: Spec, einsum: str, compute: str) -> Path:
    """Evaluate the nodes on the path of a compute for an Einsum."""
    paths = _BOUND.setdefault(spec, {})
    if (einsum, compute) not in paths:
        paths[einsum, compute] = _bind(spec, einsum, compute)
    return paths[einsum, compute]


def paths_of(spec: Spec, einsum: str) -> list[Path]:
    """An Einsum on every compute, also on those that cannot run it."""
    return [bind(spec, einsum, compute) for compute in computes(spec.require_arch())]


def _bind(spec: Spec, einsum: str, compute: str) -> Path:
    architecture = spec.require_arch()
    nodes = path_nodes(architecture.nodes, compute)
    if nodes is None:
        raise SpecError(
            f"the architecture has no compute {compute}{did_you_mean(compute, computes(architecture))}", compute
        )
    info = spec.info.einsums[einsum]
    bound = bind_all(spec, info)
    return Path(info, tuple(bound[str(node.name)] for node in nodes))


def bind_all(spec: Spec, info: EinsumInfo) -> dict[str, BoundComponent]:
    """Every node of the architecture, evaluated for an Einsum. Of the spec's own Einsums, what is known is not evaluated again."""
    nodes = list(flatten(spec.require_arch().nodes))
    is_own = spec.info.einsums.get(info.name) is info
    bound = spec.bound.get(info.name, {}) if is_own else {}
    if len(bound) < len(nodes):
        names = architecture_names(spec, info)
        bound = {str(node.name): bound.get(str(node.name)) or bind_node(node, info, names) for node in nodes}
        if is_own:
            spec.bound[info.name] = bound
    return dict(bound)


def architecture_names(spec: Spec, info: EinsumInfo) -> EinsumNames:
    """The Einsum's names, plus the variables, plus every component's; a memory is an empty set until its is chosen."""
    architecture = spec.require_arch()
    values, texts = spec.variable_values
    return info.names.extended(values, variables=texts).with_components(architecture.nodes, spec.models)


def bind_node(node: arch.Container, info: EinsumInfo, names: EinsumNames) -> BoundComponent:
    """Evaluate a node for an Einsum."""
    with at_node(node):
        return _bind_node(node, info, names.figures())


@contextmanager
def at_node(node: arch.Container) -> Iterator[None]:
    """Errors that know no place are in this node."""
    try:
        yield
    except SpecError as error:
        if error.source is None:
            raise SpecError(f"{node.name}: {error.message}", node.name) from None
        raise


def _bind_node(node: arch.Container, info: EinsumInfo, names: EinsumNames) -> BoundComponent:
    dimensions = tuple(_bind_dimension(node, dimension, names) for dimension in node.spatial)
    if not isinstance(node, arch.Component):
        return BoundComponent(name=str(node.name), kind="container", dimensions=dimensions)
    parallel = _figure(node, "n_parallel_instances", names)
    bits = _per_tensor(node, "bits_per_value", info, names)
    bits = {t: bits.get(t, default) for t, default in info.bits_per_value.items()}
    actions = {name: _bind_action(node, name, info, names, bits, parallel) for name in node.ACTIONS}
    component = BoundComponent(
        name=str(node.name),
        kind=_KINDS[type(node)],
        dimensions=dimensions,
        enabled=boolean(node.enabled, names, "enabled"),
        size=_figure(node, "size", names) if isinstance(node, arch.Memory) else math.inf,
        leak_power=_product(node, "leak_power", names, _figure(node, "leak_power_scale", names), parallel),
        area=_product(node, "area", names, _figure(node, "area_scale", names), parallel) if _has_area(node) else None,
        actions=FrozenDict(actions),
        bits_per_value=FrozenDict(bits),
        skip_initial_output_write=getattr(node, "skip_initial_output_write", True),
        direction=_bind_direction(node, names) if isinstance(node, arch.TollStation) else FrozenDict(),
        total_latency=node.total_latency,
        attributes=_attributes(node, names) if node.total_latency is not None else FrozenDict(),
    )
    if node.total_latency is not None:
        component.latency(dict.fromkeys(actions, 1))  # so that a wrong expression is found before anything is mapped
    return component


def _attributes(node: arch.Component, names: EinsumNames) -> FrozenDict[str, object]:
    """What `total_latency` uses besides its actions: variables, sets and the component's own figures."""
    attributes: dict[str, object] = {}
    for name in names_in(node.total_latency or ""):
        if name in _LATENCY_FIGURES and getattr(node, name, None) is not None:
            attributes[name] = evaluate_expression(getattr(node, name), names)
        elif name in names:
            attributes[name] = names[name]
    return FrozenDict(attributes)


_LATENCY_FIGURES = ("size", "leak_power", "area", "n_parallel_instances", "energy_scale", "throughput_scale",
                    "actions_scale", "leak_power_scale", "area_scale")  # fmt: skip


def _figure(
    node: arch.Component, name: str, names: EinsumNames, action: Action | None = None, bits: float | None = None
) -> int | float:
    """A number that a component or one of its actions gives; if it does not, its class does. `bits` an action moves."""
    owner = action if action is not None else node
    figure = getattr(owner, name)
    if figure is not None:
        with_unit = read_quantity(figure) if isinstance(figure, str) else None
        if action is None or with_unit is None or not with_unit.unit.per_bit:
            return _checked(owner, name, names)
        if bits is None or "compute" in node.ACTIONS:
            reason = "moves none" if "compute" in node.ACTIONS else "moves different numbers of them, by tensor"
            raise SpecError(
                f"{name} '{figure}' counts bits, but {action.name} of {node.name} {reason}; say it per action", figure
            )
        return with_unit.value * bits if name == "energy" else with_unit.value / bits
    if action is not None and name == "throughput" and action.latency is not None:
        return _inverse(_checked(action, "latency", names))
    if node.component_class == DUMMY:
        return math.inf if name == "throughput" else 0
    if node.component_class is None or names.models is None:
        missing = ", ".join(missing_figures(node))
        raise SpecError(
            f"{node.name} needs {missing}; give them, or a component_class that estimates them (Dummy: zero cost)",
            node.name,
        )
    if action is None:
        area, leak_power = names.models.fixed(node, names)
        return area if name == "area" else leak_power
    cost = action_cost(names.models.estimate(node, names), node, str(action.name), bits)
    return cost.energy if name == "energy" else cost.throughput


def _product(
    node: arch.Component,
    name: str,
    names: EinsumNames,
    *scales: float,
    action: Action | None = None,
    bits: float | None = None,
) -> float:
    """A figure times its scales, if that is still a number that can be counted with."""
    result = math.prod(scales, start=_figure(node, name, names, action, bits))
    if result and not SMALLEST <= result <= LARGEST and result != math.inf:
        figure = f"{name} of {node.name}" + (f" {action.name}" if action else "")
        raise SpecError(f"{figure} is too {'small' if result < 1 else 'large'} with all its scales", node.name)
    return result


def _has_area(node: arch.Component) -> bool:
    """Energy and time do not depend on the area, so that it may be left out."""
    return node.area is not None or node.component_class is not None


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf


def missing_figures(node: arch.Component) -> list[str]:
    """The figures that a component does not give."""
    missing = ["leak_power"] if node.leak_power is None else []
    for name in node.ACTIONS:
        action = node.action(name)
        missing += [f"actions {name}.energy"] * (action.energy is None)
        missing += [f"actions {name}.throughput"] * (action.throughput is None and action.latency is None)
    return missing


def _bind_dimension(node: arch.Container, dimension: arch.Dimension, names: EinsumNames) -> BoundDimension:
    label = f"{node.name}.{dimension.name}"
    may_reuse = next(text for text in (dimension.may_reuse, dimension.reuse, "All") if text is not None)
    return BoundDimension(
        component=str(node.name),
        name=str(dimension.name),
        fanout=int(_checked(dimension, "fanout", names)),
        may_reuse=tensor_set(may_reuse, names, f"may_reuse of {label}").members,
        reuse=tensor_set(dimension.reuse or "Nothing", names, f"reuse of {label}").members,
        loop_bounds=tuple(bind_comparison(c, names) for c in dimension.loop_bounds),
        min_usage=_checked(dimension, "min_usage", names),
        usage_scale=_checked(dimension, "usage_scale", names),
        power_gateable=dimension.power_gateable,
    )


def _bind_action(
    node: arch.Component,
    name: str,
    info: EinsumInfo,
    names: EinsumNames,
    bits_per_value: Mapping[str, int | float],
    parallel: float,
) -> BoundAction:
    action = node.action(name)

    def both_scales(scale: str) -> float:
        return _figure(node, scale, names) * _figure(node, scale, names, action)

    bits_per_action = _first_per_tensor(node, action, "bits_per_action", info, names)
    values = _first_per_tensor(node, action, "values_per_action", info, names)
    per_value = not isinstance(node, arch.ComputeUnit) and names.models is not None and names.models.per_value(node)
    for tensor, bits in bits_per_value.items():
        default = bits if per_value else 1
        values.setdefault(tensor, bits_per_action.get(tensor, default) / bits)
        if not values[tensor] >= SMALLEST:
            raise SpecError(f"bits_per_action of {node.name} {name} is too small for {tensor}", action.name)
    moved = [values[tensor] * bits for tensor, bits in bits_per_value.items()]
    moved_bits = None if per_value else _same_bits(node, action, names, moved)
    rates = (both_scales("throughput_scale"), _inverse(both_scales("latency_scale")), parallel)
    return BoundAction(
        name=name,
        energy=_product(node, "energy", names, both_scales("energy_scale"), action=action, bits=moved_bits),
        throughput=_product(node, "throughput", names, *rates, action=action, bits=moved_bits),
        actions_scale=both_scales("actions_scale"),
        values_per_action=FrozenDict({t: values[t] for t in bits_per_value}),
        bits=moved_bits,
    )


def _same_bits(node: arch.Component, action: Action, names: EinsumNames, moved: list[float]) -> float | None:
    """The bits that an action moves, if they are the same for all tensors; without any, what the component says."""
    if not moved:
        owner = action if action.bits_per_action is not None else node
        return (
            _checked(owner, "bits_per_action", names) if isinstance(owner.bits_per_action, (int, float, str)) else 1.0
        )
    return moved[0] if all(math.isclose(moved[0], bits) for bits in moved) else None


def raw_figures(node: arch.Component, info: EinsumInfo, names: EinsumNames) -> dict[str, float]:
    """Area, leakage, and energy and throughput of each action (`read.energy`), before they are scaled."""
    bound = _bind_node(node, info, names)
    fixed = ("area", "leak_power") if _has_area(node) else ("leak_power",)
    figures = {name: float(_figure(node, name, names)) for name in fixed}
    for name, bound_action in bound.actions.items():
        for figure in ("energy", "throughput"):
            figures[f"{name}.{figure}"] = float(_figure(node, figure, names, node.action(name), bound_action.bits))
    return figures


def _first_per_tensor(
    node: arch.Component, action: Action, field_name: str, info: EinsumInfo, names: EinsumNames
) -> dict[str, int | float]:
    """The action's figure per tensor where it gives one, else the component's."""
    return {**_per_tensor(node, field_name, info, names), **_per_tensor(action, field_name, info, names)}


def _per_tensor(owner: object, field_name: str, info: EinsumInfo, names: EinsumNames) -> dict[str, int | float]:
    value: PerTensor | None = getattr(owner, field_name)
    if value is None:
        return {}
    if isinstance(value, FrozenDict):
        return {t: _checked(owner, field_name, names, v) for t, v in by_set(value, names, names.universe).items()}
    return dict.fromkeys(info.accesses, _checked(owner, field_name, names))


def _bind_direction(node: arch.TollStation, names: EinsumNames) -> FrozenDict[str, str]:
    if isinstance(node.direction, str):
        return FrozenDict(dict.fromkeys(names.universe.tensors, str(node.direction)))
    directions = {t: str(value) for t, value in by_set(node.direction, names, names.universe).items()}
    for tensor in names.universe.tensors:
        if tensor not in directions:
            raise SpecError(
                f"direction of {node.name} does not say where tensor {tensor} goes; add Other: …",
                next(iter(node.direction), node.name),
            )
    return FrozenDict(directions)


def _checked(owner: object, field_name: str, names: EinsumNames, entry: Value | None = None) -> int | float:
    """The number of a field, or of an entry of its table, if the field can have it. Plain numbers were checked when read."""
    value: Value = getattr(owner, field_name) if entry is None else entry
    if not isinstance(value, str):
        return value
    result = number(value, names, field_name)
    kind: Any = type(owner)
    limits = fields_of(kind)[field_name].limits
    wrong = limits.complaint(field_name, result) if limits else None
    if wrong:
        raise SpecError(wrong, value)
    return result
