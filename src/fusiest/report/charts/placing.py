"""Names beside points on logarithmic axes: they never cover each other, and no points where there is room elsewhere.

A name for which there is no room is left out: the point says it when pointed at, and the table of numbers has it.

Points that are drawn on top of each other share one text. What is free depends on how large the chart is drawn; this is
worked out once, for a middling size, so that the page and the files have the names in the same places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fusiest.report.charts.chart import Note

WIDTH, HEIGHT = 330.0, 200.0
"""Size of the part of the plane that has points, in pixels."""
LETTER, LINE, GAP, MARK = 6.2, 13.0, 8.0, 5.0
"""A letter's width, a text's height, from a point's middle to its text, and half of a point's mark."""
MOST_SHARING = 3
SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
"""Right and up, in the order in which they are tried."""

LabelPlace = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Rectangle:
    left: float
    top: float
    right: float
    bottom: float

    def shared(self, other: _Rectangle) -> float:
        """The area of what both cover."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(0.0, wide) * max(0.0, high)


def placed(
    named: Mapping[str, LabelPlace], points: Sequence[LabelPlace], lines: Sequence[tuple[LabelPlace, LabelPlace]] = ()
) -> list[Note]:
    """A note per name that has room, or per few names whose points meet. All of `points` and `lines` are drawn.

    >>> [(note.text, note.right, note.up) for note in placed({"A": (1, 1), "B": (1, 1), "C": (100, 10)}, [(1, 1), (100, 10)])]
    [('A, B', 1, 0), ('C', -1, 0)]
    """
    pixels = _scale([*points, *(end for line in lines for end in line)])
    taken = [_Rectangle(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in {pixels(p) for p in points}]
    for a, b in lines:
        taken += _stretch(pixels(a), pixels(b))
    notes: list[Note] = []
    texts: list[_Rectangle] = []
    for group in _groups({name: pixels(place) for name, place in named.items()}):
        text = ", ".join(group[:MOST_SHARING]) + (f" +{len(group) - MOST_SHARING}" if len(group) > MOST_SHARING else "")
        point = pixels(named[group[0]])
        free = [side for side in SIDES if not any(_covered(text, point, side).shared(other) for other in texts)]
        if not free:
            continue
        right, up = min(free, key=lambda side: _cost(_covered(text, point, side), taken))
        texts.append(_covered(text, point, (right, up)))
        taken.append(texts[-1])
        x, y = named[group[0]]
        notes.append(Note(x=x, y=y, text=text, right=right, up=up))
    return notes


def _groups(pixels: Mapping[str, LabelPlace]) -> list[list[str]]:
    """Names whose points are drawn on top of each other are together."""
    groups: list[list[str]] = []
    for name, place in pixels.items():
        near = next((g for g in groups if math.dist(pixels[g[0]], place) < 2 * MARK), None)
        if near is None:
            groups.append([name])
        else:
            near.append(name)
    return groups


def _scale(shown: Sequence[LabelPlace]) -> Callable[[LabelPlace], LabelPlace]:
    """From the axes to pixels, y downwards."""
    logs = [(math.log10(x), math.log10(y)) for x, y in shown]
    lows = [min(values) for values in zip(*logs, strict=True)] or [0.0, 0.0]
    spans = [max(values) - min(values) or 1.0 for values in zip(*logs, strict=True)] or [1.0, 1.0]

    def pixels(place: LabelPlace) -> LabelPlace:
        x, y = (math.log10(v) - low for v, low in zip(place, lows, strict=True))
        return round(x / spans[0] * WIDTH, 3), round(HEIGHT - y / spans[1] * HEIGHT, 3)

    return pixels


def _stretch(a: LabelPlace, b: LabelPlace) -> list[_Rectangle]:
    """A line as small squares."""
    count = math.ceil(math.dist(a, b) / MARK) + 1
    middles = [(a[0] + (b[0] - a[0]) * i / count, a[1] + (b[1] - a[1]) * i / count) for i in range(count + 1)]
    return [_Rectangle(x - MARK / 2, y - 1, x + MARK / 2, y + 1) for x, y in middles]


def _covered(text: str, point: LabelPlace, side: tuple[int, int]) -> _Rectangle:
    width = LETTER * len(text)
    x, y = point[0] + side[0] * (GAP + width / 2), point[1] - side[1] * (GAP + LINE / 2)
    return _Rectangle(x - width / 2, y - LINE / 2, x + width / 2, y + LINE / 2)


def _cost(label: _Rectangle, taken: Sequence[_Rectangle]) -> float:
    """What it covers of others, and how much of it is outside."""
    inside = label.shared(_Rectangle(-GAP, -2 * LINE, WIDTH + GAP, HEIGHT + LINE))
    whole = (label.right - label.left) * (label.bottom - label.top)
    return sum(label.shared(rectangle) for rectangle in taken) + 2 * (whole - inside)
