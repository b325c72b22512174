"""Compute-in-memory chips against what was published of them: every value beside the model's.

Each chip's file is filled with work that uses all of it, and mapped; energy, time and area of that mapping are compared.
Weights are in place: what it takes to write them is not counted, as in the publications.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusiest.base.errors import SpecError, did_you_mean, shown
from fusiest.experiments.reproduce.cim.chips import CHIPS, EXCEPTIONS, Chip
from fusiest.experiments.reproduce.cim.published import ChipCondition, Published, bundled_values
from fusiest.experiments.reproduce.experiment_output import Output, table
from fusiest.experiments.reproduce.pieces import Study
from fusiest.experiments.reproduce.searching import searched
from fusiest.mapper import Options, Step
from fusiest.model import area_by_component
from fusiest.spec import Spec, bind_all, find_file, instances, library_text, load_texts, undeclared

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Compute-in-memory chips: model and publications"
VECTORS = 4096
WITHIN = 0.1
PARTS = "parts"
"""A condition that is none of the chip: which of its parts a value is about."""


@dataclass(frozen=True)
class Compared:
    """A published value and the model's, in the unit of the publication."""

    published: Published
    model: float

    @property
    def error(self) -> float:
        return self.model / self.published.value - 1

    @property
    def exception(self) -> str | None:
        """Why the value is far off, if that is known."""
        p = self.published
        conditions = "; ".join(f"{name}={value}" for name, value in sorted(p.conditions.items()))
        return EXCEPTIONS.get((p.chip, p.quantity, conditions)) if abs(self.error) > WITHIN else None

    def to_json(self) -> dict[str, object]:
        p = self.published
        return {
            "chip": p.chip, "figure": p.figure, "quantity": p.quantity, "component": p.component or None, "conditions": p.conditions,
            "published": p.value, "model": self.model, "unit": p.unit, "error": self.error, "sets_constant": p.sets,
            "exception": self.exception,
        }  # fmt: skip


@dataclass(frozen=True)
class Filled:
    """A chip at full work: joules and square metres by component, and conversions of its ADC."""

    energies: dict[str, float]
    areas: dict[str, float]
    conversions: float
    seconds: float
    products: float
    arrays: int


def compare(values: Sequence[Published], say: Callable[[Step], None] = lambda step: None) -> list[Compared]:
    """Every value beside the model's; a chip at the same conditions is mapped once."""
    filled: dict[tuple[str, tuple[tuple[str, ChipCondition], ...]], Filled] = {}
    compared: list[Compared] = []
    for value in values:
        chip = _chip(value)
        defines = {name: condition for name, condition in value.conditions.items() if name != PARTS}
        key = (value.chip, tuple(sorted(defines.items())))
        if key not in filled:
            _check_conditions(value, defines)
            say(
                Step(
                    f"{value.chip} {', '.join(f'{n} {v}' for n, v in defines.items())}",
                    f"{len(compared)} of {len(values)}",
                )
            )
            try:
                filled[key] = filled_chip(value.chip, defines)
            except SpecError as error:  # it is what the conditions make of the chip's file
                message = f"{value.chip} at {_shown(defines) or 'no conditions'}: {error.message}"
                raise SpecError(message, at=value.source or error.source) from None
        compared.append(Compared(value, _model(value, chip, filled[key]) / value.factor))
    return compared


def _chip(value: Published) -> Chip:
    if value.chip not in CHIPS:
        raise SpecError(f"chip '{shown(value.chip)}' is not known{did_you_mean(value.chip, CHIPS)}", at=value.source)
    return CHIPS[value.chip]


def _check_conditions(value: Published, defines: dict[str, ChipCondition]) -> None:
    names = undeclared(library_text(f"arches/cim/{value.chip}.yaml"), value.chip)
    for name, condition in defines.items():
        if name not in names:
            raise SpecError(
                f"{value.chip} has no condition '{shown(name)}'{did_you_mean(name, [*names, PARTS])}", at=value.source
            )
        counts = name.endswith("_bits") or name in ("cores", "phases", "tiles")
        if counts and (not isinstance(condition, int) or isinstance(condition, bool) or condition < 1):
            raise SpecError(
                f"condition {name} must be a whole number from 1, but is {shown(condition)}", at=value.source
            )


