"""A LoopTree as a standalone SVG, drawn as in the paper: loops are rectangles, holders cylinders, computes ovals.

Splits fan out into columns, which run from left to right. Nothing outside the file is used: no script, no font.
Widths are estimated from above for the common sans-serif fonts, so that no text leaves its box.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from fusiest.looptree.nodes import (
    Compute,
    HolderNode,
    Loop,
    LoopTree,
    Node,
    Sequential,
    Spatial,
    Storage,
    Temporal,
    Toll,
)
from fusiest.looptree.text import BoundsByEinsum, einsums, holder_words, iterations, loop_words, place_words, tile_words

_MARGIN = 20  # around the drawing, in pixels as all lengths here
_COLUMN_GAP = 24
_STEP = 16  # from a box down to the next
_FAN = 32  # from a box down to the branches of a split
_LARGE, _SMALL = 13, 11  # font sizes
_CAP = 7  # half the height of a cylinder's lid
_CHIP = 20  # height of a tensor's chip

_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
"""Okabe and Ito's colours, which colour-blind readers can tell apart. Tensors beyond eight get dashed outlines."""
_DASHES = ("", "4 2", "1.5 2")

_STYLE = """
.looptree { max-width: 100%; height: auto; font-family: Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; }
.looptree text { font-size: 13px; fill: #1f2328; text-anchor: middle; }
.looptree .small { font-size: 11px; fill: #57606a; }
.looptree .strong { font-weight: bold; }
.looptree .background { fill: #ffffff; }
.looptree .edge { fill: none; stroke: #8c959f; stroke-width: 1.5; }
.looptree .shape { fill: #ffffff; stroke: #424a53; stroke-width: 1.3; }
.looptree .holder .shape { fill: #f3f5f7; }
.looptree .holder .lid { fill: #fbfcfd; }
.looptree .compute .shape { fill: #e4e8ec; }
.looptree .toll .shape { stroke-dasharray: 5 3; }
.looptree .chip { fill-opacity: 0.22; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
.looptree text { fill: #e6edf3; }
.looptree .small { fill: #adb6c0; }
.looptree .background { fill: #0f1318; }
.looptree .edge { stroke: #768390; }
.looptree .shape { fill: #161b22; stroke: #adb6c0; }
.looptree .holder .shape { fill: #22282f; }
.looptree .holder .lid { fill: #2d343c; }
.looptree .compute .shape { fill: #333b44; }
.looptree .chip { fill-opacity: 0.38; }
}
"""


@dataclass(frozen=True, slots=True)
class _Drawing:
    """A node, drawn with its upper left corner at the origin."""

    kind: str
    title: str
    width: int
    height: int
    body: str


@dataclass(frozen=True, slots=True)
class _Column:
    """Boxes one below the other, centred, and under them the columns of a split side by side."""

    boxes: tuple[_Drawing, ...]
    branches: tuple[_Column, ...]

    @property
    def fan_width(self) -> int:
        return sum(b.width for b in self.branches) + _COLUMN_GAP * max(0, len(self.branches) - 1)

    @property
    def width(self) -> int:
        return max([self.fan_width, *(box.width for box in self.boxes)])

    @property
    def height(self) -> int:
        stack = sum(box.height for box in self.boxes) + _STEP * max(0, len(self.boxes) - 1)
        return stack + (_FAN + max(b.height for b in self.branches) if self.branches else 0)


def svg(tree: LoopTree, bounds: BoundsByEinsum | None = None) -> str:
    """The tree as an SVG document; loops show their iterations where the bounds are known.

    >>> svg(LoopTree(nodes=(Compute(einsum="A", component="MAC"),))).startswith("<svg xmlns=")
    True
    """
    tensors = [t for path in tree.paths() for n in path if isinstance(n, Storage | Toll) for t in n.tensors]
    colours = {tensor: i for i, tensor in enumerate(dict.fromkeys(tensors))}
    column = _column(tree.nodes, (), bounds or {}, colours)
    width, height = column.width + 2 * _MARGIN, column.height + 2 * _MARGIN
    size = f'width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="looptree" role="img" {size} viewBox="0 0 {width} {height}">',
            f"<title>{_xml('LoopTree: ' + ', '.join(einsums(tree.nodes)))}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="background" {size}/>',
            *_draw(column, _MARGIN + column.width / 2, _MARGIN),
            "</svg>\n",
        ]
    )


def _column(
    nodes: tuple[Node, ...], above: tuple[Loop, ...], bounds: BoundsByEinsum, colours: Mapping[str, int]
) -> _Column:
    boxes: list[_Drawing] = []
    users = einsums(nodes)
    for node in nodes:
        if isinstance(node, Sequential):
            branches = tuple(_column(branch.nodes, above, bounds, colours) for branch in node.nodes)
            return _Column(tuple(boxes), branches)
        if isinstance(node, Temporal | Spatial):
            boxes.append(_loop(node, loop_words(node, iterations(node, above, users, bounds)), tile_words(node, users)))
            above = (*above, node)
        elif isinstance(node, Compute):
            boxes.append(_compute(node))
        else:
            boxes.append(_holder(node, colours, row=min(900, 190 * max(1, len(users)))))
    return _Column(tuple(boxes), ())


