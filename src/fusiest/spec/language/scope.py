"""What expressions may name in one Einsum: sets, tensors, renames, rank variables, ranks, variables and components."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fusiest.base.errors import SpecError, did_you_mean
from fusiest.base.frozen import FrozenDict
from fusiest.spec.hardware import architecture as arch
from fusiest.spec.language.expressions import NameSet, Universe, name_set, number
from fusiest.spec.language.namesets import Attributed, SetKind
from fusiest.spec.language.variables import Variables, VariableValue

if TYPE_CHECKING:
    from fusiest.spec.hardware.models import ComponentModels


class EinsumNames(Mapping[str, object]):
    """Names and what they stand for. Variables that name tensors are evaluated when they are first used.

    The name of a memory is the set that it was chosen to hold, in `tensors` of memories below, and elsewhere the component.
    What other Einsums have (tensors, renames, rank variables, ranks) are empty sets. `models` estimate components whose
    figures are not given.
    """

    __slots__ = ("chosen", "components", "elsewhere", "local", "models", "universe", "variables")

    def __init__(self, local: dict[str, object], elsewhere: Mapping[str, SetKind], universe: Universe) -> None:
        self.local, self.elsewhere, self.universe = local, elsewhere, universe
        self.variables = Variables({}, {})
        self.components: Mapping[str, ComponentName] = FrozenDict()
        self.chosen: Mapping[str, NameSet] | None = None
        self.models: ComponentModels | None = None

    def __getitem__(self, name: str) -> object:
        if self.chosen is not None and name in self.chosen:
            return self.chosen[name]
        if name in self.local:
            return self.local[name]
        if name in self.variables:
            return self.variables[name]
        if name in self.components:
            return self.components[name]
        if name in self.universe.ranks and self.elsewhere.get(name) != "tensor":
            return NameSet(self.universe.ranks[name], self.universe, "variable")
        if name in self.elsewhere:
            return NameSet(frozenset(), self.universe, self.elsewhere[name])
        if name == "Above":
            raise SpecError("what Above holds is a choice, known only in 'tensors' of memories below")
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        for names in self._tables():
            if name in names:
                return True
        return name == "Above"

    def __iter__(self) -> Iterator[str]:
        return iter({name: None for names in self._tables() for name in names})

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _tables(self) -> tuple[Any, ...]:
        return self.local, self.variables, self.components, self.elsewhere, self.universe.ranks, self.chosen or ()

    def extended(
        self,
        more: Mapping[str, object],
        universe: Universe | None = None,
        variables: Mapping[str, VariableValue] | None = None,
    ) -> EinsumNames:
        """These names and more, before anything is chosen; `variables` are not evaluated yet."""
        new = EinsumNames({**self.local, **more}, self.elsewhere, universe or self.universe)
        new.variables = Variables(self.variables.texts if variables is None else variables, new)
        return new

    def with_components(self, nodes: tuple[arch.ArchitectureNode, ...], models: ComponentModels) -> EinsumNames:
        """These names and those of an architecture's components, of which none has been chosen to hold anything."""
        new = self.extended({})
        new.models = models
        flat = list(arch.flatten(nodes))
        new.components = {str(node.name): ComponentName(node, new) for node in flat}
        nothing = NameSet(frozenset(), self.universe, "tensor")
        return new._with({**{str(n.name): nothing for n in flat if isinstance(n, arch.Memory)}, "Above": nothing})

    def choose(self, memory: str, tensors: frozenset[str]) -> EinsumNames:
        """The names once a memory's tensors are chosen: its name is that set."""
        return self._with({**(self.chosen or {}), memory: NameSet(tensors, self.universe, "tensor")})

    def figures(self) -> EinsumNames:
        """The names where an expression has one value for all choices."""
        return self if self.chosen is None else self._with(None)

    def _with(self, chosen: Mapping[str, NameSet] | None) -> EinsumNames:
        """The names with other choices, on which variables and components do not depend."""
        new = EinsumNames(self.local, self.elsewhere, self.universe)
        new.variables, new.components, new.chosen, new.models = self.variables, self.components, chosen, self.models
        return new


@dataclass(frozen=True, slots=True, eq=False)
class ComponentName(Attributed):
    """A component as an expression sees it: `Array.fanout` is how many there are of it below its parent."""

    node: arch.Container
    names: EinsumNames

    @property
    def described(self) -> str:
        if isinstance(self.node, arch.Memory):
            return f"memory {self.node.name} (what {self.node.name} holds is a choice, known only in 'tensors' of memories below)"
        return f"component {self.node.name}"

    def attribute(self, name: str) -> object:
        """An attribute as an expression reads it."""
        if name == "fanout":
            return math.prod(int(number(d.fanout, self.names, "fanout")) for d in self.node.spatial)
        raise SpecError(f"{self.described} has no attribute '{name}'{did_you_mean(name, ['fanout'])}")


def tensor_set(expression: str, names: Mapping[str, object], what: str) -> NameSet:
    """Evaluate to a set of tensors; `what` names the field in the error."""
    result = name_set(expression, names, what)
    if result.kind != "tensor":
        raise SpecError(f"{what} must be a set of tensors, but '{expression}' is one of rank variables", expression)
    return result
