"""Component classes that a file describes: attributes, costs as expressions, and parts of other classes.

`compiled` makes them classes like the built-in ones. Nothing is run but expressions, whose steps are counted; parts are
counted, too, and no class may use itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeGuard

from fusiest.base.errors import SpecError
from fusiest.base.frozen import FrozenDict
from fusiest.spec.language import fields as f
from fusiest.spec.language.allowed_names import circle, repeated
from fusiest.spec.language.expressions import Record, VariableError, number
from fusiest.spec.language.fields import FieldError, NameText, Reader, Value
from fusiest.spec.language.variables import SpecVariable, VariableValue, read_variable, value_of
from fusiest.spec.reading.yamlfile import MapNode, YamlNode

if TYPE_CHECKING:
    from fusiest.components import ActionCost, Attribute, Attributes, AttributeValue, ComponentClass, Figures

MOST_PARTS = 50
MOST_ESTIMATES = 1_000
"""Most estimates of parts, and parts of parts, for one component."""
REQUIRED = "required"
NODE_RANGE = (5e-9, 180e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassAttribute:
    """`required`, or the default alone, is enough; as a table it may say more."""

    default: Annotated[
        SpecVariable | None, "Its value where a component gives none: also an expression of other attributes."
    ] = None
    meaning: Annotated[str, "What it is."] = ""
    unit: Annotated[str, "Its unit."] = ""
    low: Annotated[Value, Reader(f.read_value, "number"), "The least value."] = -math.inf
    high: Annotated[Value, Reader(f.read_value, "number"), "The largest value."] = math.inf

    @property
    def required(self) -> bool:
        return self.default is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassAction:
    """What a component of the class does."""

    name: Annotated[
        str, "`read`, `write`, `compute`, `convert`, …; the first one is the main action, which a Toll takes."
    ]
    energy: Annotated[Value, "Joules."] = 0
    throughput: Annotated[Value | None, "Actions per second. Default: 1 / latency, or inf."] = None
    latency: Annotated[Value | None, "Seconds of one action. Default: 1 / throughput."] = None


def _read_attribute(node: YamlNode, what: str) -> ClassAttribute:
    if isinstance(node, MapNode):
        attribute: ClassAttribute = f.read_tagless(node, ClassAttribute, what)
    else:
        attribute = ClassAttribute(default=read_variable(node, what))
    return replace(attribute, default=None) if attribute.default == REQUIRED else attribute


def _read_part(node: YamlNode, what: str) -> FrozenDict[str, VariableValue]:
    part: FrozenDict[str, VariableValue] = f.read_map(node, what, f.read_text, read_variable)
    if not isinstance(part.get("class"), str):
        raise SpecError(f"a part of {what} needs its class: {{class: SRAM, …}}", node.source)
    return part


_ATTRIBUTES = Reader(partial(f.read_map, key=f.read_name, value=_read_attribute), "{name: value, or required}")
_PARTS = Reader(partial(f.read_map, key=f.read_name, value=_read_part), "{name: {class: …, attributes}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenClass:
    """A component class. Expressions may name its attributes, and of a part `p`: `p.area`, `p.leak_power`, `p.read.energy`,
    `p.read.throughput`, `p.read.latency`.
    """

    name: Annotated[NameText, "What `component_class` says."]
    meaning: Annotated[str, "What it is, in a line."] = ""
    attributes: Annotated[FrozenDict[str, ClassAttribute], _ATTRIBUTES, "What it takes."] = field(
        default_factory=FrozenDict
    )
    parts: Annotated[FrozenDict[str, FrozenDict[str, VariableValue]], _PARTS, "Components that it is made of."] = field(
        default_factory=FrozenDict
    )
    variables: Annotated[FrozenDict[NameText, SpecVariable], "Values in between."] = field(default_factory=FrozenDict)
    area: Annotated[Value, "Square metres."] = 0
    leak_power: Annotated[Value, "Watts."] = 0
    actions: Annotated[tuple[ClassAction, ...], "What it does."] = ()
    source: Annotated[str, "Where its figures come from."] = "own estimate"
    error: Annotated[str, "How far from its source it may be."] = ""

    def __post_init__(self) -> None:
        if not self.actions:
            raise FieldError("name", f"class {self.name} has no actions")
        if len(self.parts) > MOST_PARTS:
            raise FieldError("parts", f"class {self.name} has more than {MOST_PARTS} parts")
        name = repeated([*self.attributes, *self.parts, *self.variables])
        if name is not None:
            raise FieldError("name", f"class {self.name} says twice what {name} is", name)


def compiled(entries: Iterable[WrittenClass], group: str = "Own") -> dict[str, ComponentClass]:
    """Classes by their `key`; one may use others of the same file, library classes and built-in ones."""
    classes: dict[str, ComponentClass] = {}
    listed = list(entries)
    if not listed:
        return classes
    from fusiest.components import find_class, key  # most specs have no classes of their own

    for written in listed:
        if key(written.name) in classes:
            raise SpecError(f"two component classes are named {written.name}", written.name)
        classes[key(written.name)] = _class(written, classes, group)
    by_key, checked = {key(written.name): written for written in listed}, set[str]()
    for written in listed:
        _check_parts(written, by_key, (), checked)
        for part in written.parts.values():
            find_class(str(part["class"]), classes)
    return classes


def _class(written: WrittenClass, classes: Mapping[str, ComponentClass], group: str) -> ComponentClass:
    from fusiest.components import ComponentClass

    attributes = tuple(_attribute(name, declared) for name, declared in written.attributes.items())
    return ComponentClass(
        name=str(written.name),
        group=group,
        meaning=written.meaning or "a class of a file",
        attributes=attributes,
        actions=tuple(str(action.name) for action in written.actions),
        source=written.source,
        cost=partial(_cost, written, classes),
        formula="; ".join(f"{action.name}: {action.energy} J" for action in written.actions),
        error=written.error,
        moves_bits="width" in written.attributes,
    )


def _attribute(name: str, declared: ClassAttribute) -> Attribute:
    from fusiest.components import Attribute

    low, high = (number(v, {}, name) for v in (declared.low, declared.high))
    if name == "tech_node":
        low, high = max(low, NODE_RANGE[0]), min(high, NODE_RANGE[1])
    default = declared.default if isinstance(declared.default, (int, float, bool)) else None
    return Attribute(
        name,
        declared.meaning,
        declared.unit,
        low,
        high,
        default,
        declared.required,
        zero=True,
        anything=name != "tech_node",
    )


def _check_parts(
    written: WrittenClass, by_key: Mapping[str, WrittenClass], users: tuple[str, ...], checked: set[str]
) -> None:
    """No class may lead back to itself."""
    from fusiest.components import key

    if written.name in users:
        raise SpecError(f"component class {circle(users, str(written.name))}", written.name)
    if len(users) > MOST_PARTS:
        raise SpecError(f"component classes use each other more than {MOST_PARTS} deep", written.name)
    for part in written.parts.values() if written.name not in checked else ():
        inner = by_key.get(key(str(part["class"])))
        if inner is not None:
            _check_parts(inner, by_key, (*users, str(written.name)), checked)
    checked.add(written.name)


_ESTIMATES_LEFT: ContextVar[list[int] | None] = ContextVar("parts_left", default=None)
"""How many parts may still be estimated for the component at hand."""


def _cost(written: WrittenClass, classes: Mapping[str, ComponentClass], attributes: Attributes) -> Figures:
    """The costs of a component of a written class."""
    from fusiest.components import Figures

    token = _ESTIMATES_LEFT.set([MOST_ESTIMATES]) if _ESTIMATES_LEFT.get() is None else None
    try:
        scope = _Scope(written, classes, attributes)
        actions = {str(action.name): _action(written, action, scope) for action in written.actions}
        area, leak = (
            number(getattr(written, name), scope, f"{name} of {written.name}") for name in ("area", "leak_power")
        )
        chosen = {name: scope[name] for name in written.attributes if name not in attributes}
        return Figures(actions, area, leak, tuple(scope.notes), {n: v for n, v in chosen.items() if _is_value(v)})
    finally:
        if token is not None:
            _ESTIMATES_LEFT.reset(token)


def _action(written: WrittenClass, action: ClassAction, scope: _Scope) -> ActionCost:
    from fusiest.components import ActionCost

    def figure(name: str) -> float | None:
        value = getattr(action, name)
        return None if value is None else number(value, scope, f"{name} of {action.name} of {written.name}")

    energy, throughput, latency = figure("energy") or 0.0, figure("throughput"), figure("latency")
    if throughput is None:
        throughput = 1 / latency if latency else math.inf
    return ActionCost(energy, throughput, 1 / throughput if latency is None and throughput else latency or 0.0)


def _is_value(value: object) -> TypeGuard[AttributeValue]:
    return isinstance(value, (int, float, str, bool, tuple))


class _Scope(Mapping[str, object]):
    """What the expressions of a class may name: attributes, variables and parts, each evaluated when it is first named."""

    def __init__(self, written: WrittenClass, classes: Mapping[str, ComponentClass], attributes: Attributes) -> None:
        self.written, self.classes = written, classes
        self.notes: dict[str, None] = {}
        defaults = {name: a.default for name, a in written.attributes.items() if a.default is not None}
        self.texts: dict[str, VariableValue] = {**defaults, **written.variables}
        self.resolved: dict[str, object] = dict(attributes)
        self.known = {**self.resolved, **self.texts, **written.parts}
        self.open: list[str] = []

    def __getitem__(self, name: str) -> object:
        if name not in self.resolved:
            if name in self.open:
                raise VariableError(f"class {self.written.name}: {circle(self.open, name)}", self.written.name)
            self.open.append(name)
            try:
                self.resolved[name] = (
                    self._part(name) if name in self.written.parts else value_of(self.texts[name], self)
                )
            finally:
                self.open.pop()
        return self.resolved[name]

    def _part(self, name: str) -> Record:
        from fusiest.components import find_class

        estimates_left = _ESTIMATES_LEFT.get()
        assert estimates_left is not None
        estimates_left[0] -= 1
        if estimates_left[0] < 0:
            raise VariableError(
                f"class {self.written.name} has more than {MOST_ESTIMATES} parts of parts", self.written.name
            )
        part = self.written.parts[name]
        attributes = {attribute: value_of(value, self) for attribute, value in part.items() if attribute != "class"}
        try:
            estimate = find_class(str(part["class"]), self.classes).estimate(attributes)
        except SpecError as error:
            raise VariableError(f"part {name} of {self.written.name}: {error.message}", self.written.name) from None
        self.notes.update(dict.fromkeys(estimate.notes))
        actions = {
            action: Record({"energy": cost.energy, "throughput": cost.throughput, "latency": cost.latency})
            for action, cost in estimate.actions.items()
        }
        return Record({"area": estimate.area, "leak_power": estimate.leak_power, **actions})

    def __contains__(self, name: object) -> bool:
        return name in self.known

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)
