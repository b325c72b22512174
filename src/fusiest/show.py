"""Specs and mappings as text, SVG and HTML, for terminals and notebooks."""

from __future__ import annotations

import html
import math
from dataclasses import replace

from fusiest.errors import SpecError
from fusiest.frozen import FrozenDict
from fusiest.looptree.pseudocode import EinsumText
from fusiest.looptree.pseudocode import pseudocode as draw_pseudocode
from fusiest.looptree.svg import svg as draw_svg
from fusiest.looptree.text import text as draw_text
from fusiest.model.evaluate import check_size, check_tree
from fusiest.spec import architecture as arch
from fusiest.spec.analysis import Access, EinsumInfo
from fusiest.spec.expressions import number
from fusiest.spec.fields import Value, tag_of
from fusiest.spec.spec import Spec

_PREFIXES = (
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
    (1e-12, "p"),
    (1e-15, "f"),
)


def si(value: float, unit: str) -> str:
    """A number with four digits and an SI prefix.

    >>> si(0.00319, "s")
    '3.19 ms'
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    factor, prefix = next(((f, p) for f, p in _PREFIXES if abs(value) >= f), _PREFIXES[-1])
    return f"{value / factor:.4g} {prefix}{unit}"


def bits(count: float) -> str:
    """A size in bits, in bytes where that is whole and large.

    >>> bits(1024 * 8), bits(24)
    ('1 KiB', '24 bits')
    """
    for factor, unit in ((8 * 2**30, "GiB"), (8 * 2**20, "MiB"), (8 * 2**10, "KiB")):
        if count >= factor and math.isfinite(count):
            return f"{count / factor:.4g} {unit}"
    return f"{count:.6g} bits"


def show_text(spec: Spec, pseudocode: bool = False) -> str:
    """All sections that the spec has."""
    if pseudocode and spec.mapping is None:
        raise SpecError("no file has a section 'mapping:' to show as pseudocode")
    parts = []
    if spec.arch is not None:
        parts.append("\n".join(["Architecture", *_architecture(spec.arch.nodes, 1)]))
    if spec.workload is not None:
        parts.append("\n".join(["Workload", *(f"  {einsum_line(info)}" for info in spec.info.einsums.values())]))
    if spec.mapping is not None:
        parts.append("Mapping\n" + (_pseudocode(spec) if pseudocode else draw_text(spec.mapping, _bounds(spec))))
    if not parts:
        raise SpecError("nothing to show: the files have no arch, workload or mapping")
    return "\n\n".join(parts)


def _bounds(spec: Spec) -> dict[str, dict[str, int]] | None:
    if spec.workload is None:
        if spec.mapping is not None:
            check_size(spec.mapping)
        return None
    if spec.mapping is not None:
        check_tree(spec, spec.mapping)
    return {name: dict(info.bounds) for name, info in spec.info.einsums.items()}


def _pseudocode(spec: Spec) -> str:
    bounds = _bounds(spec)
    if bounds is None or spec.mapping is None:
        raise SpecError("pseudocode needs the workload too")
    return draw_pseudocode(spec.mapping, bounds, {name: einsum_text(info) for name, info in spec.info.einsums.items()})


def mapping_svg(spec: Spec) -> str:
    if spec.mapping is None:
        raise SpecError("no file has a section 'mapping:' to draw")
    return draw_svg(spec.mapping, _bounds(spec))


def access_text(access: Access) -> str:
    """A tensor with its indices, as Einsum text."""
    indices = []
    for rank, affine in access.ranks.items():
        expression = str(affine)
        indices.append(expression if expression.upper() == rank else f"{rank}: {expression}")
    return f"{access.tensor}[{', '.join(indices)}]"


def einsum_text(info: EinsumInfo) -> EinsumText:
    """An Einsum as the pseudocode writes it."""
    inputs = tuple(access_text(a) for a in info.accesses.values() if not a.output)
    return EinsumText(access_text(info.accesses[info.output]), inputs, info.operation)


def einsum_line(info: EinsumInfo) -> str:
    """An Einsum as the workload has it, with the values that its rank variables take where they do not begin at 0."""
    text = einsum_text(_as_written(info))
    sizes = ", ".join(
        f"{v}={info.least[v]}..{info.least[v] + n - 1}" if info.least[v] else f"{v}={n}" for v, n in info.bounds.items()
    )
    copy = "  copy" if info.is_copy_operation else ""
    times = f"  x{info.n_instances}" if info.n_instances > 1 else ""
    return f"{info.name}:  {text.output} = {text.right_side}  ({sizes}){copy}{times}"


def _as_written(info: EinsumInfo) -> EinsumInfo:
    """With indices of variables that count from their least values, where they do not count from 0."""
    back = {v: -low for v, low in info.least.items()}
    accesses = {
        t: replace(a, ranks=FrozenDict({rank: affine.moved(back) for rank, affine in a.ranks.items()}))
        for t, a in info.accesses.items()
    }
    return replace(info, accesses=FrozenDict(accesses))


def _architecture(nodes: tuple[arch.ArchitectureNode, ...], depth: int) -> list[str]:
    lines = []
    for node in nodes:
        pad = "  " * depth
        if isinstance(node, arch.Fork):
            lines += [f"{pad}Fork", *_architecture(node.nodes, depth + 1)]
            continue
        if isinstance(node, arch.Parallel):
            memories = (line for memory in node.nodes for line in _architecture((memory,), depth + 1))
            lines += [f"{pad}Parallel", *memories]
            depth += 1
            continue
        fanout = "".join(f" x{d.fanout} {d.name}" for d in node.spatial)
        size = f" {_size(node.size)}" if isinstance(node, arch.Memory) else ""
        lines.append(f"{pad}{tag_of(type(node))[1:]} {node.name}{size}{fanout}")
        if not isinstance(node, arch.ComputeUnit):
            depth += 1
    return lines


def _size(size: Value) -> str:
    try:
        value = number(size, {}, "size")
    except SpecError:
        return f"({size}) bits"
    return "unlimited" if value == math.inf else bits(value)


def spec_html(spec: Spec) -> str:
    """For notebooks: the text, and the mapping drawn."""
    drawing = mapping_svg(spec) if spec.mapping is not None else ""
    return f"<pre>{html.escape(show_text(spec))}</pre>{drawing}"
