"""Mappings: node types, and how they are drawn: `draw_text` and `draw_svg`, loaded when first used.

`nodes` is a module of node types, which others name as a whole.
"""

from typing import TYPE_CHECKING

from fusiest.base.doors import lazy
from fusiest.looptree import nodes
from fusiest.looptree.nodes import (
    Compute,
    Loop,
    LoopTree,
    Nested,
    Node,
    Sequential,
    Spatial,
    Storage,
    Temporal,
    Tiling,
    Toll,
    tiling_in,
    variable_in,
)

if TYPE_CHECKING:
    from fusiest.looptree.svg import svg as draw_svg
    from fusiest.looptree.text import einsums, iterations, loop_words, outline, rank_words, tile_words
    from fusiest.looptree.text import text as draw_text

__all__ = [
    "Compute", "Loop", "LoopTree", "Nested", "Node", "Sequential", "Spatial", "Storage", "Temporal",
    "Tiling", "Toll", "draw_svg", "draw_text", "einsums", "iterations", "loop_words", "nodes",
    "outline", "rank_words", "tile_words", "tiling_in", "variable_in",
]  # fmt: skip

if not TYPE_CHECKING:  # most commands draw nothing
    __getattr__, __dir__ = lazy(__name__)
