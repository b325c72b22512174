"""Colours that colour-blind readers can tell apart, also on paper. Python and the page use the same ones.

A tensor's hue is its role: the blue, green, orange and purple of Okabe and Ito; its shade is its own. On grey paper roles
differ by how dark they are and by hatching. Beyond a palette's length shades repeat with another hatching. Components are
steps of one scale, outermost darkest, so that they are never taken for tensors. Computes and leakage are grey, and nothing
else is, but for what others are compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SERIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#8C8C8C")
"""Okabe and Ito's colours, for series that have no role."""
HATCHES = ("", "/", "x", ".")
ROLES: Mapping[str, Sequence[str]] = {
    "weight": ("#0072B2", "#6FB3DE", "#0B4468", "#A9D3EE", "#2E8BC4", "#135A87"),
    "cache": ("#009E73", "#6CCBB0", "#005B42", "#B0E3D4", "#2FB38E", "#007A58"),
    "activation": ("#E69F00", "#F7D27F", "#A66E00", "#FBE7BC", "#EFB63C", "#C68600"),
}
SETS = ("#4477AA", "#CCBB44", "#228833", "#AA3377", "#66CCEE", "#EE6677", "#BBBBBB")
"""Tol's bright colours, for sets of fused Einsums."""
COMPONENTS = ("#3B4A80", "#34748E", "#2BA08B", "#6CB95A", "#B3BD33", "#DDB321")
"""Steps of a scale from dark to light."""
COMPUTES = ("#6E6E6E", "#A3A3A3", "#C9C9C9")
"""Greys of computes, the same in every chart. The first is also what computing takes where there is one compute."""
PLAIN = {
    "found": ("#0072B2", ""), "other": ("#8C8C8C", ""), "bound": ("#D55E00", ""),
    "partial": ("#CC79A7", "/"), "compute": (COMPUTES[0], ""), "leak": ("#B4B4B4", "x"),
    **{f"rest-{role}": (shades[1], ".") for role, shades in ROLES.items()},
}  # fmt: skip
"""Colours by a name of their own, with their hatching."""

PALETTES: Mapping[str, Sequence[str]] = {**ROLES, "set": SETS, "component": COMPONENTS, "computes": COMPUTES}


def colour(name: str) -> tuple[str, str]:
    """The colour and the hatching that a chart's colour name stands for.

    >>> colour("weight:1"), colour("weight:7"), colour("found"), colour("rest-weight")
    (('#6FB3DE', ''), ('#6FB3DE', '/'), ('#0072B2', ''), ('#6FB3DE', '.'))
    """
    palette, _, number = name.partition(":")
    if not number:
        return PLAIN[palette]
    colours = PALETTES[palette]
    again, index = divmod(int(number), len(colours))
    return colours[index], HATCHES[again % len(HATCHES)]


def ink(color: str) -> str:
    """Black or white, whichever is read more easily on this colour (relative luminance as in WCAG).

    >>> ink("#4477AA"), ink("#CCBB44")
    ('white', 'black')
    """
    shares = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.2 else "white"
