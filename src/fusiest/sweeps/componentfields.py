"""Fields of components by name: `Component.field`, `Component.action.field`, `Component.dimension.field`. And defines that only stand
for such fields: then a machine is another one with other fields, and its template need not be read again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fusiest.errors import Source, SpecError, did_you_mean
from fusiest.spec import Action, Spec, plain_scalar
from fusiest.spec import architecture as arch
from fusiest.sweeps.parameters import ParameterValue


def _parts(name: str) -> list[str]:
    parts = name.split(".")
    if len(parts) not in (2, 3):
        raise SpecError(
            f"parameter {name}: say Component.field, Component.action.field or Component.dimension.field", name
        )
    return parts


def _owner(machine: Spec, name: str) -> arch.Container:
    component = _parts(name)[0]
    nodes = {str(node.name): node for node in arch.flatten(machine.require_arch().nodes)}
    if component not in nodes:
        raise SpecError(f"parameter {name}: there is no component {component}{did_you_mean(component, nodes)}", name)
    return nodes[component]


def _inner(owner: arch.Container, name: str) -> tuple[str, list[Any], int]:
    """The list (actions or dimensions) that a name of three parts is about, and the place in it. What its class says of an action
    may be left out of the list.
    """
    inner = _parts(name)[1]
    given = list(getattr(owner, "actions", ()))
    more = [one for one in getattr(owner, "ACTIONS", ()) if one not in {str(action.name) for action in given}]
    actions = given + [Action(name=one) for one in more]
    known: dict[str, tuple[str, list[Any], int]] = {
        str(one.name): ("actions", actions, i) for i, one in enumerate(actions)
    }
    known |= {str(one.name): ("spatial", list(owner.spatial), i) for i, one in enumerate(owner.spatial)}
    if inner not in known:
        raise SpecError(
            f"parameter {name}: {owner.name} has no action or dimension {inner}{did_you_mean(inner, known)}", name
        )
    return known[inner]


def field_of(machine: Spec, name: str) -> object:
    """What a machine has there."""
    owner: object = _owner(machine, name)
    *_, last = parts = _parts(name)
    if len(parts) == 3:
        _, items, index = _inner(owner, name)  # type: ignore[arg-type]
        owner = items[index]
    known = [f.name for f in dataclasses.fields(owner)]  # type: ignore[arg-type]
    if last not in known:
        raise SpecError(f"parameter {name}: there is no field {last}{did_you_mean(last, known)}", name)
    return getattr(owner, last)


def with_field(machine: Spec, name: str, value: ParameterValue) -> Spec:
    """The machine with another value of one field."""
    field_of(machine, name)
    owner, parts = _owner(machine, name), _parts(name)
    if len(parts) == 2:
        return machine.with_component(parts[0], **{parts[1]: value})
    place, items, index = _inner(owner, name)
    try:
        items[index] = dataclasses.replace(items[index], **{parts[2]: value})
    except Exception as error:
        raise SpecError(f"parameter {name}: {getattr(error, 'message', error)}", name) from None
    kept = [one for one in items if place == "spatial" or one is items[index] or one in owner.actions]  # type: ignore[attr-defined]
    return machine.with_component(parts[0], **{place: tuple(kept)})


# --- defines that stand for fields ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StandsFor:
    """A field that is a define's value between two texts, which may be empty."""

    field: str
    before: str
    after: str

    def value(self, given: ParameterValue) -> ParameterValue:
        """The field, as a file would have it."""
        found = plain_scalar(f"{self.before}{given}{self.after}", Source("", 0))
        assert found is not None
        return found


def stands_for(one: Spec, other: Spec, values: Sequence[ParameterValue]) -> list[StandsFor] | None:
    """The fields that a define is written into, from two machines which differ in its value; None if they differ in more.

    The template must do nothing with the define but write it.
    """
    nodes = [list(arch.flatten(machine.require_arch().nodes)) for machine in (one, other)]
    if [(type(n), n.name) for n in nodes[0]] != [(type(n), n.name) for n in nodes[1]]:
        return None
    found = []
    for name in _fields_that_differ(*nodes):
        texts = [field_of(machine, name) for machine in (one, other)]
        ways = [way for way in _ways(name, str(texts[0]), str(values[0])) if _is_so(way, texts, values)]
        if len(ways) != 1:
            return None
        found += ways
    changed = one
    for way in found:
        changed = with_field(changed, way.field, way.value(values[1]))
    return found if changed == other else None


def _fields_that_differ(one: Sequence[arch.Container], other: Sequence[arch.Container]) -> Iterator[str]:
    for a, b in zip(one, other, strict=True):
        for field in dataclasses.fields(a):
            mine, theirs = getattr(a, field.name), getattr(b, field.name)
            if field.name not in ("actions", "spatial"):
                yield from [f"{a.name}.{field.name}"] if mine != theirs else []
                continue
            for x, y in zip(mine, theirs, strict=False):
                names = [f.name for f in dataclasses.fields(x) if getattr(x, f.name) != getattr(y, f.name)]
                yield from (f"{a.name}.{x.name}.{name}" for name in names)


def _ways(name: str, text: str, value: str) -> Iterator[StandsFor]:
    """All ways in which a text may be a value between two others."""
    at = text.find(value)
    while at >= 0:
        yield StandsFor(name, text[:at], text[at + len(value) :])
        at = text.find(value, at + 1)


def _is_so(way: StandsFor, texts: Sequence[object], values: Sequence[ParameterValue]) -> bool:
    made = [way.value(value) for value in values]
    return all(a == b and isinstance(b, type(a)) for a, b in zip(made, texts, strict=True))
