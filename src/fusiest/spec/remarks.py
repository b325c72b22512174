"""Figures of a spec that a reader may have meant otherwise: notes for people, one line each."""

from __future__ import annotations

from fusiest.spec.hardware.architecture import Memory, flatten
from fusiest.spec.spec import Spec

_FEW_BITS = 1024


def size_notes(spec: Spec) -> list[str]:
    """One note on all small sizes that are plain numbers and hold more than a value: they count bits.

    >>> from fusiest import load
    >>> size_notes(load("simple", "matmuls", GlobalBufferSize=1024))
    []
    """
    infos = spec.info.einsums.values() if spec.workload is not None else ()
    value = max((bits for info in infos for bits in info.bits_per_value.values()), default=8)
    nodes = flatten(spec.arch.nodes) if spec.arch is not None else ()
    memories = [(str(node.name), node.size) for node in nodes if isinstance(node, Memory)]
    small = [f"{name} {size}" for name, size in memories if isinstance(size, (int, float)) and value < size < _FEW_BITS]
    return [f"sizes without a unit are bits: {', '.join(small)}; for bytes write 64 B or 64 KiB"] if small else []
