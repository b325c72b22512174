"""Component classes and their costs as text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence

from fusiest.components import Attribute, ComponentClass, Estimate
from fusiest.show import si
from fusiest.spec import ComponentCosts

_WIDTH = 110


def area(square_metres: float) -> str:
    """An area in the unit that people use for its size.

    >>> area(2.5e-6), area(4e-11)
    ('2.5 mm²', '40 µm²')
    """
    if square_metres == 0:
        return "0 µm²"
    factor, unit = (1e6, "mm²") if square_metres >= 1e-8 else (1e12, "µm²")
    return f"{square_metres * factor:.4g} {unit}"


def classes_text(classes: list[ComponentClass]) -> str:
    """One line a class, by group."""
    width = max(len(c.name) for c in classes)
    lines: list[str] = []
    for group in dict.fromkeys(c.group for c in classes):
        lines += [f"{group}:", *(f"  {c.name:{width}}  {c.meaning}" for c in classes if c.group == group)]
    return "\n".join(lines)


def class_text(component_class: ComponentClass) -> str:
    """A class in full: attributes, actions, formula, source, expected error."""
    action = "moves width bits" if component_class.moves_bits else "handles one value"
    lines = [f"{component_class.name}: {component_class.meaning}", "", "Attributes"]
    cells = [_attribute_cells(a) for a in component_class.attributes]
    lines += [f"  {line}" for line in _aligned(cells, (0, 1, 2, 3))]
    lines += ["", f"Actions: {', '.join(component_class.actions)}; one {action}"]
    for title, text in (
        ("Formula", component_class.formula),
        ("Source", component_class.source),
        ("Expected error", component_class.error),
    ):
        if text:
            lines += textwrap.wrap(f"{title}: {text}", _WIDTH, subsequent_indent="  ")
    if component_class.aliases:
        lines.append(f"Also named {', '.join(component_class.aliases)}")
    return "\n".join(lines)


def _attribute_cells(attribute: Attribute) -> tuple[str, str, str, str]:
    if attribute.required:
        default = "required"
    elif attribute.default is None:
        default = "optional"
    else:
        default = f"= {default_text(attribute)}"
    unit = f" {attribute.unit}" if attribute.unit and not attribute.choices else ""
    return attribute.name, default, f"{attribute.range}{unit}", attribute.meaning


def default_text(attribute: Attribute) -> str:
    """A default as a file would give it."""
    value = attribute.default
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{value[0]:g}] * {len(value)}" if len(set(value)) == 1 else str(list(value))
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)


def estimate_text(estimate: Estimate) -> str:
    """The costs of one component."""
    attributes = ", ".join(f"{name}={_shown(value)}" for name, value in estimate.attributes.items())
    lines = [f"{estimate.component_class}({attributes})", ""]
    for name, action in estimate.actions.items():
        per_bit = f"  {si(action.energy / estimate.width, 'J')}/bit" if estimate.moves_bits else ""
        rate = "unlimited" if math.isinf(action.throughput) else f"{si(action.throughput, '/s')}"
        lines.append(f"  {name:10} {si(action.energy, 'J'):>10}{per_bit}  {rate}  latency {si(action.latency, 's')}")
    lines += [
        f"  {'area':10} {area(estimate.area):>10}",
        f"  {'leak_power':10} {si(estimate.leak_power, 'W'):>10}",
        "",
        *textwrap.wrap(f"{estimate.status} from {estimate.source}", _WIDTH, subsequent_indent="  "),
    ]
    for note in estimate.notes:
        lines += textwrap.wrap(note, _WIDTH, subsequent_indent="  ")
    return "\n".join(lines)


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def costs_text(costs: tuple[ComponentCosts, ...]) -> str:
    """Every component of an architecture: actions, area and leakage each times how many there are, and where from."""
    rows = [("component", "class", "action", "energy", "per bit", "throughput", "area", "leakage", "source")]
    for component in costs:
        name = f"{component.name} x{component.count:,}" if component.count > 1 else component.name
        fixed = (
            _times(component.area, component.total_area, component.count, area),
            _times(component.leak_power, component.total_leak_power, component.count, lambda watts: si(watts, "W")),
        )
        for i, (action, figures) in enumerate(component.actions.items()):
            per_bit = f"{si(figures.energy_per_bit, 'J')}" if figures.energy_per_bit is not None else ""
            rate = "unlimited" if math.isinf(figures.throughput) else si(figures.throughput, "/s")
            head = (name, component.component_class or "", action) if i == 0 else ("", "", action)
            last = (*fixed, component.source) if i == 0 else ("", "", "")
            rows.append((*head, si(figures.energy, "J"), per_bit, rate, *last))
    areas = [component.total_area for component in costs]
    total = area(math.fsum(a for a in areas if a is not None))
    unknown = ", ".join(component.name for component in costs if component.area is None)
    if unknown:
        total = f"more than {total} (that of {unknown} is not given)" if any(areas) else "–"
    leakage = si(math.fsum(component.total_leak_power for component in costs), "W")
    return "\n".join([*_aligned(rows, (0, 1, 2, 8)), "", f"Total area {total}, leakage {leakage}", *_sources(costs)])


def _aligned(rows: Sequence[tuple[str, ...]], left: tuple[int, ...]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [f"{cell:{'<' if i in left else '>'}{widths[i]}}" for i, cell in enumerate(row)]
        lines.append("  ".join(cells).rstrip())
    return lines


def _times(single: float | None, total: float | None, count: int, shown: Callable[[float], str]) -> str:
    if single is None or total is None:
        return "not given"
    return shown(single) if count == 1 else f"{shown(single)} x {count:,} = {shown(total)}"


def _sources(costs: tuple[ComponentCosts, ...]) -> list[str]:
    """What the estimates come from, and what was assumed; one paragraph a component."""
    lines: list[str] = []
    for component in costs:
        for text in component.explanations:
            lines += textwrap.wrap(f"{component.name}: {text}", _WIDTH + 20, subsequent_indent="  ")
    return ["", *lines] if lines else []
