"""A mapping as a program, and the program as text: the way from a spec and a LoopTree to each printer."""

from __future__ import annotations

from fusiest.base.errors import SpecError
from fusiest.code.bodies import body_of
from fusiest.code.lowering.lower import lower
from fusiest.code.lowering.stand_in import apart_as_written
from fusiest.code.printing.pseudocode import Pseudocode
from fusiest.code.shapes import shapes
from fusiest.looptree import LoopTree
from fusiest.model import check_tree
from fusiest.spec import Spec


def pseudocode(spec: Spec, tree: LoopTree | None = None) -> str:
    """A mapping, by default the spec's own, as a loop nest for people. Without an architecture, memories stand as they are written."""
    tree = tree if tree is not None else spec.mapping
    if tree is None:
        raise SpecError("no file has a section 'mapping:'")
    check_tree(spec, tree)
    paths, common = apart_as_written(spec, tree)
    found = shapes(spec.info)
    program = lower(
        spec.info, paths, common, {name: body_of(einsum) for name, einsum in spec.info.einsums.items()}, found
    )
    return Pseudocode(program, found).text()
