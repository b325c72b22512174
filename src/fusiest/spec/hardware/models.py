"""From a component's class and attributes to its costs, for one Einsum.

What the file gives by hand wins, field by field; this is asked only for the rest. Energy and throughput may differ between
Einsums. Area and leakage may not: silicon is there or not, so the largest of all Einsums counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fusiest.base.errors import SpecError
from fusiest.spec.hardware import architecture as arch
from fusiest.spec.language.expressions import CONSTANTS, Word
from fusiest.spec.language.variables import VariableValue, is_word, uses, value_of

if TYPE_CHECKING:
    from fusiest.components import ActionCost, ComponentClass, Estimate
    from fusiest.spec.language.scope import EinsumNames

DUMMY = "Dummy"
_FIELDS = ("size", "bits_per_action", "n_parallel_instances")
"""Fields of a component that are attributes of its class, too."""


@dataclass
class ComponentModels:
    """The classes and common attributes that an architecture's components are estimated with."""

    classes: Mapping[str, ComponentClass] = field(default_factory=dict)
    for_all: Mapping[str, VariableValue] = field(default_factory=dict)
    constants: Mapping[str, object] = field(default_factory=dict)
    """Variables that have one value for all Einsums."""
    every_einsum: Callable[[], Iterable[EinsumNames]] = tuple
    """The names of each Einsum."""
    _estimates: dict[str, Estimate] = field(default_factory=dict)
    """Estimates of components that are alike in all Einsums."""
    _fixed: dict[str, tuple[float, float]] = field(default_factory=dict)

    def estimate(self, node: arch.Component, names: Mapping[str, object]) -> Estimate:
        """What the component's class says of it in one Einsum."""
        if node.name in self._estimates:
            return self._estimates[node.name]
        component_class, texts, constant = self._described(node)
        attributes = {name: _number_or_text(value, names) for name, value in texts.items()}
        try:
            estimate = component_class.estimate(attributes)
        except SpecError as error:
            raise SpecError(f"{node.name}: {error.message}", error.source or node.component_class) from None
        if constant:
            self._estimates[node.name] = estimate
        return estimate

    def per_value(self, node: arch.Component) -> bool:
        """Whether an action of the component's class, such as a conversion, is one of a value, however many bits that has."""
        if node.component_class in (None, DUMMY):
            return False
        from fusiest.components import find_class

        assert node.component_class is not None
        return not find_class(node.component_class, self.classes).moves_bits

    def check(self, node: arch.Component) -> None:
        """Raise what is wrong with the component's class or attributes, as far as that is known without an Einsum."""
        component_class, texts, constant = self._described(node)
        if constant:
            estimate = self.estimate(node, self.constants)
            for action in node.ACTIONS:
                action_cost(estimate, node, action, 1.0)
            return
        for name in texts:
            if component_class.attribute(name) is None:
                component_class.resolve({name: texts[name]})

    def _described(self, node: arch.Component) -> tuple[ComponentClass, dict[str, VariableValue], bool]:
        """The component's class, its attributes, and whether they are alike in all Einsums."""
        from fusiest.components import find_class  # only if there is something to estimate

        assert node.component_class is not None
        component_class = find_class(node.component_class, self.classes)
        texts = self._attributes(node, component_class)
        for name, value in texts.items():
            # A word that is one of a fixed choice is never the name of a tensor.
            attribute = component_class.attribute(name)
            if attribute is not None and attribute.choices and isinstance(value, str) and is_word(value):
                texts[name] = self.constants.get(value) or Word(value, getattr(value, "source", None))  # type: ignore[assignment]
        named = {used for value in texts.values() for used in uses(value)}
        return component_class, texts, all(used in self.constants or used in CONSTANTS for used in named)

    def _attributes(self, node: arch.Component, component_class: ComponentClass) -> dict[str, VariableValue]:
        """The component's own, then those for all that the class has, then fields of the component."""
        names = {attribute.name for attribute in component_class.attributes}
        attributes = dict(node.attributes)
        for name, value in self.for_all.items():
            if name in names:
                attributes.setdefault(name, value)
        for name in _FIELDS:
            field_value = _field(node, name) if name in names else None
            if field_value is not None:
                attributes.setdefault(name, field_value)
        return attributes

    def fixed(self, node: arch.Component, names: EinsumNames) -> tuple[float, float]:
        """(area, leakage): the largest of all Einsums."""
        if node.name not in self._fixed:
            estimates = [self.estimate(node, names)]
            if node.name not in self._estimates:
                estimates += [self.estimate(node, einsum_names) for einsum_names in self.every_einsum()]
            self._fixed[node.name] = (max(e.area for e in estimates), max(e.leak_power for e in estimates))
        return self._fixed[node.name]


def action_cost(estimate: Estimate, node: arch.Component, action: str, bits: float | None) -> ActionCost:
    """One of a component's actions by one of its class's; `bits` are those that it moves, None if tensors differ.

    A Toll takes the class's main action, a Compute `compute` or else the main one, a Memory `read` and `write`. An action of a
    class that moves `width` bits costs in proportion to the bits that it moves here.
    """
    actions = estimate.actions
    if isinstance(node, arch.Memory) and action not in actions:
        raise SpecError(
            f"{node.name}: {estimate.component_class} has no action '{action}', only {', '.join(actions)}: it is no memory",
            node.component_class,
        )
    main = isinstance(node, arch.TollStation) or action not in actions
    cost = actions[estimate.main_action if main else action]
    if not estimate.moves_bits:
        return cost
    if bits is None:
        raise SpecError(
            f"{node.name}: an action of {estimate.component_class} moves bits, but values differ in theirs; give bits_per_action",
            node.component_class,
        )
    share = bits / estimate.width
    return replace(cost, energy=cost.energy * share, throughput=cost.throughput / share)


def _number_or_text(value: VariableValue, names: Mapping[str, object]) -> object:
    """What an attribute comes to; one that is a set of tensors stays as it was written, for the message that it gets."""
    evaluated = value_of(value, names)
    return evaluated if isinstance(evaluated, (int, float, str, list, tuple)) else value


def _field(node: arch.Component, name: str) -> VariableValue | None:
    owners: list[object] = [node]
    if name == "bits_per_action":
        owners = [*(action for action in node.actions if action.name in ("read", "compute")), node]
    for owner in owners:
        value = getattr(owner, name, None)
        if isinstance(value, (int, float, str)):
            return value
    return None
