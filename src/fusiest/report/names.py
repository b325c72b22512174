"""Which number, and so which colour, each tensor and component has throughout a report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from fusiest.spec import architecture as arch
from fusiest.spec.spec import Spec


@dataclass(frozen=True)
class Names:
    """The names in a spec, in the order in which charts show them."""

    spec: Spec

    @cached_property
    def tensors(self) -> dict[str, int]:
        """Tensors that Einsums exchange come first: theirs are the plainest colours."""
        users, producer = self.spec.info.users, self.spec.info.producer
        exchanged = [str(t) for t in users if t in producer and len(users[t]) > 1]
        return {t: i for i, t in enumerate([*exchanged, *(str(t) for t in users if str(t) not in exchanged)])}

    @cached_property
    def components(self) -> dict[str, int]:
        """Memories, Tolls and computes, outermost first."""
        nodes = arch.flatten(self.spec.require_arch().nodes)
        return {str(n.name): i for i, n in enumerate(n for n in nodes if isinstance(n, arch.Component))}

    @cached_property
    def memories(self) -> list[str]:
        return [str(n.name) for n in arch.flatten(self.spec.require_arch().nodes) if isinstance(n, arch.Memory)]

    def tensor_color(self, tensor: str) -> str:
        return f"tensor:{self.tensors[tensor]}"

    def component_color(self, component: str) -> str:
        return f"component:{self.components[component]}"
