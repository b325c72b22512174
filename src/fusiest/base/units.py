"""Quantities as people write them: `64 KiB`, `22 nm`, `0.8 pJ`. Everything becomes SI units and bits."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from fusiest.base.errors import shown


class Unit(NamedTuple):
    """What one of it is, and of what: joules, seconds, bits, …; `per_bit` if it is a rate that counts bits."""

    factor: float
    dimension: str

    @property
    def per_bit(self) -> bool:
        return "bit" in self.dimension.split("/") and "/" in self.dimension


_PREFIXES = {"f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6,
             "G": 1e9, "T": 1e12}  # fmt: skip
_PREFIXED = ("J", "s", "Hz", "V", "A", "W", "F", "Ω", "ohm", "m", "S/s")
_DATA = {
    **{f"{prefix}{unit}": bits * _PREFIXES[prefix] for prefix in ("", "k", "M", "G", "T")
       for unit, bits in (("B", 8), ("b", 1), ("bit", 1), ("bits", 1))},
    **{f"{prefix}i{unit}": bits * 1024.0**power for power, prefix in enumerate("KMGT", 1)
       for unit, bits in (("B", 8), ("b", 1), ("bit", 1), ("bits", 1))},
}  # fmt: skip

UNITS: dict[str, Unit] = {
    **{prefix + unit: Unit(factor, unit) for unit in _PREFIXED for prefix, factor in _PREFIXES.items()},
    **{f"{p}m{two}": Unit(factor**2, "m²") for p, factor in _PREFIXES.items() for two in ("2", "²", "^2")},
    **{unit: Unit(bits, "bit") for unit, bits in _DATA.items()},
    **{f"{unit}/s": Unit(bits, "bit/s") for unit, bits in _DATA.items()},
    **{f"{p}J/{unit}": Unit(factor / bits, "J/bit") for p, factor in _PREFIXES.items()
       for unit, bits in (("b", 1), ("bit", 1), ("B", 8))},
}  # fmt: skip
"""Every unit by the letters that stand for it."""

_NUMBER = r"(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_NAMES = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))
# `8B` may be eight billion parameters: a byte or bit without a prefix wants a space.
_QUANTITY = rf"({_NUMBER})(?:\s+({_NAMES})|(?![bB]\b)({_NAMES}))(?![\w/²^])"
_ALONE = re.compile(rf"\s*([-+]?){_QUANTITY}\s*\Z")
_UNKNOWN = re.compile(rf"\s*[-+]?{_NUMBER}\s*([^\W\d_][^\s*+-]*)\s*\Z")
_INSIDE = re.compile(rf"'[^']*'|\"[^\"]*\"|(?<![\w.]){_QUANTITY}")


class Quantity(NamedTuple):
    """A number of SI units or bits."""

    value: float
    unit: Unit


def read_quantity(text: str) -> Quantity | None:
    """A number and its unit; None if the text is anything else.

    >>> read_quantity("51.2 GB/s")
    Quantity(value=409600000000.0, unit=Unit(factor=8000000000.0, dimension='bit/s'))
    """
    match = _ALONE.match(text) if text[:1].isdigit() or text[:1] in "+-. " else None
    if match is None:
        return None
    unit = UNITS[match[3] or match[4]]
    value = _scaled(match[2], unit)
    return Quantity(-value if match[1] == "-" else value, unit)


def quantity(text: str) -> float | None:
    """The number that a text with a unit stands for; None if it is not one.

    >>> quantity("64 KiB"), quantity("22nm"), quantity("twelve")
    (524288.0, 2.2e-08, None)
    """
    parsed = read_quantity(text)
    return parsed.value if parsed is not None else None


def without_units(text: str) -> str:
    """An expression with the number that each quantity in it stands for. Text in quotes stays, and so do rates that count
    bits: what they are per action is not said here.

    >>> without_units("2 * 64 KiB + size")
    '2 * 524288 + size'
    """

    def plain(match: re.Match[str]) -> str:
        name = match[2] or match[3]
        if name is None or UNITS[name].per_bit:
            return match[0]
        value = _scaled(match[1], UNITS[name])
        return str(int(value)) if value.is_integer() and value < 2**53 else repr(value)

    return _INSIDE.sub(plain, text)


def complaint(text: str) -> str | None:
    """Why a text is no expression, as far as units are the reason.

    >>> complaint("64 KB")
    "there is no unit 'KB'; did you mean kB, kb, KiB or Kib?"
    """
    if any((name := match[2] or match[3]) and UNITS[name].per_bit for match in _INSIDE.finditer(text)):
        return "a rate that counts bits stands alone, as the energy or throughput of an action"
    match = _UNKNOWN.match(text)
    if match is None:
        return None
    letters = match[1].lower().replace("i", "")
    *others, last = [unit for unit in UNITS if unit.lower().replace("i", "") == letters] or [""]
    meant = f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?" if last else ""
    return f"there is no unit '{shown(match[1])}'{meant}"


def _scaled(digits: str, unit: Unit) -> float:
    # 22 nm is 2.2e-08, not 2.2000000000000002e-08: dividing by a whole power of ten is exact where multiplying is not.
    value, inverse = float(digits), 1 / unit.factor
    return value / round(inverse) if inverse > 1 and math.isclose(inverse, round(inverse)) else value * unit.factor
