"""Specs with a part exchanged, for `Spec.with_…`: values are read and checked as if a file had them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from fusiest.base.errors import Located, Source, SpecError, check_known, did_you_mean
from fusiest.base.frozen import FrozenDict
from fusiest.spec.hardware import architecture as arch
from fusiest.spec.hardware.actions import Action
from fusiest.spec.language.affine import Constraint
from fusiest.spec.language.fields import FieldError, Value, fields_of
from fusiest.spec.reading.yamlfile import ListNode, MapNode, ScalarNode, YamlNode
from fusiest.spec.workload.einsums import read_einsum

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from fusiest.spec.spec import Spec

T = TypeVar("T", bound="DataclassInstance")


def with_component(spec: Spec, name: str, fields: Mapping[str, object]) -> Spec:
    """Other fields of one component; `read.throughput` is a field of an action, `X.fanout` one of a dimension."""
    architecture = spec.require_arch()
    names = [str(node.name) for node in arch.flatten(architecture.nodes)]
    check_known(name, names, f"the architecture has no component {name}")
    plain = {field: value for field, value in fields.items() if "." not in field}

    def changed(node: Any) -> Any:
        if node.name != name:
            return node
        node = edited(node, name, plain)
        for field, value in fields.items():
            if "." in field:
                node = _with_inner(node, field, value)
        return node

    return replace(spec, arch=replace(architecture, nodes=arch.rewritten(architecture.nodes, changed)))


def inner_item(owner: arch.Container, inner: str) -> tuple[str, list[Any], int]:
    """The field that lists an action or a dimension (`actions` or `spatial`), all items of it, and the place among them.

    The items include the actions that a component has by its kind and does not list.
    """
    listed = list(getattr(owner, "actions", ()))
    unlisted = [item for item in getattr(owner, "ACTIONS", ()) if item not in {str(action.name) for action in listed}]
    actions = listed + [Action(name=item) for item in unlisted]
    places: dict[str, tuple[str, list[Any], int]] = {
        str(item.name): ("actions", actions, i) for i, item in enumerate(actions)
    }
    places |= {str(item.name): ("spatial", list(owner.spatial), i) for i, item in enumerate(owner.spatial)}
    if inner not in places:
        raise SpecError(f"{owner.name} has no action or dimension {inner}{did_you_mean(inner, places)}")
    return places[inner]


def _with_inner(node: Any, field: str, value: object) -> Any:
    """A component with another field of one of its actions or dimensions."""
    inner, _, last = field.partition(".")
    place, items, index = inner_item(node, inner)
    items[index] = edited(items[index], f"{node.name}.{inner}", {last: value})
    listed = getattr(node, place)
    changed = [item for item in items if place == "spatial" or item is items[index] or item in listed]
    return edited(node, str(node.name), {place: tuple(changed)})


def with_einsum(spec: Spec, name: str, fields: Mapping[str, object]) -> Spec:
    """Other fields of one Einsum; or one more Einsum, if `einsum` or `tensor_accesses` say what it is."""
    workload = spec.require_workload()
    einsums = {str(einsum.name): einsum for einsum in workload.einsums}
    values = dict(fields)
    text = values.pop("einsum", None)
    if text is not None:
        new = read_einsum(_node({"name": name, "einsum": text, **values}, name), "einsum")
    elif name in einsums:
        new = edited(einsums[name], name, values)
    elif "tensor_accesses" in values:
        new = read_einsum(_node({"name": name, **values}, name), "einsum")
    else:
        raise SpecError(f"the workload has no Einsum {name}{did_you_mean(name, einsums)}; a new one needs 'einsum'")
    return replace(spec, workload=replace(workload, einsums=tuple({**einsums, name: new}.values())))


def with_rank_size(spec: Spec, rank: str, size: Value) -> Spec:
    """Another size of one rank, or of the rank variable that alone indexes it, wherever the workload says it."""
    workload = spec.require_workload()
    tables = [workload.rank_sizes, *(einsum.rank_sizes for einsum in workload.einsums)]
    if any(rank in table for table in tables):

        def resized(sizes: FrozenDict[str, Value]) -> FrozenDict[str, Value]:
            return FrozenDict({**sizes, rank: size}) if rank in sizes else sizes

        return _everywhere(spec, "rank_sizes", resized)
    least = {v: info.least[v] for info in spec.info.einsums.values() for v in info.bounds}
    ranks = {
        str(name): next(iter(index.variables))
        for einsum in workload.einsums
        for access in einsum.tensor_accesses
        for name, index in access.projection.items()
        if len(index.variables) == 1
    }
    variable = rank if rank in least else ranks.get(rank, "")
    shapes = [workload.iteration_space_shape, *(einsum.iteration_space_shape for einsum in workload.einsums)]
    if not any(constraint.variables == {variable} for shape in shapes for constraint in shape):
        sized = {*(name for table in tables for name in table), *least}
        hint = did_you_mean(rank, sized) or f"; it has sizes of {', '.join(sorted(map(str, sized)))}"
        raise SpecError(f"the workload gives no size of {rank}{hint}")
    if isinstance(size, str):
        raise SpecError(f"{rank}: bounds of rank variables are whole numbers, not expressions")
    low = least[variable]
    bounds = Constraint(f"{low} <= {variable} < {low + size}")

    def bounded(shape: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
        others = tuple(constraint for constraint in shape if constraint.variables != {variable})
        return shape if len(others) == len(shape) else (*others, bounds)

    return _everywhere(spec, "iteration_space_shape", bounded)


def _everywhere(spec: Spec, field: str, change: Callable[[Any], Any]) -> Spec:
    """A field changed in the workload and in each of its Einsums."""
    workload = spec.require_workload()

    def changed(owner: Any) -> Any:
        return replace(owner, **{field: change(getattr(owner, field))})

    try:
        return replace(
            spec, workload=replace(changed(workload), einsums=tuple(changed(einsum) for einsum in workload.einsums))
        )
    except FieldError as error:
        raise SpecError(error.message) from None


def with_defines(spec: Spec, defines: Mapping[str, object]) -> Spec:
    """The files loaded again, with other values of defines."""
    from fusiest.spec.reading.loading import load

    origin = spec.origin
    if origin is None or not origin.inputs:
        raise SpecError(
            "defines fill in files: this spec was made or changed in Python; set defines first, then change it"
        )
    names = {*origin.values, *origin.defines}
    for name in defines:
        check_known(name, names, f"the files have no define {name}")
    inputs: tuple[Any, ...] = origin.inputs
    return load(*inputs, defines={**origin.defines, **defines})


def edited(owner: T, name: str, fields: Mapping[str, object]) -> T:
    """Change fields of an object: to objects as they are, or to plain values as a file would have them."""
    kind: Any = type(owner)
    declared = fields_of(kind)
    for field in fields:
        check_known(field, declared, f"{name} has no field '{field}'")
    values = {
        field: value if value is None or _is_object(value) else declared[field].reader.read(_node(value, name), field)
        for field, value in fields.items()
    }
    try:
        return replace(owner, **values)
    except FieldError as error:
        raise SpecError(f"{name}: {error.message}") from None


def _is_object(value: object) -> bool:
    """Whether it is what a reader makes, rather than what it reads."""
    if isinstance(value, FrozenDict) or is_dataclass(value):
        return True
    return isinstance(value, tuple) and bool(value) and all(_is_object(item) for item in value)


def _node(value: Any, name: str) -> YamlNode:
    """A Python value as a file would have it."""
    source = Source(name, 0)
    if isinstance(value, Mapping):
        return MapNode(tuple((ScalarNode(str(key), source), _node(item, name)) for key, item in value.items()), source)
    if isinstance(value, str):
        return ScalarNode(Located(value, source), source)
    if isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0:
        return ListNode(tuple(_node(item, name) for item in value), source)
    value = value.item() if hasattr(value, "item") else value
    if not isinstance(value, (int, float, bool)):
        raise SpecError(f"{name}: {type(value).__name__} is no value of a spec")
    return ScalarNode(value, source)
