"""From Timeloop's files to a spec, and what was done with them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from fusiest.base.errors import InvalidMapping, SpecError
from fusiest.spec import Spec, dump_mapping, load_texts
from fusiest.timeloop.constraints import read_limits
from fusiest.timeloop.conversion_report import TimeloopReport
from fusiest.timeloop.differences import OVERLAP, REASONS, Counted, Mapped, counted
from fusiest.timeloop.directives import Directive, read_directive
from fusiest.timeloop.energies import LevelEnergies, read_tables
from fusiest.timeloop.estimated import estimated
from fusiest.timeloop.levels import TimeloopLevel, read_levels
from fusiest.timeloop.mapping_to_tree import TimeloopNest, read_nest
from fusiest.timeloop.problem_to_einsum import TimeloopProblem, read_problem
from fusiest.timeloop.sections import TimeloopFiles, number_of, read_files, tables_in
from fusiest.timeloop.statistics import read_statistics
from fusiest.timeloop.write_spec import Machinery, architecture_lines, out_of_order, workload_lines

CYCLE = 1e-9
"""Seconds, where no file says what a cycle takes."""


@dataclass(frozen=True, slots=True)
class TimeloopImport:
    """A spec as YAML, the spec itself, and what is to be known of it."""

    yaml: str
    spec: Spec
    report: TimeloopReport
    nest: TimeloopNest | None
    problem: TimeloopProblem
    levels: list[TimeloopLevel]


def import_timeloop(files: Sequence[str]) -> TimeloopImport:
    """Read Timeloop's files, in either form: architecture, problem, mapping, constraints, tables, statistics."""
    sections = read_files(files)
    for name in ("architecture", "problem"):
        if sections.section(name) is None:
            raise SpecError(
                f"none of the files has Timeloop's section '{name}': give both, for levels keep what the problem names"
            )
    variables = sections.section("variables") or {}
    levels, arch_directives = read_levels(sections.section("architecture"), variables)
    problem = read_problem(sections.section("problem"))
    energies = read_tables(sections.section("ERT"), sections.section("ART"))
    mapping = _directives(sections, "mapping")
    nest = read_nest(mapping, problem, levels) if mapping else None
    limits, remarks = read_limits([*arch_directives, *_directives(sections, "constraints")], problem, levels)
    lifted = out_of_order(nest, levels, limits) if nest is not None else []
    if lifted:
        remarks.append(
            f"{', '.join(lifted)}: the mapping has tiles here above those of an outer memory; map searches such mappings, too, "
            "if force_memory_hierarchy_order is false here, but for longer"
        )
    cycle = _cycle(levels, variables)
    remarks += [*_filled(levels, energies, cycle), *_about_energies(levels, energies)]
    machine = Machinery(levels, energies, limits, cycle)
    lines = [*(f"# From {os.path.basename(file)}." for file in files), *architecture_lines(machine), ""]
    lines += workload_lines(problem, levels[0].bits)
    if nest is not None:
        lines += ["", dump_mapping(nest.tree(problem, levels)).rstrip()]
    text = "\n".join(lines) + "\n"
    spec = load_texts({"<converted>": text}, {})
    numbers = None
    if nest is not None:
        numbers = _compared(Mapped(spec, nest, problem, levels, machine.cycle), sections, remarks)
    report = TimeloopReport(problem, levels, nest is not None, numbers, tuple(remarks))
    return TimeloopImport(text, spec, report, nest, problem, levels)


def _compared(mapped: Mapped, sections: TimeloopFiles, remarks: list[str]) -> Counted | None:
    """The mapping's numbers; none, and a remark, if it needs more space than there is."""
    texts = sections.statistics
    if len(texts) > 1:
        raise SpecError(f"{texts[1][0]}: statistics are given twice")
    statistics = read_statistics(*texts[0]) if texts else None
    if statistics is None and mapped.nest.lost_overlaps:
        where = ", ".join(f"{mapped.levels[n].name} {space}" for n, space in sorted(mapped.nest.lost_overlaps))
        remarks.append(f"overlap: {REASONS[OVERLAP]}: {where}; Timeloop's own numbers may be lower there")
    try:
        return counted(mapped, statistics)
    except InvalidMapping as error:
        remarks.append(f"the mapping is not valid here: {error.message}")
        return None


def _filled(levels: list[TimeloopLevel], energies: dict[str, LevelEnergies], cycle: float) -> list[str]:
    """Estimate what no table gives; what cannot be estimated is 0."""
    estimates, missing = [], []
    for level in levels:
        if level.kind == "place" or _energies_of(level, energies).actions:
            continue
        estimate = estimated(level, cycle)
        if estimate is None:
            missing.append(level.name)
        else:
            energies[level.timeloop_name], classes = estimate
            estimates.append(f"{level.name} ({classes})")
    remarks = [f"no energies are given, they are estimated: {', '.join(estimates)}"] if estimates else []
    if missing:
        remarks.append(
            f"no energies are given for {', '.join(missing)}: they are 0; add the energy table (ERT), or the technology"
        )
    return remarks


def _about_energies(levels: list[TimeloopLevel], energies: dict[str, LevelEnergies]) -> list[str]:
    """What of the tables is not counted."""
    remarks: list[str] = []
    for level in levels:
        actions = _energies_of(level, energies).actions
        if level.kind == "compute" and actions.get("leak"):
            remarks.append(f"{level.name}: Timeloop does not count the leakage of a compute; its leak_power is 0")
        if level.kind == "memory" and level.cluster > 1:
            remarks.append(
                f"{level.name}: {level.cluster} instances share an access and its energy, whether all are in use or not; "
                "Timeloop shares it among those in use"
            )
        write, update = actions.get("write"), actions.get("update")
        if level.kind == "memory" and write is not None and update is not None and write != update:
            remarks.append(
                f"{level.name}: an update takes {update:g} pJ, a write {write:g} pJ; both take {write:g} pJ here"
            )
    return remarks


def _energies_of(level: TimeloopLevel, energies: dict[str, LevelEnergies]) -> LevelEnergies:
    return energies.get(level.timeloop_name) or LevelEnergies()


def _directives(sections: TimeloopFiles, name: str) -> list[Directive]:
    return [
        read_directive(entry)
        for value in sections.values.get(name, ())
        for entry in (tables_in(value, name) if value else ())
    ]


def _cycle(levels: list[TimeloopLevel], variables: dict[str, object]) -> float:
    """Seconds of a cycle: the clock of all."""
    for names, source in [(variables, None), *((level.attributes, level.source) for level in levels)]:
        value = names.get("global_cycle_seconds")
        if value is not None and value != "must_specify":
            cycle = float(number_of(value, "global_cycle_seconds", names, source))
            if not 0 < cycle < float("inf"):
                raise SpecError("global_cycle_seconds must be positive", source)
            return cycle
    return CYCLE
