from __future__ import annotations

import re
from itertools import combinations, pairwise
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from fusiest.base.frozen import FrozenDict
from fusiest.looptree.nodes import Compute, LoopTree, Nested, Node, Sequential, Spatial, Storage, Temporal, Toll
from fusiest.looptree.svg import svg

NAMESPACE = "{http://www.w3.org/2000/svg}"
# What DejaVu Sans, the widest font that is likely to be used, needs for the characters 32..126: thousandths of the size.
REGULAR = """
318 401 460 838 637 951 780 275 391 391 500 838 318 361 318 337 637 637 637 637 637 637 637 637 637 637 337 337 838 838
838 531 1000 685 687 699 771 632 576 775 752 295 295 656 558 863 749 788 604 788 695 635 611 732 685 989 686 611 686 391
337 391 838 500 500 613 635 550 635 616 353 635 634 278 278 580 278 975 634 612 635 635 412 521 393 634 592 818 592 592
525 637 337 637 838"""
BOLD = """
349 457 521 838 696 1002 873 307 458 458 523 838 380 416 380 366 696 696 696 696 696 696 696 696 696 696 400 400 838 838
838 581 1000 774 763 734 831 684 684 821 837 373 373 775 638 996 837 851 733 851 771 721 683 813 774 1104 771 725 726
458 366 458 838 500 500 675 716 593 716 679 436 716 712 343 343 666 343 1042 712 688 716 716 494 596 479 712 652 924 646
652 583 712 366 712 838"""
HOSTILE = ['<script>alert("&")</script>', "a]]>b", "nul\x00\x0b\ud800", "W" * 80, "-->", "名前"]


class SvgBox(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: SvgBox) -> bool:
        across = self.x < other.x + other.width and other.x < self.x + self.width
        return across and self.y < other.y + other.height and other.y < self.y + self.height


def compute(einsum: str) -> Compute:
    return Compute(einsum=einsum, component="MAC")


def chain(name: str) -> Nested:
    return Nested(
        nodes=(
            Storage(tensors=(f"in_{name}", "shared", f"weights_of_{name}"), component="GlobalBuffer"),
            Temporal(rank_variable="m", tile_shape=4),
            Spatial(rank_variable="m", tile_shape=1, component="PE", name="X"),
            Toll(tensors=(name,), component="NoC"),
            compute(name),
        )
    )


def wide_tree(einsums: int = 10) -> LoopTree:
    """Two splits, the inner one in the middle of the outer, under a chain with a renamed rank."""
    names = [f"Einsum{i}" for i in range(einsums)]
    inner = Nested(nodes=(Sequential(nodes=tuple(chain(name) for name in names[1:4])),))
    branches = (chain(names[0]), inner, *(chain(name) for name in names[4:]))
    top: tuple[Node, ...] = (
        Storage(tensors=tuple(f"T{i}" for i in range(30)), component="DRAM", persistent=True),
        Temporal(rank_variable=FrozenDict({name: f"m{i % 3}" for i, name in enumerate(names)}), tile_shape=2),
    )
    return LoopTree(nodes=(*top, Sequential(nodes=branches)))


def hostile_tree() -> LoopTree:
    nodes: list[Node] = [Storage(tensors=tuple(HOSTILE), component=name) for name in HOSTILE]
    nodes += [Temporal(rank_variable=name, tile_shape=1) for name in HOSTILE]
    nodes += [Spatial(rank_variable=name, tile_shape=1, component=name, name=name) for name in HOSTILE]
    return LoopTree(nodes=(*nodes, Compute(einsum="&".join(HOSTILE), component=HOSTILE[0])))


def small_tree() -> LoopTree:
    return LoopTree(nodes=chain("A").nodes)


def parse(drawing: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawing.encode())


