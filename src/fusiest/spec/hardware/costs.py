"""What every component of an architecture costs, how many there are of it, and where each figure comes from.

Figures are those of one instance, scales included. Where they differ between Einsums the first one's are shown, and said to
differ; area and leakage never do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING

from fusiest.base.errors import SpecError
from fusiest.base.frozen import FrozenDict
from fusiest.spec.hardware import architecture as arch
from fusiest.spec.hardware.binding import architecture_names, bind_node, raw_figures
from fusiest.spec.hardware.bound import BoundComponent, instances
from fusiest.spec.hardware.models import DUMMY
from fusiest.spec.language.expressions import CONSTANTS, NameSet, Universe, names_in
from fusiest.spec.language.scope import EinsumNames
from fusiest.spec.language.variables import is_expression, is_word
from fusiest.spec.workload.analysis import EinsumInfo

if TYPE_CHECKING:
    from fusiest.spec.spec import Spec

_SETS = ("All", "Nothing", "Inputs", "Outputs", "Intermediates", "Shared", "Persistent")


@dataclass(frozen=True, slots=True)
class ActionFigures:
    """One action of a component: joules, actions per second, and the bits that it moves, if they are the same for all
    tensors."""

    energy: float
    throughput: float
    bits: float | None

    @property
    def energy_per_bit(self) -> float | None:
        return self.energy / self.bits if self.bits else None


@dataclass(frozen=True, slots=True)
class ComponentCosts:
    """One component: what an instance costs, and how many there are."""

    name: str
    kind: str
    component_class: str | None
    count: int
    area: float | None
    """None where nobody knows."""
    leak_power: float
    actions: FrozenDict[str, ActionFigures]
    statuses: FrozenDict[str, str]
    """By figure (`area`, `leak_power`, `read.energy`, …), in a word or two: `given`, `estimated`, …"""
    provenance: FrozenDict[str, str]
    """By figure: the same, and by which class from which source it is estimated."""
    notes: tuple[str, ...] = ()
    """What was assumed or extrapolated, and what differs between Einsums."""

    @property
    def total_area(self) -> float | None:
        return None if self.area is None else self.area * self.count

    @property
    def total_leak_power(self) -> float:
        return self.leak_power * self.count

    @property
    def source(self) -> str:
        """Where the figures come from, in a word or two."""
        return ", ".join(dict.fromkeys(self.statuses.values()))

    @property
    def estimated(self) -> bool:
        """Whether a class gives any of the figures."""
        return self.provenance != self.statuses

    @property
    def explanations(self) -> tuple[str, ...]:
        """By which classes from which sources figures are estimated, and what else there is to know; nothing twice."""
        texts = dict.fromkeys(text for figure, text in self.provenance.items() if text != self.statuses[figure])
        return (*texts, *(note for note in self.notes if not any(note in text for text in texts)))

    def to_json(self) -> dict[str, object]:
        """Every figure, with infinite throughputs as text."""
        return {
            "name": self.name,
            "kind": self.kind,
            "class": self.component_class,
            "count": self.count,
            "area": self.area,
            "leak_power": self.leak_power,
            "total_area": self.total_area,
            "total_leak_power": self.total_leak_power,
            "actions": {
                name: {
                    "energy": a.energy,
                    "throughput": a.throughput if a.throughput < math.inf else "inf",
                    "bits": a.bits,
                    "energy_per_bit": a.energy_per_bit,
                }
                for name, a in self.actions.items()
            },
            "provenance": dict(self.provenance),
            "notes": list(self.notes),
        }


def component_costs(spec: Spec) -> tuple[ComponentCosts, ...]:
    """All components of the architecture, outermost first."""
    contexts, architecture = _contexts(spec), spec.require_arch()
    nodes = list(arch.flatten(architecture.nodes))
    bound = {str(node.name): contexts[0].bound(node) for node in nodes}
    counts = {placed.component.name: placed.number for placed in instances(architecture.nodes, bound)}
    return tuple(_costs(node, counts[node.name], contexts) for node in nodes if isinstance(node, arch.Component))


@dataclass(frozen=True, slots=True)
class _Context:
    """An Einsum, and what can be named in it; without a workload, an Einsum of nothing."""

    info: EinsumInfo
    names: EinsumNames

    def bound(self, node: arch.Container) -> BoundComponent:
        try:
            return bind_node(node, self.info, self.names)
        except SpecError as error:
            if self.info.name:
                raise
            raise SpecError(f"{error.message}; give the workload, too", error.source) from None


def _contexts(spec: Spec) -> list[_Context]:
    infos = list(spec.info.einsums.values()) if spec.workload is not None else [_nothing(spec)]
    return [_Context(info, architecture_names(spec, info)) for info in infos]


def _nothing(spec: Spec) -> EinsumInfo:
    """An Einsum without tensors: every set is empty, also those that only a workload would name."""
    universe = Universe({}, frozenset())
    empty = NameSet(frozenset(), universe, "tensor")
    architecture = spec.require_arch()
    components = {str(node.name) for node in arch.flatten(architecture.nodes)}
    defined = {*spec.variables, *architecture.variables, *components, *_SETS, *CONSTANTS, "operation", "Above"}
    elsewhere = {name for text in _texts(architecture) for name in names_in(text) if name not in defined}
    local: dict[str, object] = {**dict.fromkeys(_SETS, empty), "operation": ""}
    names = EinsumNames(local, dict.fromkeys(elsewhere, "tensor"), universe)
    return EinsumInfo(
        name="", bounds=FrozenDict(), least=FrozenDict(), accesses=FrozenDict(), output="", bits_per_value=FrozenDict(),
        persistent=frozenset(), n_instances=1, is_copy_operation=False, operation="", names=names,
    )  # fmt: skip


def _texts(value: object) -> Iterator[str]:
    """The expressions anywhere in an architecture; a word that is an attribute or a variable is not meant as a name."""
    if isinstance(value, str):
        if is_expression(value):
            yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, FrozenDict):
        for pair in value.items():
            yield from _texts(pair)
    elif is_dataclass(value):
        for name, content in ((f.name, getattr(value, f.name)) for f in fields(value)):
            if name in ("attributes", "variables"):
                yield from (text for text in _texts(tuple(content.values())) if not is_word(text))
            elif name not in ("name", "component_class", "direction", "operator"):
                yield from _texts(content)


def _costs(node: arch.Component, count: int, contexts: list[_Context]) -> ComponentCosts:
    bound = [context.bound(node) for context in contexts]
    first, notes = bound[0], dict[str, None]()
    sources = {figure: _source(node, figure, contexts[0], notes) for figure in _figures(node)}
    for name in first.actions:
        for quantity in ("energy", "throughput"):
            values = {getattr(b.actions[name], quantity) for b in bound}
            if len(values) > 1:
                notes[f"{name} {quantity} differs between Einsums: {min(values):.4g} to {max(values):.4g}"] = None
    notes.update(dict.fromkeys(_unequal(node, contexts)))
    return ComponentCosts(
        name=first.name,
        kind=first.kind,
        component_class=None if node.component_class is None else str(node.component_class),
        count=count,
        area=max((b.area for b in bound if b.area is not None), default=None),
        leak_power=max(b.leak_power for b in bound),
        actions=FrozenDict(
            {
                name: ActionFigures(a.energy, a.throughput, None if first.kind == "compute" else a.bits)
                for name, a in first.actions.items()
            }
        ),
        statuses=FrozenDict({figure: status for figure, (status, _) in sources.items()}),
        provenance=FrozenDict({figure: text for figure, (_, text) in sources.items()}),
        notes=tuple(notes),
    )


def _figures(node: arch.Component) -> list[str]:
    return ["area", "leak_power", *(f"{a}.{quantity}" for a in node.ACTIONS for quantity in ("energy", "throughput"))]


def _source(node: arch.Component, figure: str, context: _Context, notes: dict[str, None]) -> tuple[str, str]:
    """Where a figure comes from, in a word or two and in full."""
    action, _, quantity = figure.rpartition(".")
    owner = node.action(action) if action else node
    if getattr(owner, quantity) is not None or (
        quantity == "throughput" and getattr(owner, "latency", None) is not None
    ):
        return "given", "given"
    if node.component_class is None:
        return "not given", "not given"
    if node.component_class == DUMMY or context.names.models is None:
        return "free, as a Dummy", "free, as a Dummy"
    estimate = context.names.models.estimate(node, context.names.figures())
    notes.update(dict.fromkeys(estimate.notes))
    return estimate.status, estimate.provenance


def _unequal(node: arch.Component, contexts: list[_Context]) -> Iterator[str]:
    """Says of area and leakage that the largest counts, where the class gives several."""
    if node.component_class in (None, DUMMY) or len(contexts) < 2:
        return
    for figure in ("area", "leak_power"):
        if getattr(node, figure) is None:
            estimates = [c.names.models.estimate(node, c.names.figures()) for c in contexts if c.names.models]
            if len({getattr(e, figure) for e in estimates}) > 1:
                yield f"{figure} would differ between Einsums: the largest counts"


def filled(spec: Spec) -> Spec:
    """The spec with every estimated figure given, which needs no classes."""
    architecture = spec.require_arch()
    contexts = _contexts(spec)

    def change(node: arch.Container) -> arch.Container:
        estimated = isinstance(node, arch.Component) and node.component_class not in (None, DUMMY)
        return _filled(node, contexts) if isinstance(node, arch.Component) and estimated else node

    nodes = arch.rewritten(architecture.nodes, change)
    return replace(spec, arch=replace(architecture, nodes=nodes, attributes=FrozenDict()), component_classes=())


def _filled(node: arch.Component, contexts: list[_Context]) -> arch.Component:
    raw = [raw_figures(node, context.info, context.names.figures()) for context in contexts]

    def value(figure: str) -> float | str:
        return _by_einsum([(context.info, figures[figure]) for context, figures in zip(contexts, raw, strict=True)])

    actions = []
    for name in node.ACTIONS:
        energy, throughput = value(f"{name}.energy"), value(f"{name}.throughput")
        actions.append(replace(node.action(name), energy=energy, throughput=throughput, latency=None))
    models = contexts[0].names.models
    sized = [
        getattr(owner, size) for owner in (node, *node.actions) for size in ("values_per_action", "bits_per_action")
    ]
    if not isinstance(node, arch.ComputeUnit) and not any(sized) and models is not None and models.per_value(node):
        node = replace(node, values_per_action=1)
    return replace(
        node, component_class=None, attributes=FrozenDict(), area=value("area"), leak_power=value("leak_power"),
        actions=tuple(actions),
    )  # fmt: skip


def _by_einsum(values: list[tuple[EinsumInfo, float]]) -> float | str:
    """One number, or an expression that tells Einsums apart by the tensor that each writes."""
    *others, (_, last) = values
    text = repr(last)
    for info, value in reversed(others):
        if value != last:
            text = f"{value!r} if {info.output} & Outputs else {text}"
    return last if text == repr(last) else text
