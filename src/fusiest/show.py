"""Specs and mappings as text, SVG and HTML, for terminals and notebooks."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping

from fusiest.base.errors import SpecError, shown
from fusiest.code import einsum_words, pseudocode
from fusiest.looptree import draw_svg, draw_text
from fusiest.model import check_size, check_tree
from fusiest.spec import EinsumInfo, Spec, SpecOrigin, Value, access_text, architecture_names, number, tag_of
from fusiest.spec import architecture as arch

_PREFIXES = (
    (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"), (1e-15, "f"),
)  # fmt: skip


def si(value: float, unit: str) -> str:
    """A number with four digits and an SI prefix.

    >>> si(0.00319, "s")
    '3.19 ms'
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    factor, prefix = next(((f, p) for f, p in _PREFIXES if abs(value) >= f), _PREFIXES[-1])
    return f"{value / factor:.4g} {prefix}{unit}"


def hours(seconds: float, digits: int = 1) -> str:
    """A time that people can read.

    >>> hours(3.21), hours(500), hours(50000), hours(50000, 0)
    ('3.2 s', '8.3 min', '13.9 h', '14 h')
    """
    if seconds < 100:
        return f"{seconds:.{digits}f} s"
    return f"{seconds / 60:.{digits}f} min" if seconds < 6000 else f"{seconds / 3600:.{digits}f} h"


def bits(count: float, beside: float = 0) -> str:
    """A size in bytes; in bits where it, or one that stands beside it, is small and no whole number of bytes.

    >>> bits(1024 * 8), bits(24), bits(12), bits(24, beside=12)
    ('1 KiB', '3 B', '12 bits', '24 bits')
    """
    for factor, unit in ((8 * 2**30, "GiB"), (8 * 2**20, "MiB"), (8 * 2**10, "KiB")):
        if count >= factor and math.isfinite(count):
            return f"{count / factor:.4g} {unit}"
    broken = count % 8 or (beside < 8 * 2**10 and beside % 8)
    return f"{count:.6g} bits" if broken else f"{count / 8:g} B"


def show_text(spec: Spec, as_pseudocode: bool = False) -> str:
    """All sections that the spec has."""
    if as_pseudocode and spec.mapping is None:
        raise SpecError("no file has a section 'mapping:' to show as pseudocode")
    parts = []
    if spec.arch is not None:
        parts.append("\n".join(["Architecture", *_architecture(spec.arch.nodes, 1, _every_scope(spec))]))
    if spec.workload is not None:
        parts.append("\n".join(["Workload", *(f"  {einsum_line(info)}" for info in spec.info.einsums.values())]))
    if spec.mapping is not None:
        parts.append("Mapping\n" + (_pseudocode(spec) if as_pseudocode else draw_text(spec.mapping, _bounds(spec))))
    if not parts:
        raise SpecError("nothing to show: the files have no arch, workload or mapping")
    variables, texts = spec.variable_values
    if variables or texts:
        values = {**{name: _word(value) for name, value in variables.items()}, **dict.fromkeys(texts, "by Einsum")}
        parts.append("\n".join(["Variables", *(f"  {name} = {value}" for name, value in values.items())]))
    if spec.origin is not None and spec.origin.values:
        parts.append("\n".join(["Defines", *_defines(spec.origin)]))
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
    if _bounds(spec) is None:
        raise SpecError("pseudocode needs the workload too")
    return pseudocode(spec)


def mapping_svg(spec: Spec) -> str:
    if spec.mapping is None:
        raise SpecError("no file has a section 'mapping:' to draw")
    return draw_svg(spec.mapping, _bounds(spec))


def einsum_line(info: EinsumInfo) -> str:
    """An Einsum as the workload has it, with the values that its rank variables take where they do not begin at 0."""
    back = {v: -low for v, low in info.least.items()}
    sizes = ", ".join(
        f"{v}={info.least[v]}..{info.least[v] + n - 1}" if info.least[v] else f"{v}={n}" for v, n in info.bounds.items()
    )
    copy = "  copy" if info.is_copy_operation else ""
    times = f"  x{info.n_instances}" if info.n_instances > 1 else ""
    return f"{info.name}:  {einsum_text(info, back)}  ({sizes}){copy}{times}"


def einsum_text(info: EinsumInfo, moved: Mapping[str, int] | None = None) -> str:
    """An Einsum alone; of variables that are larger by what `moved` says."""
    by = moved or dict.fromkeys(info.bounds, 0)
    accesses = {
        tensor: access_text(tensor, [(rank, affine.moved(by)) for rank, affine in access.ranks.items()])
        for tensor, access in info.accesses.items()
    }
    return einsum_words(info, accesses)


def _architecture(
    nodes: tuple[arch.ArchitectureNode, ...], depth: int, scopes: list[Mapping[str, object]]
) -> list[str]:
    lines = []
    for node in nodes:
        pad = "  " * depth
        if isinstance(node, arch.Fork):
            lines += [f"{pad}Fork", *_architecture(node.nodes, depth + 1, scopes)]
            continue
        if isinstance(node, arch.Parallel):
            memories = (line for memory in node.nodes for line in _architecture((memory,), depth + 1, scopes))
            lines += [f"{pad}Parallel", *memories]
            depth += 1
            continue
        fanout = "".join(f" x{_resolved(d.fanout, scopes, str)} {d.name}" for d in node.spatial)
        size = f" {_resolved(node.size, scopes, _size)}" if isinstance(node, arch.Memory) else ""
        lines.append(f"{pad}{tag_of(type(node))[1:]} {node.name}{size}{fanout}")
        if not isinstance(node, arch.ComputeUnit):
            depth += 1
    return lines


def _every_scope(spec: Spec) -> list[Mapping[str, object]]:
    """What expressions of the architecture may name, for each Einsum; without a workload, the variables."""
    if spec.workload is None:
        return [spec.variable_values.values]
    return [architecture_names(spec, info).figures() for info in spec.info.einsums.values()]


def _resolved(value: Value, scopes: list[Mapping[str, object]], words: Callable[[float], str]) -> str:
    """The number of an expression; from the least to the most, if it depends on the Einsum; its text, if nobody knows."""
    try:
        values = [number(value, names, "a figure") for names in scopes]
    except SpecError:
        return f"({value})"
    low, high = min(values), max(values)
    return words(low) if low == high else f"{words(low)} to {words(high)}, by Einsum"


def _size(value: float) -> str:
    return "unlimited" if value == math.inf else bits(value)


def _defines(origin: SpecOrigin) -> list[str]:
    width = max(map(len, origin.values))
    return [
        f"  {name:{width}}  {_word(value)}{'' if name in origin.defines else '  (default)'}"
        for name, value in origin.values.items()
    ]


def _word(value: object) -> str:
    """A value as a file or -D would have it; nothing, where a template decides it by itself."""
    if value is None:
        return "not given"
    return str(value).lower() if isinstance(value, bool) else shown(value)


def spec_html(spec: Spec) -> str:
    """For notebooks: the text, and the mapping drawn."""
    drawing = mapping_svg(spec) if spec.mapping is not None else ""
    return f"<pre>{html.escape(show_text(spec))}</pre>{drawing}"
