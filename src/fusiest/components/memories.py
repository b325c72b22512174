"""Registers, DRAM, and an SRAM that makes its own addresses. The SRAM itself is in `sram`."""

from __future__ import annotations

import math

from fusiest.base.errors import SpecError
from fusiest.components.arithmetic import ALADDIN, adder, register_bits
from fusiest.components.classes import ActionCost, Attribute, Attributes, ComponentClass, Figures
from fusiest.components.parts import SUPPLY, TECH_NODE, beside, bits, in_sequence, number, optional, together
from fusiest.components.sram import SRAM_ATTRIBUTES, SRAM_ERROR, SRAM_SOURCE, sram


def register(attributes: Attributes) -> Figures:
    width, size = optional(attributes, "width"), optional(attributes, "size")
    if width is None and size is None:
        raise SpecError("Register needs the attribute 'width' (bits) or 'size'")
    wide = width if width is not None else size
    assert wide is not None
    if size is not None and width is not None and size != width:
        raise SpecError(f"a Register holds one word: its size is {size:g} bits, but its width is {width:g}")
    figures = register_bits({**attributes, "width": wide})
    return Figures(figures.actions, figures.area, figures.leak_power, figures.notes, {"width": int(wide)})


def smart_buffer_sram(attributes: Attributes) -> Figures:
    """The address and its step are kept in registers and added for each access."""
    memory = sram(attributes)
    depth = number(attributes, "size") / number(memory.resolved, "width")
    address = beside(attributes, max(math.ceil(math.log2(depth)), 1) if depth > 1 else 1)
    add, address_register = adder(address), register_bits(address)
    step, fetch, store = add.actions["add"], address_register.actions["read"], address_register.actions["write"]
    actions = {
        "read": in_sequence(memory.actions["read"], fetch, fetch, step),
        "write": in_sequence(memory.actions["write"], store, fetch, step),
    }
    return together([(1, memory), (2, address_register), (1, add)], actions, memory.resolved)


_JOUPPI = "Jouppi et al., Ten Lessons From Three Generations, ISCA 2021"
DRAM_TYPES: dict[str, tuple[float, float, int, str]] = {
    "DDR3": (70.0, 2.133, 64, "Chatterjee et al., MICRO 2017; DDR3-2133"),
    "DDR4": (20.3, 3.2, 64, f"{_JOUPPI}: 1300 pJ for 64 bits; DDR4-3200"),
    "LPDDR": (40.0, 0.4, 64, "Malladi et al., ISCA 2012; 400 MT/s"),
    "LPDDR4": (8.0, 3.2, 64, "public data of vendors, as in Accelergy; JESD209-4, 3200 MT/s"),
    "LPDDR5": (6.4, 6.4, 64, "assumed: 20% less than LPDDR4, as vendors say of LPDDR4X; JESD209-5, 6400 MT/s"),
    "GDDR6": (6.5, 14.0, 32, f"{_JOUPPI}: 350 to 480 pJ for 64 bits; 14 Gb/s"),
    "HBM2": (6.25, 2.4, 1024, f"vendors' figures, within {_JOUPPI}: 250 to 450 pJ for 64 bits; JESD235B, 2.4 Gb/s"),
    "HBM2E": (5.0, 3.2, 1024, "assumed: between HBM2 and HBM3; JESD235C, 3.2 Gb/s"),
    "HBM3": (4.05, 6.4, 1024, "vendors' figures; JESD238, 6.4 Gb/s"),
    "HBM3E": (3.6, 9.6, 1024, "assumed: between HBM3 and HBM4; 9.6 Gb/s"),
    "HBM4": (3.2, 8.0, 2048, "vendors' figures: 20% less than HBM3; JESD270-4, 8 Gb/s"),
}
"""Type: pJ a bit, Gb/s a pin, pins, source."""


def dram(attributes: Attributes) -> Figures:
    kind = str(attributes["type"])
    energy, rate, pins, source = DRAM_TYPES[kind]
    width = optional(attributes, "width") or pins
    per_bit = optional(attributes, "energy_per_bit")
    per_pin = optional(attributes, "rate_per_pin")
    joules = (energy * 1e-12 if per_bit is None else per_bit) * width
    per_second = rate * 1e9 if per_pin is None else per_pin
    action = ActionCost(joules, per_second, 1 / per_second)
    notes = (source,) if source.startswith("assumed") and per_bit is None else ()
    return Figures({"read": action, "write": action}, notes=notes, resolved={"width": int(width)})


def _typed(kind: str) -> ComponentClass:
    """A DRAM type as a class of its own name."""
    energy, rate, pins, source = DRAM_TYPES[kind]

    def cost(attributes: Attributes) -> Figures:
        return dram({**attributes, "type": kind})

    return ComponentClass(
        kind,
        "Memories",
        f"DRAM, {energy:g} pJ a bit, {rate:g} Gb/s a pin",
        (bits("width", "pins; bits of an action", pins), *_OVERRIDES),
        ("read", "write"),
        source,
        cost,
        formula=f"{energy:g} pJ · width; {rate:g} Gb/s · width",
        error=_DRAM_ERROR,
        aliases=(f"DRAM_{kind}",),
        moves_bits=True,
    )


_OVERRIDES = (
    Attribute("energy_per_bit", "instead of the type's", "J", high=1e-6, zero=True),
    Attribute("rate_per_pin", "instead of the type's", "bit/s", high=1e15),
)
_DRAM_ERROR = "peak rates; energy a bit depends on row hits, ± 30%"

CLASSES = (
    ComponentClass(
        "SRAM", "Memories", "static memory", SRAM_ATTRIBUTES, ("read", "write"), SRAM_SOURCE, sram,
        formula="a bank: log of each figure, linear in log depth and log width between runs of CACTI; more banks: routing "
        "over the side of them all; below 22 nm: energy and leakage with the root of the node, area and time with it",
        error=SRAM_ERROR, moves_bits=True,
    ),
    ComponentClass(
        "SmartBufferSRAM", "Memories", "static memory that makes its own addresses", SRAM_ATTRIBUTES, ("read", "write"),
        f"{SRAM_SOURCE}; {ALADDIN}", smart_buffer_sram,
        formula="SRAM + 2 Registers + 1 Adder of ⌈log2 depth⌉ bits; the slowest part sets the rate", error=SRAM_ERROR,
        moves_bits=True,
    ),
    ComponentClass(
        "Register", "Memories", "flip-flops",
        (bits("width", "bits of a word"), bits("size", "the same, for a memory"), TECH_NODE, SUPPLY), ("read", "write"),
        ALADDIN, register, formula="9 fJ and 5.98 µm² a bit at 40 nm; a read takes no time",
        error="equal to its source at 40 nm; elsewhere the error of node scaling, about 30%",
        aliases=("AladdinRegister",), moves_bits=True,
    ),
    ComponentClass(
        "DRAM", "Memories", "off-chip memory of a type",
        (
            Attribute("type", "which one", required=True, choices=tuple(DRAM_TYPES)),
            bits("width", "pins; bits of an action"),
            *_OVERRIDES,
        ),
        ("read", "write"), "the type's; see its note", dram,
        formula="energy a bit · width; rate a pin · width; area and leakage are not the accelerator's",
        error=_DRAM_ERROR, moves_bits=True,
    ),
    *(_typed(kind) for kind in DRAM_TYPES),
)  # fmt: skip
