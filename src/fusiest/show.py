"""Specs, mappings and evaluations as text, SVG and HTML, for terminals and notebooks."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

from fusiest.errors import SpecError
from fusiest.looptree.pseudocode import EinsumText
from fusiest.looptree.pseudocode import pseudocode as draw_pseudocode
from fusiest.looptree.svg import svg as draw_svg
from fusiest.looptree.text import text as draw_text
from fusiest.model.evaluate import Evaluation, check_tree, evaluate
from fusiest.spec import architecture as arch
from fusiest.spec.analysis import Access, EinsumInfo
from fusiest.spec.expressions import number
from fusiest.spec.spec import Spec

if TYPE_CHECKING:
    from fusiest.mapper.result import Result

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
        return None
    if spec.mapping is not None:
        check_tree(spec, spec.mapping)
    return {name: dict(info.bounds) for name, info in spec.info.einsums.items()}


def _pseudocode(spec: Spec) -> str:
    bounds = _bounds(spec)
    if bounds is None or spec.mapping is None:
        raise SpecError("pseudocode needs the workload too")
    texts = {}
    for name, info in spec.info.einsums.items():
        inputs = tuple(access_text(a) for a in info.accesses.values() if not a.output)
        texts[name] = EinsumText(access_text(info.accesses[info.output]), inputs)
    return draw_pseudocode(spec.mapping, bounds, texts)


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


def einsum_line(info: EinsumInfo) -> str:
    inputs = " * ".join(access_text(a) for a in info.accesses.values() if not a.output)
    sizes = ", ".join(f"{v}={n}" for v, n in info.bounds.items())
    copy = "  copy" if info.is_copy_operation else ""
    times = f"  x{info.n_instances}" if info.n_instances > 1 else ""
    return f"{info.name}:  {access_text(info.accesses[info.output])} = {inputs}  ({sizes}){copy}{times}"


def _architecture(nodes: tuple[arch.ArchitectureNode, ...], depth: int) -> list[str]:
    lines = []
    for node in nodes:
        pad = "  " * depth
        if isinstance(node, arch.Fork):
            lines += [f"{pad}Fork", *_architecture(node.nodes, depth + 1)]
            continue
        fanout = "".join(f" x{d.fanout} {d.name}" for d in node.spatial)
        size = f" {_size(node.size)}" if isinstance(node, arch.Memory) else ""
        lines.append(f"{pad}{type(node).__name__} {node.name}{size}{fanout}")
        if not isinstance(node, arch.Compute):
            depth += 1
    return lines


def _size(size: arch.Value) -> str:
    try:
        value = number(size, {}, "size")
    except SpecError:
        return f"({size}) bits"
    return "unlimited" if value == math.inf else bits(value)


def evaluation_text(spec: Spec, result: Evaluation) -> str:
    """Totals, then one line per Einsum with its bottleneck, then each memory's peak."""
    lines = [
        f"energy   {si(result.energy, 'J')}  (dynamic {si(result.dynamic_energy, 'J')}, leakage {si(result.leak_energy, 'J')})",
        f"latency  {si(result.latency, 's')}",
        f"EDP      {result.edp:.6g} Js",
        "",
    ]
    width = max(map(len, result.einsums))
    for name, e in result.einsums.items():
        bottleneck = max(e.latency_per_component, key=lambda c: e.latency_per_component[c])
        lines.append(f"{name:{width}}  {si(e.energy, 'J'):>10}  {si(e.latency, 's'):>10}  limited by {bottleneck}")
    lines.append("")
    sizes = {str(n.name): n.size for n in _memories(spec)}
    for memory, peak in result.peak_occupancy_bits.items():
        lines.append(f"{memory} holds at most {bits(peak)} of {_size(sizes[memory])}")
    return "\n".join(lines)


def result_text(spec: Spec, result: Result) -> str:
    """What was found: every optimal mapping in a line, then the best by energy-delay product in full."""
    best = result.best(result.objective[0] if len(result.objective) == 1 else "edp")
    state = "proven optimal" if result.optimal else f"not proven optimal: at most {result.gap:.2%} better is possible"
    seconds = f"{result.stats.wall_seconds:.2f} s, {sum(result.stats.pmappings.values()):,} pmappings"
    lines = [f"{len(result.mappings)} mapping{'s' if len(result.mappings) != 1 else ''}, {state} ({seconds})"]
    for m in result.mappings:
        mark = "  <- shown below" if m is best and len(result.mappings) > 1 else ""
        lines.append(f"  {si(m.energy, 'J'):>10}  {si(m.latency, 's'):>10}  EDP {m.edp:.6g} Js{mark}")
    bounds = {name: dict(info.bounds) for name, info in spec.info.einsums.items()}
    drawing = draw_text(best.looptree, bounds)
    return "\n".join([*lines, "", drawing, "", evaluation_text(spec, evaluate(spec, best.looptree))])


def _memories(spec: Spec) -> list[arch.Memory]:
    return [node for node in arch.flatten(spec.require_arch().nodes) if isinstance(node, arch.Memory)]


def spec_html(spec: Spec) -> str:
    """For notebooks: the text, and the mapping drawn."""
    drawing = mapping_svg(spec) if spec.mapping is not None else ""
    return f"<pre>{html.escape(show_text(spec))}</pre>{drawing}"
