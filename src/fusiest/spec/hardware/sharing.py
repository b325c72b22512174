"""What a spec takes over from another one that differs in a few figures, as the designs of a sweep do: nodes that are the same
are not evaluated again.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

from fusiest.spec.hardware import architecture as arch
from fusiest.spec.hardware.binding import bind_all
from fusiest.spec.spec import Spec

_WORD = re.compile(r"[^\W\d]\w*")
_PLACED = ("tensors", "spatial")
"""Fields that say what is where; all others but `name` are figures, or what figures depend on."""


def share_bound(spec: Spec, other: Spec) -> None:
    """Let a spec take over what is known of the nodes that it shares with a checked one of the same workload.

    A node's figures depend on itself, on the Einsum, on variables, classes and attributes for all, and on components that it or a
    variable names. So a node that names none is, evaluated, the same if these are.
    """
    around = _around(spec)
    if spec.info is not other.info or around != _around(other) or not other.bound:
        return
    nodes, other_nodes = (list(arch.flatten(side.require_arch().nodes)) for side in (spec, other))
    names = frozenset(str(node.name) for node in nodes)
    if any(names & set(_WORD.findall(text)) for text in _texts(around[:3])):
        return
    other_ids = {id(node) for node in other_nodes}
    alike = [str(node.name) for node in nodes if id(node) in other_ids and not names & _words(node)]
    bound = {einsum: {name: by_name[name] for name in alike} for einsum, by_name in other.bound.items()}
    spec.take_bound(bound, len(nodes) == len(other_nodes) and all(map(_placed_alike, nodes, other_nodes)))


def without_energy(spec: Spec) -> Spec:
    """The same spec in which nothing takes energy: of its mappings, only the fastest are better than others."""

    def free(node: arch.Container) -> arch.Container:
        if isinstance(node, arch.Component):
            return dataclasses.replace(node, energy_scale=0, leak_power_scale=0)
        return node

    architecture = spec.require_arch()
    nodes = arch.rewritten(architecture.nodes, free)
    return dataclasses.replace(spec, arch=dataclasses.replace(architecture, nodes=nodes)).sharing_info(spec)


def with_nodes_of(spec: Spec, other: Spec) -> Spec:
    """Make a spec share with another one the nodes that are equal."""
    by_name = {str(node.name): node for node in arch.flatten(other.require_arch().nodes)}

    def shared(node: arch.Container) -> arch.Container:
        counterpart = by_name.get(str(node.name))
        if counterpart is not None and counterpart == node:
            return counterpart
        return _with_parts_of(node, counterpart)

    architecture = spec.require_arch()
    nodes = arch.rewritten(architecture.nodes, shared)
    sharing = dataclasses.replace(spec, arch=dataclasses.replace(architecture, nodes=nodes))
    return sharing.came_from(spec.origin) if spec.origin is not None else sharing


def _with_parts_of(node: arch.Container, other: arch.Container | None) -> arch.Container:
    if type(node) is not type(other):
        return node
    equal_parts = {f: getattr(other, f) for f in _PLACED if hasattr(node, f) and getattr(node, f) == getattr(other, f)}
    return dataclasses.replace(node, **equal_parts)


def bind_everything(spec: Spec) -> None:
    """Evaluate what was not taken over, so that the next spec can take it over."""
    for info in spec.info.einsums.values():
        bind_all(spec, info)


def _around(spec: Spec) -> tuple[object, ...]:
    architecture = spec.require_arch()
    return spec.variables, architecture.variables, architecture.attributes, spec.component_classes


def _placed_alike(node: arch.Container, other: arch.Container) -> bool:
    alike = node.name == other.name and type(node) is type(other)
    return alike and all(getattr(node, name, None) is getattr(other, name, None) for name in _PLACED)


def _words(node: arch.Container) -> frozenset[str]:
    """All words in a node's fields but its name, its class and what it may hold."""
    words: set[str] = set()
    for field in dataclasses.fields(node):
        if field.name not in ("name", "component_class", "tensors"):
            for text in _texts(getattr(node, field.name)):
                words.update(_WORD.findall(text))
    return frozenset(words)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.items():
            yield from _texts(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _texts(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _texts(getattr(value, field.name))
