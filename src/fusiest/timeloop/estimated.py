"""Energies of levels that no table gives: estimated from their class and technology by the component classes of specs."""

from __future__ import annotations

import math
import re
from typing import Any

from fusiest.base.errors import SpecError
from fusiest.components import Estimate, all_classes, estimate
from fusiest.timeloop.energies import PICOJOULE, SQUARE_MICROMETRE, LevelEnergies
from fusiest.timeloop.levels import TimeloopLevel

_NODE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*nm\s*\Z", re.I)


def estimated(level: TimeloopLevel, cycle: float) -> tuple[LevelEnergies, str] | None:
    """Energies and area, and by which classes; None if the class or the technology says too little."""
    node = _NODE.match(str(level.attributes.get("technology", "")))
    try:
        parts = _parts(level, float(node[1]) * 1e-9 if node else None)
    except SpecError:
        return None
    if parts is None:
        return None
    energies = LevelEnergies(area=sum(n * part.area for part, _, n in parts) / SQUARE_MICROMETRE)
    for action in ("read", "write", "compute"):
        costs = [n * _action(part, action).energy for part, n, _ in parts]
        if action in parts[0][0].actions:
            energies.actions[action] = sum(costs) / PICOJOULE
    energies.actions["leak"] = sum(n * part.leak_power for part, _, n in parts) * cycle / PICOJOULE
    return energies, " and ".join(dict.fromkeys(part.component_class for part, _, _ in parts))


def _action(part: Estimate, action: str) -> Any:
    """The action of that name, or the only one that the part has."""
    return part.actions.get(action) or next(iter(part.actions.values()))


def _parts(level: TimeloopLevel, node: float | None) -> list[tuple[Estimate, int, int]] | None:
    """What a level is made of, how many of each work in an action, and how many there are."""
    attributes = level.attributes
    kind = str(attributes.get("subclass") or attributes.get("class", "")).lower()
    width, values = level.bits * level.block * level.cluster, level.values
    if "dram" in kind and level.kind == "memory":
        dram = str(attributes.get("type") or "LPDDR4").upper()
        is_class = any(component_class.name == dram for component_class in all_classes())
        return [(estimate(dram if is_class else "LPDDR4", width=width), 1, 1)]
    if node is None:
        return None
    if level.kind == "compute":
        bits = int(level.amount(("multiplier_width", "datawidth", "word_bits", "width")) or 8)
        total = int(level.amount(("adder_width",)) or 2 * bits)
        return [(estimate("IntMAC", multiplier_width=bits, adder_width=total, tech_node=node), 1, 1)]
    if values is None:
        return None
    depth = max(1, values // level.block)
    if "sram" in kind:
        smart = "SmartBufferSRAM" if "smart" in kind else "SRAM"
        banks = int(level.amount(("n_banks",)) or 1)
        return [(estimate(smart, size=depth * width, width=width, n_banks=banks, tech_node=node), 1, 1)]
    if not any(word in kind for word in ("reg", "rf", "storage", "buffer", "spad", "latch")):
        return None
    # A register file is read through a comparator for each of its words.
    parts = [(estimate("Register", width=width, tech_node=node), 1, depth)]
    if depth > 1:
        parts.append((estimate("Comparator", width=max(1, math.ceil(math.log2(depth))), tech_node=node), depth, depth))
    return parts
