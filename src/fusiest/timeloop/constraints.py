"""Timeloop's constraints as those of a spec, none of which excludes what Timeloop's would let through.

What is kept and spatial factors are constraints of memories and fanouts. Here no level has loops of its own, so a temporal factor is one of
extents at a holder, and only where it fixes the extent: in dimensions that are alone in their rank for every tensor that the memory may
hold, as there no holder moves past their loops. All else is left free, which can only add mappings; the remarks say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fusiest.timeloop.directives import Directive, DirectiveFactor
from fusiest.timeloop.levels import TimeloopLevel, fanout, find_level
from fusiest.timeloop.problem_to_einsum import TimeloopProblem

_REFUSED = ("default_max_factor", "remainders")
_REFUSED_TEMPORAL = ("no_reuse", "no_temporal_reuse", "maximize_dims", "min_parallelism", "no_multicast_no_reduction")


@dataclass(slots=True)
class LevelLimits:
    """What a memory must and may keep, and lines of YAML: its constraints, and those of each axis of the fanout below it."""

    keep: list[str] = field(default_factory=list)
    may_keep: list[str] = field(default_factory=list)
    tile_shape: list[str] = field(default_factory=list)
    axes: dict[str, list[str]] = field(default_factory=dict)

    @property
    def held(self) -> set[str]:
        """All that may be here."""
        return {*self.keep, *self.may_keep}


class _Limiting:
    """Reads all directives; factors are by level, kind and dimension."""

    def __init__(self, directives: list[Directive], problem: TimeloopProblem, levels: list[TimeloopLevel]) -> None:
        self.problem, self.levels = problem, levels
        self.remarks: list[str] = []
        self.free_orders: list[str] = []
        self.factors: dict[tuple[int, str, str], DirectiveFactor] = {}
        self.keep: list[set[str]] = [set() for _ in levels]
        self.bypass: list[set[str]] = [set() for _ in levels]
        self.spatial: dict[int, Directive] = {}
        for directive in directives:
            self._read(directive)

    def _read(self, directive: Directive) -> None:
        number = find_level(self.levels, directive.target, directive.source, directive.kind)
        fields = directive.constraint_fields
        refused = dict.fromkeys(_REFUSED, "constraint")
        if directive.kind == "temporal":
            refused |= dict.fromkeys(_REFUSED_TEMPORAL, "temporal constraint")
        for key, what in refused.items():
            if key in fields:
                raise directive.error(f"the {what} {key} is not supported")
        if directive.kind == "dataspace":
            self._read_kept(directive, number)
            return
        if directive.kind == "temporal":
            ones = {f.dimension for f in directive.factors if (f.operator, f.value) in (("==", 1), ("<=", 1))}
            if len([d for d in self._order(directive) if d in self.problem.sizes and d not in ones]) > 1:
                self.free_orders.append(self.levels[number].name)
        else:
            self.spatial[number] = directive
        for factor in self._all_factors(directive):
            place = (number, directive.kind, factor.dimension)
            if self.factors.setdefault(place, factor) != factor:
                raise directive.error(f"{factor.dimension} has two factors")

    def _read_kept(self, directive: Directive, number: int) -> None:
        only = directive.names("keep_only")
        keep = {self.problem.space(name, directive.source).name for name in (*directive.keep, *only)}
        bypass = {self.problem.space(name, directive.source).name for name in directive.bypass}
        if only:
            bypass |= {space.name for space in self.problem.spaces} - keep
        if keep & bypass:
            raise directive.error(f"{min(keep & bypass)} is both kept and bypassed")
        self.keep[number] |= keep
        self.bypass[number] |= bypass

    def _all_factors(self, directive: Directive) -> Iterator[DirectiveFactor]:
        """Factors that are given, and those that others imply."""
        fields, sizes = directive.constraint_fields, self.problem.sizes
        factored = {factor.dimension for factor in directive.factors}
        for factor in directive.factors:
            if factor.dimension not in sizes:
                if factor.value > 1 and factor.operator == "==":
                    raise directive.no_factor(factor, sizes)
            elif factor.value == 0:
                self.remarks.append(
                    f"{directive.target}: the factor {factor.dimension}=0, all that is left, is not fixed here"
                )
            else:
                yield factor
        ones = set(sizes) - factored if "factors_only" in fields else set()
        if directive.kind == "temporal":
            for name in directive.names("no_iteration_over_dataspaces"):
                ones |= self.problem.space(name, directive.source).dimensions - factored
        yield from (DirectiveFactor(dimension, "==", 1) for dimension in sorted(ones))

    def _order(self, directive: Directive) -> list[str]:
        return directive.order([*self.problem.sizes, *self.problem.unit_dimensions], strict=False)

    # What becomes of it.

    def limits(self) -> list[LevelLimits]:
        """Per level."""
        per_level, applied = [], set[tuple[int, str]]()
        for number, level in enumerate(self.levels):
            limits = LevelLimits()
            if level.kind == "memory":
                names = [space.name for space in self.problem.spaces]
                limits.keep = [n for n in names if n in self.keep[number] or number == 0]
                limits.may_keep = [n for n in names if n not in limits.keep and n not in self.bypass[number]]
                if number:
                    limits.tile_shape = self._extents(number, [*limits.keep, *limits.may_keep], applied)
            limits.axes = self._axes(number)
            per_level.append(limits)
        self._tell(applied)
        return per_level

    def _extents(self, number: int, held: list[str], applied: set[tuple[int, str]]) -> list[str]:
        spaces = [space for space in self.problem.spaces if space.name in held]
        fixed: dict[tuple[str, int], list[str]] = {}
        for dimension, size in self.problem.sizes.items():
            if not spaces or not all(dimension in space.alone for space in spaces):
                continue
            inner, outer = (
                self._product(dimension, range(number, len(self.levels))),
                self._product(dimension, range(number)),
            )
            if inner is not None:
                fixed.setdefault(inner, []).append(dimension)
                applied |= {(n, dimension) for n in range(number, len(self.levels))}
            if outer is not None and outer[0] == "==" and outer[1] > 1:
                fixed.setdefault(("==", -(-size // outer[1])), []).append(dimension)
                applied |= {(n, dimension) for n in range(number)}
        return self._comparisons(fixed)

    def _comparisons(self, grouped: dict[tuple[str, int], list[str]]) -> list[str]:
        lines = []
        for (operator, value), dimensions in grouped.items():
            names = " | ".join(self.problem.variables[d] for d in dict.fromkeys(dimensions))
            lines.append(f"{{expression: {names}, operator: '{operator}', value: {value}}}")
        return lines

    def _product(self, dimension: str, numbers: range) -> tuple[str, int] | None:
        """All factors of a dimension in these levels, if all are fixed or limited from above."""
        operator, product = "==", 1
        for number in numbers:
            kinds = ["temporal"] if self.levels[number].kind == "memory" else []
            kinds += ["spatial"] if fanout(self.levels, number) != (1, 1) else []
            for kind in kinds:
                factor = self.factors.get((number, kind, dimension))
                if factor is None or factor.operator == ">=":
                    return None
                operator = factor.operator if factor.operator == "<=" else operator
                product *= factor.value
        return operator, product

    def _tell(self, applied: set[tuple[int, str]]) -> None:
        """What is not applied."""
        for number, level in enumerate(self.levels):
            unapplied = [
                f"{d}{'=' if f.operator == '==' else f.operator}{f.value}"
                for (n, kind, d), f in self.factors.items()
                if n == number and kind == "temporal" and (n, d) not in applied and level.kind == "memory"
            ]
            if unapplied:
                self.remarks.append(
                    f"not fixed, but searched: temporal factors of {level.name} ({', '.join(unapplied)})"
                )
        if self.free_orders:
            self.remarks.append(f"not fixed, but searched: the order of loops of {', '.join(self.free_orders)}")

    def _axes(self, number: int) -> dict[str, list[str]]:
        """Lines for each axis of the fanout below a level."""
        directive = self.spatial.get(number)
        axes = {axis: n for axis, n in zip("XY", fanout(self.levels, number), strict=True) if n > 1}
        if directive is None or not axes:
            return {}
        # Timeloop's front end lists dimensions that are fixed to 1 before the others, and splits then.
        listed = self._order(directive)
        ones = {f.dimension for f in directive.factors if (f.operator, f.value) == ("==", 1)}
        order = [
            *(
                d
                for d in (*self.problem.unit_dimensions, *self.problem.sizes)
                if d not in listed and (d in ones or d in self.problem.unit_dimensions)
            ),
            *listed,
        ]
        axis_lines: dict[str, list[str]] = {}
        for axis in axes:
            excluded = [] if directive.split is None else [
                d for d in self.problem.sizes if (d in order[: directive.split]) != (axis == "X")
            ]  # fmt: skip
            bounds = self._bounds(number, excluded, len(axes) > 1 and directive.split is None)
            axis_lines[axis] = ["loop_bounds:", *(f"- {bound}" for bound in bounds)] if bounds else []
            axis_lines[axis] += self._reuse(directive)
        return axis_lines

    def _bounds(self, number: int, excluded: list[str], shared: bool) -> list[str]:
        """Comparisons of one axis. A factor that two axes share limits each of them."""
        grouped: dict[tuple[str, int], list[str]] = {}
        if excluded:
            grouped["==", 1] = list(excluded)
        for (n, kind, dimension), factor in self.factors.items():
            if n != number or kind != "spatial" or dimension in excluded:
                continue
            operator = factor.operator
            if shared and factor.value > 1:
                self.remarks.append(
                    f"{self.levels[n].name}: {dimension} may be spread {factor.value} times along X and along Y each"
                )
                operator = "<="
            grouped.setdefault((operator, factor.value), []).append(dimension)
        return self._comparisons(grouped)

    def _reuse(self, directive: Directive) -> list[str]:
        """Multicast that is forbidden, tensors that must be multicast, and how much of the fanout must be in use."""
        fields, lines = directive.constraint_fields, list[str]()
        single = [*directive.names("no_reuse"), *directive.names("no_multicast_no_reduction")]
        if single:
            lines.append(f"may_reuse: ~({self._set(single, directive)})")
        never = directive.names("no_iteration_over_dataspaces")
        if never:
            lines.append(f"reuse: {self._set(never, directive)}")
        if "maximize_dims" in fields:
            lines.append("min_usage: 1")
        elif isinstance(fields.get("min_parallelism"), (int, float)):
            lines.append(f"min_usage: {fields['min_parallelism']}")
        return lines

    def _set(self, names: list[str], directive: Directive) -> str:
        return " | ".join(dict.fromkeys(self.problem.space(name, directive.source).name for name in names))


def read_limits(
    directives: list[Directive], problem: TimeloopProblem, levels: list[TimeloopLevel]
) -> tuple[list[LevelLimits], list[str]]:
    """Per level, and remarks on what is not applied."""
    limiting = _Limiting(directives, problem, levels)
    limits = limiting.limits()
    return limits, list(dict.fromkeys(limiting.remarks))


def set_text(names: list[str]) -> str:
    """A set of tensors as an expression."""
    return " | ".join(names) or "Nothing"