def _draw(column: _Column, centre: float, top: float) -> list[str]:
    """Edges before the boxes that they lead to."""
    lines = []
    y = top
    for i, box in enumerate(column.boxes):
        if i:
            lines.append(_edge(f"M{centre:g} {y:g}v{_STEP}"))
            y += _STEP
        lines.append(
            f'<g class="node {box.kind}" transform="translate({centre - box.width / 2:g} {y:g})">'
            f"<title>{_xml(box.title)}</title>{box.body}</g>"
        )
        y += box.height
    x = centre - column.fan_width / 2
    for branch in column.branches:
        middle = x + branch.width / 2
        lines.append(_edge(f"M{centre:g} {y:g}v{_FAN // 2}H{middle:g}v{_FAN // 2}"))
        lines += _draw(branch, middle, y + _FAN)
        x += branch.width + _COLUMN_GAP
    return lines


def _edge(path: str) -> str:
    return f'<path class="edge" d="{path}"/>'


def _loop(loop: Loop, head: str, tiles: str) -> _Drawing:
    tail = f"{tiles}{place_words(loop)}"
    width, height = _even(max(_width(head, _LARGE), _width(tail, _SMALL)) + 24), 42
    body = f'<rect class="shape" width="{width}" height="{height}" rx="2"/>'
    if isinstance(loop, Spatial):
        body += f'<rect class="shape" x="3.5" y="3.5" width="{width - 7}" height="{height - 7}" rx="1"/>'
    body += _text(head, width / 2, 19) + _text(tail, width / 2, 33, "small")
    kind = "loop spatial" if isinstance(loop, Spatial) else "loop temporal"
    return _Drawing(kind, f"{head} ({tail})", width, height, body)


def _compute(node: Compute) -> _Drawing:
    # An oval is narrower at the height of its text: at 17 of 23 pixels off the middle, 0.67 of its width.
    words = max(_width(node.einsum, _LARGE, strong=True), _width(node.component, _SMALL))
    width, height = _even(max(80, words / 0.67 + 12)), 46
    rx, ry = width // 2, height // 2
    body = f'<ellipse class="shape" cx="{rx}" cy="{ry}" rx="{rx}" ry="{ry}"/>'
    body += _text(node.einsum, rx, 21, "strong") + _text(node.component, rx, 35, "small")
    return _Drawing("compute", f"{node.einsum} on {node.component}", width, height, body)


def _holder(node: HolderNode, colours: Mapping[str, int], row: int) -> _Drawing:
    """The memory's name and then a chip per tensor, in rows of at most `row` pixels where that is possible."""
    name = node.component + (" (persistent)" if isinstance(node, Storage) and node.persistent else "")
    items = [(name, _width(name, _LARGE, strong=True)), *((t, _width(t, _LARGE) + 14) for t in node.tensors)]
    rows: list[list[tuple[str, int]]] = [[]]
    for item in items:
        if rows[-1] and _row_width([*rows[-1], item]) > row:
            rows.append([])
        rows[-1].append(item)
    width = _even(max(_row_width(r) for r in rows) + 24)
    height = 2 * _CAP + len(rows) * (_CHIP + 4) + 10
    body = _cylinder(width, height)
    for i, r in enumerate(rows):
        x, y = (width - _row_width(r)) / 2, 2 * _CAP + 4 + i * (_CHIP + 4)
        for j, (text, w) in enumerate(r):
            body += _text(text, x + w / 2, y + 15, "strong") if i == j == 0 else _chip(text, colours[text], x, y, w)
            x += w + 6
    kind = "holder toll" if isinstance(node, Toll) else "holder storage"
    return _Drawing(kind, f"{', '.join(node.tensors)} {holder_words(node)}", width, height, body)


def _row_width(row: Sequence[tuple[str, int]]) -> int:
    return sum(width for _, width in row) + 6 * (len(row) - 1)


def _cylinder(width: int, height: int) -> str:
    rx = width // 2
    arc = f"a{rx} {_CAP} 0 0 1"
    return (
        f'<path class="shape" d="M0 {_CAP}{arc} {width} 0v{height - 2 * _CAP}{arc} {-width} 0z"/>'
        f'<ellipse class="shape lid" cx="{rx}" cy="{_CAP}" rx="{rx}" ry="{_CAP}"/>'
    )


def _chip(tensor: str, number: int, x: float, y: float, width: int) -> str:
    colour = _PALETTE[number % len(_PALETTE)]
    dashes = _DASHES[number // len(_PALETTE) % len(_DASHES)]
    outline = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<rect class="chip" x="{x:g}" y="{y:g}" width="{width}" height="{_CHIP}" rx="6" '
        f'fill="{colour}" stroke="{colour}"{outline}/>' + _text(tensor, x + width / 2, y + 14.5)
    )


def _text(text: str, x: float, y: float, style: str = "") -> str:
    attribute = f' class="{style}"' if style else ""
    return f'<text x="{x:g}" y="{y:g}"{attribute}>{_xml(text)}</text>'


def _xml(text: str) -> str:
    """Escaped, and without the characters that no XML document may hold."""
    return escape(re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text))


def _width(text: str, size: int, strong: bool = False) -> int:
    return int(sum(map(_ems, text)) * size * (1.12 if strong else 1)) + 1


def _ems(character: str) -> float:
    """An upper bound of a character's width in Helvetica, Arial and DejaVu Sans (the widest), in units of the size."""
    if character in "fijlrtI.,:;'|!()[]/- ":
        return 0.45
    if character in "mwMW@%":
        return 1.02
    if not character.isascii():
        return 1.3
    if character.islower() or character.isdigit() or character == "_":
        return 0.65
    return 0.79 if character.isalpha() else 0.84


def _even(width: float) -> int:
    return 2 * -int(-width // 2)
