"""The parameters of a sweep: lists of values, ranges, and what follows from others, as `equal` or an `expression`.

A parameter that has values of its own is free; the others follow. Free ones are never multiplied out: a grid of designs is the
numbers from 0 up, each read as one digit per free parameter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fusiest.base.errors import Located, SpecError, did_you_mean, shown
from fusiest.base.units import quantity, read_quantity
from fusiest.show import bits, si
from fusiest.spec import (
    CONSTANTS,
    Attributed,
    ListNode,
    MapNode,
    Record,
    ScalarNode,
    YamlNode,
    describe,
    evaluate_expression,
    known_fields,
    names_in,
    no_tag,
    parse_expression,
    read_text,
)

ParameterValue: TypeAlias = int | float | str | bool
MOST_VALUES = 1_000_000
"""Most values of one parameter."""
SCALES = ("linear", "log2", "log10")
_CLOSE = 1e-9
_MANY = 1e6
_FIELD_UNITS = {"size": "bit", "throughput": "/s", "energy": "J", "latency": "s", "leak_power": "W", "area": "m²"}
_LARGEST = 1e150
"""End of a range: so large, differences and ratios are still numbers."""


@dataclass(frozen=True)
class FreeParameter:
    """A parameter with values of its own."""

    name: str
    values: tuple[ParameterValue, ...]


@dataclass(frozen=True)
class TiedParameter:
    """A parameter that follows from others: the text of an expression."""

    name: str
    text: str

    @property
    def uses(self) -> frozenset[str]:
        """Names of other parameters, as the expression has them: `GlobalBuffer.size` is there by its first word."""
        return names_in(self.text) - set(CONSTANTS)


class DesignGrid:
    """All combinations of the free parameters' values, by number; the last parameter changes first.

    >>> grid = DesignGrid([FreeParameter("A", (1, 2)), FreeParameter("B", (5, 6, 7)), TiedParameter("C", "A + B")])
    >>> len(grid), grid[4]
    (6, {'A': 2, 'B': 6, 'C': 8})
    """

    def __init__(self, parameters: Sequence[FreeParameter | TiedParameter]) -> None:
        self.names = [p.name for p in parameters]
        self.free = [p for p in parameters if isinstance(p, FreeParameter)]
        self.tied = _in_order([p for p in parameters if isinstance(p, TiedParameter)], self.names)
        self.size = math.prod(len(p.values) for p in self.free)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, number: int) -> dict[str, ParameterValue]:
        """The design with this number."""
        values: dict[str, ParameterValue] = {}
        for parameter in reversed(self.free):
            number, digit = divmod(number, len(parameter.values))
            values[parameter.name] = parameter.values[digit]
        for tied in self.tied:
            values[tied.name] = _value(tied, values)
        return {name: values[name] for name in self.names}


def _value(tied: TiedParameter, values: Mapping[str, ParameterValue]) -> ParameterValue:
    result = evaluate_expression(tied.text, named(values))
    if not isinstance(result, (int, float, str)):
        raise SpecError(f"parameter {tied.name}: '{shown(tied.text)}' is neither a number nor text", tied.text)
    return result


def number_of_value(value: object) -> float | None:
    """A parameter's value as a number, its unit taken in; None if it is a mere word.

    >>> number_of_value(64), number_of_value("1 KiB"), number_of_value("flat")
    (64.0, 8192.0, None)
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return quantity(value) if isinstance(value, str) else None


def in_order(value: object) -> tuple[bool, float, str]:
    """For sorting values: numbers, with units or without, then words."""
    number = number_of_value(value)
    return number is None, number or 0.0, str(value)


def with_unit(name: str, values: Sequence[object]) -> tuple[str, Sequence[object]]:
    """A column of values: quantities of one kind as numbers, with their unit in the column's name.

    >>> with_unit("Buffer.size", ["128 KiB", "1 MiB"])
    ('Buffer.size (B)', [131072.0, 1048576.0])
    >>> with_unit("Rows", [4, 8])
    ('Rows', [4, 8])
    """
    read = [read_quantity(value) if isinstance(value, str) else None for value in values]
    units = {found.unit.dimension if found is not None else "" for found in read}
    if len(units) != 1 or "" in units:
        return name, values
    unit = units.pop()
    shown_unit, scale = (unit.replace("bit", "B", 1), 0.125) if unit.startswith("bit") else (unit, 1.0)
    return f"{name} ({shown_unit})", [scale * found.value for found in read if found is not None]