def filled_chip(name: str, defines: dict[str, ChipCondition]) -> Filled:
    """The chip at these conditions, mapped with work that fills it."""
    spec = peak_spec(name, defines)
    best = searched(spec, Options(objective=("edp",), jobs=1)).best("edp")
    (evaluation,) = best.evaluation.einsums.values()
    energies: dict[str, float] = {}
    for (component, tensor, action), joules in evaluation.energies.items():
        if (tensor, action) != ("weight", "write"):
            energies[component] = energies.get(component, 0.0) + joules
    conversions = sum(count for (component, _, _), count in evaluation.actions.items() if component == "ADC")
    arrays = spec.info.einsums["Layer"].bounds.get("g", 1)
    return Filled(energies, area_by_component(spec), conversions, best.latency, float(evaluation.points), arrays)


def peak_spec(name: str, defines: dict[str, ChipCondition]) -> Spec:
    """The chip's file, and work of the size that its fanouts have."""
    chip = CHIPS[name]
    bits = dict(zip(("input_bits", "weight_bits", "output_bits"), chip.bits, strict=True))
    bits |= {key: count for key, count in defines.items() if key in bits}  # type: ignore[misc]
    sizes = {"g": 1, "m": VECTORS, "k": 1, "n": 1}
    small = _with_work(name, chip, sizes | bits, defines)
    bound = bind_all(small, small.info.einsums["Layer"])
    for _, dimensions, _ in instances(small.require_arch().nodes, bound):
        sizes |= {"g": 1, "k": 1, "n": 1}
        for d in dimensions:
            sizes["k" if "output" in d.reuse else "n" if "input" in d.reuse else "g"] *= d.fanout
    return _with_work(name, chip, sizes | bits, defines)


def _with_work(name: str, chip: Chip, sizes: dict[str, int], defines: dict[str, ChipCondition]) -> Spec:
    file, text = find_file(f"cim/{name}")
    return load_texts({file: text, "<work>": chip.workload.format(**sizes)}, defines)


def _model(value: Published, chip: Chip, filled: Filled) -> float:
    """What the model has for a published value, in SI units."""
    part = _components(value, chip)
    names, power_per, area_per = part if part else (tuple({**filled.energies, **filled.areas}), 1, 1)
    energy = math.fsum(filled.energies.get(name, 0.0) for name in names)
    area = math.fsum(filled.areas.get(name, 0.0) for name in names) / _divisor(value, chip, area_per * chip.area_per)
    throughput = 2 * filled.products / filled.seconds
    vectors = VECTORS * filled.arrays
    return {
        "area": lambda: area,
        "power": lambda: energy / filled.seconds / _divisor(value, chip, power_per),
        "latency": lambda: filled.seconds / VECTORS,
        "throughput": lambda: throughput,
        "throughput_per_area": lambda: throughput / area,
        "ops_per_joule": lambda: 2 * filled.products / energy,
        "energy_per_mac": lambda: energy / filled.products,
        "energy_per_array": lambda: energy / vectors,
        "converts_per_mac": lambda: filled.conversions / filled.products,
    }[value.quantity]()


def _divisor(value: Published, chip: Chip, per: int) -> float:
    """By how many a figure is divided, with as many tiles or cores as the conditions say."""
    define, usual = chip.copies
    return per * float(value.conditions.get(define, usual)) / usual if per > 1 else 1.0


def _components(value: Published, chip: Chip) -> tuple[tuple[str, ...], int, int] | None:
    """(components, how many of them have the published power, and area), or None for the whole chip."""
    only = str(value.conditions.get(PARTS, "")).removesuffix(" only")
    names = [name.strip() for name in (value.component, *only.replace(" and ", ",").split(",")) if name.strip()]
    for name in names:
        if name.lower() not in chip.parts:
            raise SpecError(
                f"{value.chip} has no part '{shown(name)}'{did_you_mean(name.lower(), chip.parts)}", at=value.source
            )
    parts = [chip.parts[name.lower()] for name in names]
    if not parts:
        return None
    return tuple(component for part in parts for component in part.components), parts[0].power_per, parts[0].area_per