def node_groups(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [g for g in root.iter(f"{NAMESPACE}g") if "node" in g.get("class", "").split()]


def number(element: ElementTree.Element, name: str) -> float:
    return float(element.get(name, "0"))


def shape(group: ElementTree.Element) -> SvgBox:
    """The outline of a node relative to its group: the union of what it is drawn with."""
    boxes = []
    for element in group:
        if element.tag == f"{NAMESPACE}rect":
            boxes.append(SvgBox(*(number(element, key) for key in ("x", "y", "width", "height"))))
        elif element.tag == f"{NAMESPACE}ellipse":
            cx, cy, rx, ry = (number(element, key) for key in ("cx", "cy", "rx", "ry"))
            boxes.append(SvgBox(cx - rx, cy - ry, 2 * rx, 2 * ry))
        elif element.tag == f"{NAMESPACE}path":  # a cylinder's side: M0 cap, arc over, down, arc back
            found = re.fullmatch(r"M0 (\d+)a\d+ \1 0 0 1 (\d+) 0v(\d+)a\d+ \1 0 0 1 -\2 0z", element.get("d", ""))
            assert found
            cap, width, side = map(int, found.groups())
            boxes.append(SvgBox(0, 0, width, side + 2 * cap))
    left, top = min(b.x for b in boxes), min(b.y for b in boxes)
    right, bottom = max(b.x + b.width for b in boxes), max(b.y + b.height for b in boxes)
    return SvgBox(left, top, right - left, bottom - top)


def placed(group: ElementTree.Element) -> SvgBox:
    found = re.fullmatch(r"translate\((\S+) (\S+)\)", group.get("transform", ""))
    assert found
    box = shape(group)
    return SvgBox(float(found[1]) + box.x, float(found[2]) + box.y, box.width, box.height)


def text_width(element: ElementTree.Element) -> float:
    styles = element.get("class", "").split()
    table = [int(width) for width in (BOLD if "strong" in styles else REGULAR).split()]
    ems = sum(table[ord(c) - 32] if " " <= c <= "~" else 1000 for c in element.text or "") / 1000
    return ems * (11 if "small" in styles else 13)


TREES = [small_tree(), wide_tree(), hostile_tree()]


@pytest.mark.parametrize("tree", TREES)
def test_boxes_do_not_overlap_and_lie_in_the_picture(tree: LoopTree) -> None:
    root = parse(svg(tree))
    boxes = [placed(group) for group in node_groups(root)]
    assert len(boxes) == len({id(node) for path in tree.paths() for node in path})
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    width, height = number(root, "width"), number(root, "height")
    assert all(b.x >= 0 and b.y >= 0 and b.x + b.width <= width and b.y + b.height <= height for b in boxes)


@pytest.mark.parametrize("tree", TREES)
def test_text_fits_its_box_and_its_chip(tree: LoopTree) -> None:
    for group in node_groups(parse(svg(tree, {"Einsum0": {"m": 1000, "m0": 123456}}))):
        outline, chip = shape(group), None
        for element in group:
            if element.tag == f"{NAMESPACE}text":
                frame = chip or outline
                half, x = text_width(element) / 2, number(element, "x")
                if group.get("class") == "node compute":
                    off = max(abs(number(element, "y") - 23 + up) for up in (3, -9)) / 23  # descent, height of capitals
                    chord = outline.width * (1 - off**2) ** 0.5
                    frame = SvgBox((outline.width - chord) / 2, 0, chord, 0)
                assert frame.x <= x - half
                assert x + half <= frame.x + frame.width
            is_chip = element.get("class") == "chip"
            chip = SvgBox(*(number(element, key) for key in ("x", "y", "width", "height"))) if is_chip else None


def test_hostile_names_are_text() -> None:
    root = parse(svg(hostile_tree()))
    shown = [element.text for element in root.iter(f"{NAMESPACE}text")]
    assert '<script>alert("&")</script>' in shown
    assert "nul\ufffd\ufffd\ufffd" in shown
    assert not list(root.iter(f"{NAMESPACE}script"))


def test_labels_with_and_without_bounds() -> None:
    def labels(drawing: str) -> list[str | None]:
        return [element.text for element in parse(drawing).iter(f"{NAMESPACE}text")]

    assert labels(svg(small_tree(), {"A": {"m": 8}})) == [
        *("GlobalBuffer", "in_A", "shared", "weights_of_A"),
        *("for m in 0..2", "tile 4"),
        *("parallel-for m in 0..4", "tile 1 on PE.X"),
        *("NoC", "A"),
        *("A", "MAC"),
    ]
    assert "for m" in labels(svg(small_tree()))


def test_kinds_are_told_apart() -> None:
    groups = {group.get("class"): group for group in node_groups(parse(svg(small_tree())))}
    outlines = {
        kind: [element.tag.removeprefix(NAMESPACE) for element in group if "shape" in element.get("class", "").split()]
        for kind, group in groups.items()
    }
    assert outlines == {
        "node holder storage": ["path", "ellipse"],
        "node loop temporal": ["rect"],
        "node loop spatial": ["rect", "rect"],
        "node holder toll": ["path", "ellipse"],
        "node compute": ["ellipse"],
    }


def test_a_tensor_keeps_its_colour_and_tensors_differ() -> None:
    looks: dict[str | None, set[tuple[str | None, str | None]]] = {}
    tree = LoopTree(
        nodes=(
            Storage(tensors=tuple(f"T{i}" for i in range(20)), component="DRAM"),
            Storage(tensors=("T19", "T3"), component="Buf"),
        )
    )
    for group in node_groups(parse(svg(tree))):
        children = list(group)
        for chip, label in pairwise(children):
            if chip.get("class") == "chip":
                looks.setdefault(label.text, set()).add((chip.get("fill"), chip.get("stroke-dasharray")))
    assert all(len(look) == 1 for look in looks.values())
    assert len({look for (look,) in looks.values()}) == 20


def test_branches_stand_side_by_side_in_execution_order() -> None:
    drawn = [g for g in node_groups(parse(svg(wide_tree()))) if g.get("class") == "node compute"]
    centres = [placed(g).x + placed(g).width / 2 for g in drawn]
    assert centres == sorted(centres)
    assert [g.findtext(f"{NAMESPACE}text") for g in drawn] == [f"Einsum{i}" for i in range(10)]


def test_standalone_titled_and_readable_in_the_dark() -> None:
    drawing = svg(small_tree())
    assert parse(drawing).findtext(f"{NAMESPACE}title") == "LoopTree: A"
    assert "prefers-color-scheme: dark" in drawing
    assert not re.search(r"href|url\(|@import|<script|<image", drawing)
    assert svg(small_tree()) == drawing


def test_notebooks_show_the_drawing() -> None:
    assert small_tree()._repr_html_() == svg(small_tree())


def test_empty_tree() -> None:
    assert not node_groups(parse(svg(LoopTree(nodes=()))))