def unit_of(name: str, value: object) -> str:
    """The unit of a parameter's value: what its text says, or what its field counts; empty if neither is known.

    >>> unit_of("Buffer.size", 8192), unit_of("DRAM.read.throughput", 1e9), unit_of("ROWS", "64 KiB"), unit_of("ROWS", 4)
    ('bit', '/s', 'bit', '')
    """
    if isinstance(value, str):
        read = read_quantity(value)
        return read.unit.dimension if read is not None else ""
    return _FIELD_UNITS.get(name.rpartition(".")[2], "") if "." in name else ""


def value_text(name: str, value: object) -> str:
    """A parameter's value with its unit, as people read it.

    >>> value_text("Buffer.size", 8192), value_text("DRAM.read.throughput", 1e11), value_text("ROWS", 1e12)
    ('1 KiB', '100 G/s', '1 T')
    """
    if isinstance(value, (str, bool)) or not isinstance(value, (int, float)):
        return str(value)
    unit = unit_of(name, value)
    if unit == "bit":
        return bits(value)
    if unit or abs(value) >= _MANY:
        return si(value, unit).rstrip()
    return f"{value:.6g}" if isinstance(value, float) else f"{value:,}"


def named(values: Mapping[str, object]) -> dict[str, object]:
    """Parameters as expressions name them: `GlobalBuffer.size` is the attribute `size` of `GlobalBuffer`.

    >>> evaluate_expression("2 * Buffer.size", named({"Buffer.size": 4}))
    8
    """
    tree: dict[str, object] = {}
    for name, value in values.items():
        *owners, last = name.split(".")
        place = tree
        for owner in owners:
            inner = place.setdefault(owner, {})
            if not isinstance(inner, dict):
                raise SpecError(f"parameter {name}: {owner} is a parameter itself")
            place = inner
        place[last] = value
    return {name: _record(value) for name, value in tree.items()}


def _record(value: object) -> object:
    return Record({name: _record(inner) for name, inner in value.items()}) if isinstance(value, dict) else value


def _in_order(tied: Sequence[TiedParameter], names: Sequence[str]) -> list[TiedParameter]:
    """Each after those that it uses. A circle is an error."""
    heads: dict[str, list[str]] = {}
    for name in names:
        heads.setdefault(name.split(".")[0], []).append(name)
    by_name = {p.name: p for p in tied}
    ordered: dict[str, None] = {}

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            circle = " uses ".join([*above[above.index(name) :], name])
            raise SpecError(f"parameter {circle}: it has no value", by_name[name].text)
        if name in ordered or name not in by_name:
            return
        for used in sorted(by_name[name].uses):
            if used not in heads:
                raise SpecError(
                    f"parameter {name}: there is no parameter '{used}'{did_you_mean(used, heads)}", by_name[name].text
                )
            for other in heads[used]:
                if other != name or "." not in name:
                    visit(other, (*above, name))
        ordered[name] = None

    for p in tied:
        visit(p.name, ())
    return [by_name[name] for name in ordered]


def read_parameter(name: str, node: YamlNode) -> FreeParameter | TiedParameter:
    """A value, a list, `{range: [from, to], scale: …, steps: …}`, `{equal: NAME}` or `{expression: …}`."""
    what = f"parameter {name}"
    no_tag(node, what)
    if isinstance(node, ScalarNode):
        return FreeParameter(name, (_scalar(node, what),))
    if isinstance(node, ListNode):
        if not node.items:
            raise SpecError(f"{what} has no values", node.source)
        values = tuple(_scalar(item, what) for item in node.items)
        if len(set(values)) < len(values):
            twice = next(v for i, v in enumerate(values) if v in values[:i])
            raise SpecError(f"{what} lists {shown(twice)} twice", node.source)
        return FreeParameter(name, values)
    fields = known_fields(node, what, ("range", "scale", "steps", "step", "equal", "expression"))
    kinds = [kind for kind in ("range", "equal", "expression") if kind in fields]
    if len(kinds) != 1:
        raise SpecError(f"{what} needs one of range, equal, expression", node.source)
    if kinds == ["range"]:
        return FreeParameter(name, _range(node, fields, what))
    if len(fields) > 1:
        extra = next(field for field in fields if field != kinds[0])
        raise SpecError(f"{what}: '{extra}' belongs to a range", fields[extra].source)
    text = Located(str(_scalar(fields[kinds[0]], what)), fields[kinds[0]].source)
    parse_expression(text)
    return TiedParameter(name, text)


