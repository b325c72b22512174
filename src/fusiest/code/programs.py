"""A mapping as a program, and the program as text: the way from a spec and a LoopTree to each printer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fusiest.base.errors import SpecError, check_known
from fusiest.code.bodies import Body, body_of, computed_at_points, meanings
from fusiest.code.lowering.lower import lower
from fusiest.code.lowering.stand_in import apart_as_written
from fusiest.code.lowering.statements import Program
from fusiest.code.printing.c.around import main_text, makefile
from fusiest.code.printing.c.counting import Counters, json_function, runtime
from fusiest.code.printing.c.function import CText, helpers
from fusiest.code.printing.c.tracing import Trace
from fusiest.code.printing.pseudocode import Pseudocode
from fusiest.code.printing.reserved import safe
from fusiest.code.printing.tensor_ir import module_text
from fusiest.code.shapes import TensorShape, shapes
from fusiest.looptree import LoopTree
from fusiest.model import check_tree, evaluate, take_apart
from fusiest.spec import Spec

LANGUAGES = ("pseudocode", "c", "tvm")


def pseudocode(spec: Spec, tree: LoopTree | None = None) -> str:
    """A mapping, by default the spec's own, as a loop nest for people. Without an architecture, memories stand as they are written."""
    tree = _given(spec, tree)
    check_tree(spec, tree)
    paths, common = apart_as_written(spec, tree)
    found = shapes(spec.info)
    bodies = {name: body_of(einsum) for name, einsum in spec.info.einsums.items()}
    return Pseudocode(lower(spec.info, paths, common, bodies, found), found).text()


def program_of(
    spec: Spec,
    tree: LoopTree | None = None,
    bodies: Mapping[str, Body] | None = None,
    given: Mapping[str, Sequence[int]] | None = None,
    padded: bool = False,
) -> Program:
    """The statements of a mapping that computes what its Einsums say.

    `bodies`: what they compute, if not what their texts say; `given`: shapes of inputs (`padded`: which may end before what is
    read), and of parameters.
    """
    tree = _given(spec, tree)
    warnings = evaluate(spec, tree).warnings
    if warnings:
        raise SpecError(f"no code of this mapping could be right: {warnings[0]}", warnings[0])
    parts = take_apart(spec, tree)
    if bodies is None:
        bodies = meanings(spec)
    found = {}
    for name, body in bodies.items():
        try:
            found[name] = computed_at_points(body)
        except SpecError as error:
            raise SpecError(f"Einsum {name}: {error.message}", name) from None
    known = shapes(spec.info, given, padded)
    for name, access in ((n, a) for body in found.values() for n, a in body.parameters.items()):
        size = tuple((given or {})[name])
        known[name] = TensorShape(tuple(access.ranks), (0,) * len(size), size)
    return lower(spec.info, parts.paths, parts.common, found, known, safe)


def code_text(spec: Spec, tree: LoopTree | None = None, language: str = "c") -> str:
    """A mapping as `pseudocode`, or as a function in `c` or `tvm`."""
    check_known(language, LANGUAGES, f"there is no code in '{language}'")
    if language == "pseudocode":
        return pseudocode(spec, tree)
    program = program_of(spec, tree)
    if language == "tvm":
        return module_text(program)
    text = CText(program).function("mapping")
    return helpers(text) + "\n" + text


def c_files(
    spec: Spec,
    tree: LoopTree | None = None,
    document: Mapping[str, object] | None = None,
    trace: tuple[str, str] | None = None,
) -> dict[str, str]:
    """Files by name: the function, a `main`, a Makefile; with counters, if the `document` of an evaluation is given, and with a
    `trace` of a memory in some format."""
    tree = _given(spec, tree)
    program = program_of(spec, tree)
    plain = CText(program).function("mapping")
    files = {
        "mapping.c": helpers(plain) + "\n" + plain,
        "main.c": main_text(program),
        "Makefile": makefile(document is not None, trace),
    }
    if document is not None:
        counters = Counters(program, take_apart(spec, tree), evaluate(spec, tree))
        counted = CText(program, counters).function("mapping")
        files["mapping_count.c"] = (
            helpers(counted) + runtime([counters]) + "\n" + counted + json_function(counters, document)
        )
    if trace is not None:
        traced = Trace(program, *trace)
        text = CText(program, trace=traced).function("mapping")
        files["mapping_trace.c"] = helpers(text) + traced.runtime() + "\n" + text
    return files


def _given(spec: Spec, tree: LoopTree | None) -> LoopTree:
    tree = tree if tree is not None else spec.mapping
    if tree is None:
        raise SpecError("no file has a section 'mapping:'")
    return tree
