"""The spec that a Timeloop description becomes: architecture and workload as YAML that a person would write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fusiest.base.frozen import FrozenDict
from fusiest.spec import Affine, access_text
from fusiest.timeloop.constraints import LevelLimits, set_text
from fusiest.timeloop.energies import PICOJOULE, SQUARE_MICROMETRE, LevelEnergies
from fusiest.timeloop.levels import TimeloopLevel, fanout
from fusiest.timeloop.mapping_to_tree import TimeloopNest, place_name
from fusiest.timeloop.problem_to_einsum import DataSpace, TimeloopProblem


@dataclass(frozen=True, slots=True)
class Machinery:
    """All that the architecture's section is written from."""

    levels: list[TimeloopLevel]
    energies: dict[str, LevelEnergies]
    limits: list[LevelLimits]
    cycle: float
    """Seconds."""


def architecture_lines(machine: Machinery) -> list[str]:
    """The section `arch`."""
    lines = ["arch:", "  nodes:"]
    groups = beside_each_other(machine.levels, machine.limits)
    for number, level in enumerate(machine.levels):
        limits = machine.limits[number]
        group = next((group for group in groups if number in group), [])
        if group and number == group[0]:
            lines += ["  - !Parallel", "    nodes:"]
        if level.kind == "memory":
            lines += [f"{'  ' if group else ''}{line}" for line in _memory(level, limits, machine)]
        elif level.kind == "compute":
            lines += _compute(level, machine)
        axes = fanout(machine.levels, number)
        if axes != (1, 1):
            lines += ["  - !Container", f"    name: {place_name(machine.levels, number)}", "    spatial:"]
            for axis, n in zip("XY", axes, strict=True):
                if n > 1:
                    # Timeloop counts the leakage of instances in use alone.
                    lines += [f"    - name: {axis}", f"      fanout: {n}", "      power_gateable: true"]
                    lines += [f"      {line}" for line in limits.axes.get(axis, ())]
    return lines


def beside_each_other(levels: list[TimeloopLevel], limits: list[LevelLimits]) -> list[list[int]]:
    """Neighbouring memories that never hold the same: Timeloop has them in a row, but none is above another."""
    groups: list[list[int]] = []
    for number, level in enumerate(levels):
        held = limits[number].held
        if level.kind != "memory" or number == 0 or not held:
            continue
        last = groups[-1] if groups else []
        near = bool(last) and last[-1] == number - 1 and levels[number - 1].mesh == level.mesh
        if near and all(not held & limits[member].held for member in last):
            last.append(number)
        else:
            groups.append([number])
    return [group for group in groups if len(group) > 1]


def out_of_order(nest: TimeloopNest, levels: list[TimeloopLevel], limits: list[LevelLimits]) -> list[str]:
    """Memories that the mapping at hand has above an outer one's tile of another tensor."""
    groups = beside_each_other(levels, limits)
    lifted = []
    for (outer, outer_space), above in nest.holders.items():
        for (inner, inner_space), below in nest.holders.items():
            apart = not any(outer in group and inner in group for group in groups)
            if outer < inner and outer_space != inner_space and below < above and apart:
                lifted.append(levels[inner].name)
    return list(dict.fromkeys(lifted))


def _memory(level: TimeloopLevel, limits: LevelLimits, machine: Machinery) -> list[str]:
    energies = machine.energies.get(level.timeloop_name, LevelEnergies())
    block, values = level.block, level.values
    size = "inf" if values is None else f"{values} * {level.bits}"
    lines = ["  - !Memory", f"    name: {level.name}", f"    size: {size}", f"    bits_per_value: {level.bits}",
             f"    bits_per_action: {block * level.bits}"]  # fmt: skip
    lines += _keep_lines(limits)
    lines.append("    actions:")
    shared = level.amount(("shared_bandwidth",))
    for action in ("read", "write"):
        bandwidth = level.amount((f"{action}_bandwidth",))
        rate = min((b for b in (bandwidth, shared) if b is not None), default=None)
        throughput = "inf" if rate is None else _number(rate / block / machine.cycle)
        energy = energies.actions.get(action, energies.actions.get("update", 0.0) if action == "write" else 0.0)
        lines.append(
            f"    - {{name: {action}, energy: {_number(energy * PICOJOULE / level.cluster)}, throughput: {throughput}}}"
        )
    if shared is None:
        lines.append("    total_latency: max(a.n_calls / a.throughput for a in actions)  # separate ports")
    return [*lines, *_standing(energies, energies.actions.get("leak", 0.0), machine)]


