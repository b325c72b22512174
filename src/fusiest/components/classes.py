"""What a component class is: its attributes, its actions, and a function from attributes to costs.

Nothing here knows how a class came to be: built in, from a YAML file, or from a plug-in. All figures are SI: joules,
seconds, square metres, watts, bits. An action of a memory or a wire moves `width` bits, any other handles one value.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from fusiest.base.errors import SpecError, check_known, did_you_mean, shown
from fusiest.base.frozen import FrozenDict
from fusiest.base.units import read_quantity

AttributeValue: TypeAlias = int | float | str | bool | tuple[float, ...]
Attributes: TypeAlias = Mapping[str, AttributeValue]

MIN_NODE, MAX_NODE = 5e-9, 180e-9
"""Technology nodes that the scaling laws are good for."""
_DIMENSIONS = {
    "m": ("m",), "V": ("V",), "s": ("s",), "J": ("J",), "F": ("F",), "Ω": ("Ω", "ohm"), "bits": ("bit",), "bit/s": ("bit/s",),
    "1/s": ("Hz", "S/s"),
}  # fmt: skip
"""Quantities that an attribute may have, by its unit. An attribute without a unit, or with another, takes any."""
ROUNDING = 1e-9
"""So near to an end of its range an attribute is at it: 180 * 1e-9 is more than 180e-9."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """What one attribute of a class means, and which values it can have.

    Without a default it is required; a default of None says that the class chooses the value itself.
    """

    name: str
    meaning: str
    unit: str = ""
    low: float = 0.0
    high: float = math.inf
    default: AttributeValue | None = None
    required: bool = False
    whole: bool = False
    zero: bool = False
    """May it be `low` itself?"""
    choices: tuple[str, ...] = ()
    is_list: bool = False
    anything: bool = False
    """Text, true or false and lists will do, too: what it means is up to expressions."""

    @property
    def range(self) -> str:
        """The values it can have, in words."""
        if self.choices:
            return ", ".join(self.choices)
        if self.is_list:
            return "a list of numbers"
        if isinstance(self.default, bool):
            return "true or false"
        if self.low == -math.inf:
            return "any" if self.high == math.inf else f"≤ {self.high:g}"
        low = f"{'≥' if self.zero else '>'} {self.low:g}"
        return low if self.high == math.inf else f"{low}, ≤ {self.high:g}"


@dataclass(frozen=True, slots=True)
class ActionCost:
    """One action: joules, actions per second, and seconds from start to end."""

    energy: float
    throughput: float = math.inf
    latency: float = 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What a class says of one component: its actions, square metres, watts; and how sure it is."""

    actions: Mapping[str, ActionCost]
    area: float = 0.0
    leak_power: float = 0.0
    notes: tuple[str, ...] = ()
    """What was assumed or extrapolated, one line each, starting with that word."""
    resolved: Mapping[str, AttributeValue] = field(default_factory=dict)
    """Attributes that the class chose itself."""


CostFunction: TypeAlias = Callable[[Attributes], Figures]


