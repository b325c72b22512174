"""Quantities as people write them: `64 KiB`, `22nm`, `0.8 pJ`. Everything becomes SI units and bits."""

from __future__ import annotations

import math
import re

_PREFIXES = {"f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6,
             "G": 1e9, "T": 1e12}  # fmt: skip
_PREFIXED = ("J", "s", "Hz", "V", "A", "W", "F", "Ω", "ohm", "m", "S/s")
_BYTES = {"B": 8, "kB": 8e3, "MB": 8e6, "GB": 8e9, "TB": 8e12}
_BITS = {"b": 1, "bit": 1, "bits": 1, "kb": 1e3, "Mb": 1e6, "Gb": 1e9, "Tb": 1e12}
_BINARY = {
    f"{prefix}i{unit}": bits * 1024**power
    for power, prefix in enumerate("KMGT", 1)
    for unit, bits in (("B", 8), ("b", 1))
}

UNITS: dict[str, float] = {
    **{prefix + unit: factor for unit in _PREFIXED for prefix, factor in _PREFIXES.items()},
    **{f"{prefix}m{square}": factor**2 for prefix, factor in _PREFIXES.items() for square in ("2", "²", "^2")},
    **_BYTES,
    **_BITS,
    **_BINARY,
    **{f"{unit}/s": factor for unit, factor in {**_BYTES, **_BITS, **_BINARY}.items()},
}
"""A unit and what one of it is in joules, seconds, hertz, volts, amperes, watts, farads, ohms, metres, their squares, or bits."""

_QUANTITY = re.compile(r"\s*([-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([^\W\d_][\w/²^]*)\s*\Z")


def quantity(text: str) -> float | None:
    """The number that a text with a unit stands for; None if it is not one.

    >>> quantity("64 KiB"), quantity("22nm"), quantity("twelve")
    (524288.0, 2.2e-08, None)
    """
    found = _QUANTITY.match(text)
    if found is None or found[2] not in UNITS:
        return None
    factor = UNITS[found[2]]
    # 22 nm is 2.2e-08, not 2.2000000000000002e-08: dividing by a whole power of ten is exact where multiplying is not.
    value = float(found[1])
    return value / round(1 / factor) if factor < 1 and math.isclose(1 / factor, round(1 / factor)) else value * factor
