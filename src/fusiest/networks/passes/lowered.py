"""The Einsums of a network once all nodes are lowered: what the passes change."""

from __future__ import annotations

from dataclasses import dataclass, field

from fusiest.networks.lowering.lower import CutValue, Lowering
from fusiest.networks.lowering.tensors import NetAccess, NetEinsum, NetTensor, View


@dataclass(slots=True)
class Lowered:
    """The Einsums of a network, with the views of its outputs."""

    lowering: Lowering
    einsums: list[NetEinsum]
    outputs: dict[str, View]
    cuts: list[CutValue] = field(default_factory=list)

    def outgoing(self) -> set[NetTensor]:
        """Tensors that must end up in the outermost memory."""
        sent = {view.tensor for cut in self.cuts for view in cut.sent}
        return sent | {view.tensor for view in self.outputs.values()}

    def readers(self) -> dict[NetTensor, list[tuple[NetEinsum, NetAccess]]]:
        """Who uses a tensor, folded constants included."""
        readers: dict[NetTensor, list[tuple[NetEinsum, NetAccess]]] = {}
        for einsum in self.einsums:
            for access in einsum.operands:
                readers.setdefault(access.tensor, []).append((einsum, access))
        return readers

    def producers(self) -> dict[NetTensor, list[NetEinsum]]:
        """Who makes a tensor: one Einsum, or several that each write a part."""
        producers: dict[NetTensor, list[NetEinsum]] = {}
        for einsum in self.einsums:
            producers.setdefault(einsum.output.tensor, []).append(einsum)
        return producers
