"""Colours that colour-blind readers can tell apart. Python and the page use the same ones.

Beyond a palette's length colours repeat with another hatching. Components are shades of one scale, outermost darkest,
so that they are never taken for tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

TENSORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#8C8C8C")
"""Okabe and Ito's colours."""
HATCHES = ("", "/", "x", ".")
SETS = ("#4477AA", "#CCBB44", "#228833", "#AA3377", "#66CCEE", "#EE6677", "#BBBBBB")
"""Tol's bright colours, for sets of fused Einsums."""
COMPONENTS = ("#3B4A80", "#34748E", "#2BA08B", "#6CB95A", "#B3BD33", "#DDB321")
"""Steps of a scale from dark to light."""
PLAIN = {"found": "#0072B2", "other": "#8C8C8C", "leak": "#D55E00"}

PALETTES: Mapping[str, Sequence[str]] = {"tensor": TENSORS, "set": SETS, "component": COMPONENTS}


def colour(name: str) -> tuple[str, str]:
    """The colour and the hatching that a chart's colour name stands for.

    >>> colour("tensor:1"), colour("tensor:9"), colour("found")
    (('#E69F00', ''), ('#E69F00', '/'), ('#0072B2', ''))
    """
    palette, _, number = name.partition(":")
    if not number:
        return PLAIN[palette], ""
    colours = PALETTES[palette]
    again, index = divmod(int(number), len(colours))
    return colours[index], HATCHES[again % len(HATCHES)]