def run(study: Study) -> Output:
    """All published values that come with fusiest."""
    return cim_output(compare(bundled_values(), study.say))


def cim_output(compared: Sequence[Compared]) -> Output:
    """A table, a figure and a summary of compared values."""
    rows = [{**pair.to_json(), "conditions": _shown(pair.published.conditions)} for pair in compared]
    return Output(rows, summary(compared), lambda figure: _draw(figure, compared), (7.0, 3.4))


def summary(compared: Sequence[Compared]) -> str:
    """How many values are within 10%, chip by chip, those that are not, and all of them."""
    chips = dict.fromkeys(pair.published.chip for pair in compared)
    lines = []
    for chip in chips:
        pairs = [pair for pair in compared if pair.published.chip == chip]
        errors = sorted(abs(pair.error) for pair in pairs)
        near = sum(error <= WITHIN for error in errors)
        sets = sum(pair.published.sets for pair in pairs)
        lines.append(
            (chip, len(pairs), sets, near, f"{100 * errors[len(pairs) // 2]:.1f}%", f"{100 * errors[-1]:.1f}%")
        )
    head = ("chip", "values", "set constants", "within 10%", "median error", "largest")
    far = [pair for pair in compared if abs(pair.error) > WITHIN]
    near = len(compared) - len(far)
    text = [f"{near} of {len(compared)} published values are within 10%.", "", table(head, lines), ""]
    for pair in far:
        p = pair.published
        subject = " ".join(word for word in (p.component, p.quantity, _shown(p.conditions)) if word)
        reason = pair.exception or "no reason is known"
        text.append(f"- {p.chip}, {p.figure}, {subject}: {pair.model:.4g} against {p.value:.4g} {p.unit}. {reason}")
    values = [
        (p.chip, p.figure, p.component or "whole", p.quantity, _shown(p.conditions), f"{p.value:.4g}", f"{pair.model:.4g}", p.unit,
         f"{100 * pair.error:+.1f}%", "sets a constant" if p.sets else "predicted")
        for pair in compared for p in (pair.published,)
    ]  # fmt: skip
    names = ("chip", "figure", "part", "quantity", "conditions", "published", "model", "unit", "error", "role")
    return "\n".join([*text, "", table(names, values)])


def _shown(conditions: dict[str, ChipCondition]) -> str:
    return ", ".join(f"{name} {value}" for name, value in conditions.items())


def _draw(figure: Figure, compared: Sequence[Compared]) -> None:
    """How large the errors are, chip by chip, and their distribution."""
    left, right = figure.subplots(1, 2, width_ratios=(3, 2), sharey=True)
    chips = list(dict.fromkeys(pair.published.chip for pair in compared))
    for sets, colour, label in ((True, "#b0b8c4", "sets a constant"), (False, "#1f6fb2", "predicted")):
        pairs = [pair for pair in compared if pair.published.sets == sets]
        places = [chips.index(pair.published.chip) for pair in pairs]
        spread = [0.5 * ((i * 0.618) % 1 - 0.5) for i in range(len(pairs))]
        left.plot(
            [p + s for p, s in zip(places, spread, strict=True)],
            [100 * pair.error for pair in pairs],
            ".",
            color=colour,
            label=label,
        )
    left.set_xticks(range(len(chips)), [chip.split("_")[0] for chip in chips], rotation=40, ha="right")
    left.set_ylabel("error of the model in %")
    left.axhspan(-100 * WITHIN, 100 * WITHIN, color="#e9f2e4", zorder=0)
    left.legend(loc="upper left")
    right.hist([100 * pair.error for pair in compared], bins=41, orientation="horizontal", color="#1f6fb2")
    right.set_xlabel("published values")