def _keep_lines(limits: LevelLimits) -> list[str]:
    """What the memory keeps, and what its tiles must obey."""
    entries = [f"keep: {set_text(limits.keep)}", f"may_keep: {set_text(limits.may_keep)}"]
    if not limits.tile_shape:
        return [f"    tensors: {{{', '.join(entries)}}}"]
    return [
        "    tensors:",
        *(f"      {entry}" for entry in entries),
        "      tile_shape:",
        *(f"      - {line}" for line in limits.tile_shape),
    ]


def _compute(level: TimeloopLevel, machine: Machinery) -> list[str]:
    energies = machine.energies.get(level.timeloop_name, LevelEnergies())
    energy = next(
        (energies.actions[name] for name in ("compute", "mac_random", "mac") if name in energies.actions), 0.0
    )
    return [
        "  - !Compute", f"    name: {level.name}", "    actions:",
        f"    - {{name: compute, energy: {_number(energy * PICOJOULE)}, throughput: {_number(1 / machine.cycle)}}}",
        *_standing(energies, 0.0, machine),
    ]  # fmt: skip


def _standing(energies: LevelEnergies, leak: float, machine: Machinery) -> list[str]:
    """Leakage and area. Timeloop's leakage is per cycle."""
    power = _number(leak * PICOJOULE / machine.cycle)
    return [f"    leak_power: {power}", f"    area: {_number((energies.area or 0.0) * SQUARE_MICROMETRE)}"]


def workload_lines(problem: TimeloopProblem, bits: int) -> list[str]:
    """The section `workload`."""
    alone = frozenset[str]().union(*(space.alone for space in problem.spaces))
    ranks = [f"{d}: {n}" for d, n in problem.sizes.items() if d in alone and problem.variables[d].upper() == d]
    bounded = [d for d in problem.sizes if f"{d}: {problem.sizes[d]}" not in ranks]
    lines = ["workload:", f"  bits_per_value: {{All: {bits}}}"]
    if ranks:
        lines.append(f"  rank_sizes: {{{', '.join(ranks)}}}")
    if bounded:
        bounds = [f"0 <= {problem.variables[d]} < {problem.sizes[d]}" for d in bounded]
        lines.append(f"  iteration_space_shape: [{', '.join(bounds)}]")
    inputs = " * ".join(_access(space, problem) for space in problem.spaces if not space.is_output)
    einsum = f"{_access(problem.output, problem)} = {inputs}"
    return [*lines, "  einsums:", f'  - {{name: {problem.name}, einsum: "{einsum}"}}']


def _access(space: DataSpace, problem: TimeloopProblem) -> str:
    """`Input[c, PR: 2*p + r]`."""
    affines = [Affine(FrozenDict({problem.variables[d]: a for d, a in rank.items()})) for rank in space.ranks]
    names = [_rank_name(rank, str(index), problem) for rank, index in zip(space.ranks, affines, strict=True)]
    return access_text(space.name, zip(names, affines, strict=True))


def _rank_name(rank: Iterable[str], index: str, problem: TimeloopProblem) -> str:
    """That of a dimension which counts all of the rank, or a name that no dimension has."""
    name = "".join(rank)
    if index.upper() == name:
        return name
    taken = {*problem.sizes, *(v.upper() for v in problem.variables.values())}
    while name in taken:
        name += "_"
    return name


def _number(value: float) -> str:
    """Write a number as short as is exact enough: figures of tables have few digits, computed ones have noise."""
    return f"{float(f'{value:.12g}'):g}" if float(f"{value:g}") == float(f"{value:.12g}") else f"{value:.12g}"
