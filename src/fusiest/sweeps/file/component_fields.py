"""Fields of components by name: `Component.field`, `Component.action.field`, `Component.dimension.field`. And defines that only stand
for such fields: then a machine is another one with other fields, and its template need not be read again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fusiest.base.errors import Source, SpecError, did_you_mean
from fusiest.spec import Spec, inner_item, plain_scalar
from fusiest.spec import architecture as arch
from fusiest.sweeps.file.parameters import ParameterValue


def _words(name: str) -> list[str]:
    words = name.split(".")
    if len(words) not in (2, 3):
        raise SpecError(
            f"parameter {name}: say Component.field, Component.action.field or Component.dimension.field", name
        )
    return words


def _owner(machine: Spec, name: str) -> arch.Container:
    component = _words(name)[0]
    nodes = {str(node.name): node for node in arch.flatten(machine.require_arch().nodes)}
    if component not in nodes:
        raise SpecError(f"parameter {name}: there is no component {component}{did_you_mean(component, nodes)}", name)
    return nodes[component]


def _inner(owner: arch.Container, name: str) -> tuple[str, list[Any], int]:
    """The action or dimension that a name of three parts is about."""
    try:
        return inner_item(owner, _words(name)[1])
    except SpecError as error:
        raise SpecError(f"parameter {name}: {error.message}", name) from None


def field_of(machine: Spec, name: str) -> object:
    """What a machine has there."""
    owner: Any = _owner(machine, name)
    *_, last = words = _words(name)
    if len(words) == 3:
        _, items, index = _inner(owner, name)
        owner = items[index]
    names = [f.name for f in dataclasses.fields(owner)]
    if last not in names:
        raise SpecError(f"parameter {name}: there is no field {last}{did_you_mean(last, names)}", name)
    return getattr(owner, last)


def with_field(machine: Spec, name: str, value: ParameterValue) -> Spec:
    """The machine with another value of one field."""
    field_of(machine, name)
    words = _words(name)
    if words[-1] == "name":
        raise SpecError(f"parameter {name}: names are no parameters, as mappings speak of them", name)
    try:
        return machine.with_component(words[0], **{".".join(words[1:]): value})
    except SpecError as error:
        in_a_file = error.source is not None and error.source.line > 0
        raise SpecError(f"parameter {name}: {error.message}", error.source if in_a_file else name) from None


# --- defines that stand for fields ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StandsFor:
    """A field that is a define's value between two texts, which may be empty."""

    field: str
    before: str
    after: str

    def value(self, define: ParameterValue) -> ParameterValue:
        """The field, as a file would have it."""
        scalar = plain_scalar(f"{self.before}{define}{self.after}", Source("", 0))
        assert scalar is not None
        return scalar


def stands_for(first: Spec, second: Spec, values: Sequence[ParameterValue]) -> list[StandsFor] | None:
    """The fields that a define is written into, from two machines which differ in its value; None if they differ in more.

    The template must do nothing with the define but write it.
    """
    nodes = [list(arch.flatten(machine.require_arch().nodes)) for machine in (first, second)]
    if [(type(n), n.name) for n in nodes[0]] != [(type(n), n.name) for n in nodes[1]]:
        return None
    stands = []
    for name in _fields_that_differ(*nodes):
        texts = [field_of(machine, name) for machine in (first, second)]
        ways = [way for way in _ways(name, str(texts[0]), str(values[0])) if _is_so(way, texts, values)]
        if len(ways) != 1:
            return None
        stands += ways
    changed = first
    for way in stands:
        changed = with_field(changed, way.field, way.value(values[1]))
    return stands if changed == second else None


def _fields_that_differ(first: Sequence[arch.Container], second: Sequence[arch.Container]) -> Iterator[str]:
    for a, b in zip(first, second, strict=True):
        for field in dataclasses.fields(a):
            value, other_value = getattr(a, field.name), getattr(b, field.name)
            if field.name not in ("actions", "spatial"):
                yield from [f"{a.name}.{field.name}"] if value != other_value else []
                continue
            for item, other_item in zip(value, other_value, strict=False):
                names = [
                    f.name for f in dataclasses.fields(item) if getattr(item, f.name) != getattr(other_item, f.name)
                ]
                yield from (f"{a.name}.{item.name}.{name}" for name in names)


def _ways(name: str, text: str, value: str) -> Iterator[StandsFor]:
    """All ways in which a text may be a value between two others."""
    at = text.find(value)
    while at >= 0:
        yield StandsFor(name, text[:at], text[at + len(value) :])
        at = text.find(value, at + 1)


def _is_so(way: StandsFor, texts: Sequence[object], values: Sequence[ParameterValue]) -> bool:
    scalars = [way.value(value) for value in values]
    return all(a == b and isinstance(b, type(a)) for a, b in zip(scalars, texts, strict=True))