def _scalar(node: YamlNode, what: str) -> ParameterValue:
    no_tag(node, what)
    if not isinstance(node, ScalarNode) or node.value is None:
        raise SpecError(f"{what}: a value must be a number, true, false or text, but is {describe(node)}", node.source)
    return node.value


def _range(node: MapNode | YamlNode, fields: Mapping[str, YamlNode], what: str) -> tuple[ParameterValue, ...]:
    ends = fields["range"]
    if not isinstance(ends, ListNode) or len(ends.items) != 2:
        raise SpecError(f"{what}: a range is [from, to]", ends.source)
    low, high = (_number(end, what) for end in ends.items)
    if low > high:
        raise SpecError(f"{what}: the range from {low} to {high} is empty", ends.source)
    scale = read_text(fields["scale"], "scale") if "scale" in fields else "linear"
    if scale not in SCALES:
        raise SpecError(
            f"{what}: scale '{shown(scale)}' is none of {', '.join(SCALES)}{did_you_mean(scale, SCALES)}", scale
        )
    if scale != "linear" and low * _LARGEST < 1:
        raise SpecError(f"{what}: a range on a {scale} scale begins above 0", ends.source)
    if max(abs(low), abs(high)) > _LARGEST:
        raise SpecError(f"{what}: a range goes to {_LARGEST:g} at most", ends.source)
    steps = _number(fields["steps"], f"{what}: steps") if "steps" in fields else None
    step = _number(fields["step"], f"{what}: step") if "step" in fields else None
    if steps is not None and (step is not None or steps != int(steps) or steps < 1):
        raise SpecError(f"{what}: steps is a whole number of at least 1, in place of step", fields["steps"].source)
    if step is not None and (step <= 0 or scale != "linear"):
        raise SpecError(f"{what}: step is a positive number, for a linear scale", fields["step"].source)
    if steps is None and step is None and scale == "linear":
        raise SpecError(f"{what}: a range needs steps, step, or scale: log2", node.source)
    count = int(steps) if steps is not None else _count(low, high, scale, step)
    if count > MOST_VALUES:
        raise SpecError(f"{what} has {count:,} values; it may have {MOST_VALUES:,}", node.source)
    return tuple(dict.fromkeys(_whole(v) for v in _points(low, high, scale, count, step)))


def _number(node: YamlNode, what: str) -> int | float:
    value = _scalar(node, what)
    if isinstance(value, (bool, str)) or not -math.inf < value < math.inf:
        raise SpecError(f"{what} must be a finite number, but is {describe(node)}", node.source)
    return value


def _count(low: float, high: float, scale: str, step: float | None) -> int:
    """How many steps fit, the first included."""
    if scale == "linear":
        assert step is not None
        return math.floor(min((high - low) / step, 1e18) + _CLOSE) + 1
    return math.floor(math.log(high / low, 2 if scale == "log2" else 10) + _CLOSE) + 1


def _points(low: float, high: float, scale: str, count: int, step: float | None) -> Iterator[float]:
    if count == 1:
        yield low
    elif scale == "linear":
        width = step if step is not None else (high - low) / (count - 1)
        yield from (low + width * i for i in range(count))
    elif _count(low, high, scale, None) == count:
        yield from (low * (2 if scale == "log2" else 10) ** i for i in range(count))
    else:
        ratio = math.log(high / low)
        yield from (low * math.exp(ratio * i / (count - 1)) for i in range(count))


def _whole(value: float) -> int | float:
    """A number that is whole but for rounding, as a whole number."""
    nearest = round(value)
    return nearest if abs(value - nearest) <= _CLOSE * max(1, abs(value)) else value


class Figure(float, Attributed):
    """A number that also has parts: `area` and `area.GlobalBuffer`, `latency` and `latency.resnet50`.

    >>> evaluate_expression("area - area.Buffer", {"area": Figure(5, {"Buffer": 2})})
    3.0
    """

    parts: Mapping[str, float]

    def __new__(cls, value: float, parts: Mapping[str, float]) -> Figure:
        figure = super().__new__(cls, value)
        figure.parts = parts
        return figure

    def __reduce__(self) -> tuple[type[Figure], tuple[float, Mapping[str, float]]]:
        return Figure, (float(self), self.parts)

    @property
    def described(self) -> str:
        return "a figure"

    def attribute(self, name: str) -> object:
        """The figure's part of that name."""
        if name not in self.parts:
            raise SpecError(f"no part '{name}'{did_you_mean(name, self.parts)}")
        return self.parts[name]