@dataclass(frozen=True, slots=True)
class ComponentClass:
    """A kind of part: `SRAM`, `ADC`, … A call with attributes gives costs."""

    name: str
    group: str
    """Where it stands in the documentation: Memories, Arithmetic, Converters, Wires, Analog, or a chip's name."""
    meaning: str
    attributes: tuple[Attribute, ...]
    actions: tuple[str, ...]
    """The first one is the main action, which a Toll takes."""
    source: str
    cost: CostFunction
    formula: str = ""
    error: str = ""
    """How far from its source it is expected to be."""
    aliases: tuple[str, ...] = ()
    moves_bits: bool = False
    """Whether an action moves `width` bits; otherwise it handles one value."""

    def attribute(self, name: str) -> Attribute | None:
        return next((a for a in self.attributes if a.name == name), None)

    def check_units(self, texts: Mapping[str, str]) -> None:
        """Refuse quantities, as they are written, of another kind than the attribute: a node of `22 pJ`."""
        for attribute in self.attributes:
            text, dimensions = texts.get(attribute.name, ""), _DIMENSIONS.get(attribute.unit, ())
            quantity = read_quantity(text)
            if dimensions and quantity is not None and quantity.unit.dimension not in dimensions:
                expected = f"{attribute.name} of {self.name} is in {attribute.unit}"
                raise SpecError(f"{expected}, but '{shown(text)}' is in {quantity.unit.dimension}")

    def resolve(self, given: Mapping[str, object]) -> dict[str, AttributeValue]:
        """The attributes, checked, with defaults; those that the class chooses itself are left out."""
        names = [a.name for a in self.attributes]
        for name in given:
            check_known(name, names, f"{self.name} has no attribute '{shown(name)}'", _place(given, name))
        values: dict[str, AttributeValue] = {}
        for attribute in self.attributes:
            if attribute.name in given:
                values[attribute.name] = _checked(self, attribute, given)
            elif attribute.required:
                unit = f" ({attribute.meaning}{', in ' + attribute.unit if attribute.unit else ''})"
                raise SpecError(f"{self.name} needs the attribute '{attribute.name}'{unit}")
            elif attribute.default is not None:
                values[attribute.name] = attribute.default
        return values

    def estimate(self, given: Mapping[str, object]) -> Estimate:
        """What a component with these attributes costs."""
        attributes = self.resolve(given)
        try:
            figures = self.cost(attributes)
        except (ArithmeticError, ValueError) as error:
            raise SpecError(f"{self.name} has no cost for {_listed(attributes)}: {error}") from None
        _check_figures(self, figures)
        return Estimate(
            component_class=self.name,
            attributes=FrozenDict({**attributes, **figures.resolved}),
            actions=FrozenDict(figures.actions),
            area=figures.area,
            leak_power=figures.leak_power,
            source=self.source,
            notes=figures.notes,
            main_action=self.actions[0],
            moves_bits=self.moves_bits,
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """The costs of one component and where they come from."""

    component_class: str
    attributes: FrozenDict[str, AttributeValue]
    actions: FrozenDict[str, ActionCost]
    area: float
    leak_power: float
    source: str
    notes: tuple[str, ...] = ()
    main_action: str = ""
    moves_bits: bool = False

    @property
    def width(self) -> float:
        """The bits that one action moves; 1 where an action handles a value."""
        width = self.attributes.get("width", 1) if self.moves_bits else 1
        return float(width) if isinstance(width, (int, float)) else 1.0

    @property
    def status(self) -> str:
        """`estimated`, `extrapolated` (outside the source's data) or `assumed` (a choice of ours)."""
        words = {note.split(":")[0].split()[0] for note in self.notes}
        return next((word for word in ("extrapolated", "assumed") if word in words), "estimated")

    @property
    def provenance(self) -> str:
        """Class, attributes, source and what was assumed, on one line."""
        notes = "".join(f"; {note}" for note in self.notes)
        return f"{self.status} by {self.component_class}({_listed(self.attributes)}) from {self.source}{notes}"

    def as_json(self) -> dict[str, object]:
        """For `fusiest components … --json`."""
        return {
            "class": self.component_class,
            "attributes": {name: _plain(value) for name, value in self.attributes.items()},
            "actions": {
                name: {"energy": a.energy, "throughput": _finite(a.throughput), "latency": a.latency}
                for name, a in self.actions.items()
            },
            "area": self.area,
            "leak_power": self.leak_power,
            "provenance": {"status": self.status, "source": self.source, "notes": list(self.notes)},
        }


def key(name: str) -> str:
    """A class's name as it is compared: `smartbuffer_sram` is SmartBufferSRAM.

    >>> key("smart_buffer_SRAM")
    'smartbuffersram'
    """
    return name.replace("_", "").lower()


def _checked(owner: ComponentClass, attribute: Attribute, given: Mapping[str, object]) -> AttributeValue:
    label, value = f"{attribute.name} of {owner.name}", given[attribute.name]
    place = value if isinstance(value, str) else _place(given, attribute.name)
    if attribute.choices:
        chosen = next((c for c in attribute.choices if key(c) == key(str(value))), None)
        if chosen is None:
            raise SpecError(f"{label} is '{shown(value)}'{did_you_mean(str(value), attribute.choices)}", place)
        return chosen
    if attribute.is_list:
        return _checked_list(label, value)
    if isinstance(value, bool) and isinstance(attribute.default, bool):
        return value
    if attribute.anything and isinstance(value, (bool, str)):
        return value
    if attribute.anything and isinstance(value, (list, tuple)):
        return _checked_list(label, value)
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise SpecError(f"{label} is too large for a number of 64 bits", place)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise SpecError(f"{label} must be a number, but is '{shown(value)}'", place)
    unit = f" {attribute.unit}" if attribute.unit else ""
    for end in (attribute.low, attribute.high):
        if value != end and math.isclose(value, end, rel_tol=ROUNDING):
            value = end
    if value < attribute.low or value > attribute.high or (value == attribute.low and not attribute.zero):
        meant = f"; did you mean {value:g} nm?" if attribute.name == "tech_node" and 1 <= value < 1000 else ""
        raise SpecError(f"{label} must be {attribute.range}{unit}, but is {value:g}{meant}", place)
    if attribute.whole and value != round(value):
        raise SpecError(f"{label} must be a whole number, but is {value:g}", place)
    return int(value) if attribute.whole else value


def _checked_list(label: str, value: object) -> tuple[float, ...]:
    items = tuple(value) if isinstance(value, (list, tuple)) else ()
    numbers = [item for item in items if isinstance(item, (int, float)) and not isinstance(item, bool)]
    if not items or len(numbers) < len(items):
        raise SpecError(f"{label} must be a list of numbers, but is '{shown(value)}'")
    if not all(0 <= item < math.inf for item in numbers):
        raise SpecError(f"{label} must hold finite numbers of at least 0")
    return tuple(numbers)


def _check_figures(owner: ComponentClass, figures: Figures) -> None:
    """A class must give numbers that a cost can be: a mistake in a plug-in or a file must not get further."""
    named = {"area": figures.area, "leak_power": figures.leak_power}
    named |= {f"energy of {name}": action.energy for name, action in figures.actions.items()}
    named |= {f"latency of {name}": action.latency for name, action in figures.actions.items()}
    for label, value in named.items():
        if not 0 <= value < math.inf:
            raise SpecError(f"{label} of {owner.name} must be a finite number of at least 0, but is {value}")
    for name, action in figures.actions.items():
        if not action.throughput > 0:
            raise SpecError(f"throughput of {name} of {owner.name} must be positive, but is {action.throughput}")


def _listed(attributes: Attributes) -> str:
    return ", ".join(f"{name}={_plain(value)}" for name, value in attributes.items())


def _plain(value: AttributeValue) -> object:
    if isinstance(value, tuple):
        return list(value)
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _finite(value: float) -> float | str:
    """JSON has no infinity."""
    return value if value < math.inf else "inf"


def _place(given: Mapping[str, object], name: str) -> str | None:
    """The key as it was written, which knows its line."""
    return next((str_key for str_key in given if str_key == name), None)
