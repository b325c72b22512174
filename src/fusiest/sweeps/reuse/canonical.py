"""What a run is, in canonical form: the same for two specs that differ only in how they are written.

Everything is evaluated: a size of `8 * 1024` and of 8192 are one, and so are a figure that is given and the same one from a
component's class. Comments, names of files, the order of tables, areas and names that nothing refers to do not count. Names of
components, Einsums and tensors do: a mapping speaks of them.

A form has two parts. The figures (sizes, energies, throughputs, leakage) are numbers of which it is known whether more or less
of them is better. All else is the family: what proofs on one design say of another holds inside a family.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fusiest.mapper import Options, has_halos
from fusiest.spec import (
    CONSTANTS,
    Affine,
    BoundComponent,
    EinsumInfo,
    EinsumNames,
    NameSet,
    Spec,
    architecture_names,
    bind_all,
    names_in,
    parse_expression,
)
from fusiest.spec import architecture as arch

ANSWER = 2
"""The version of the answer: to be raised when the same spec and options may give another result."""
FEWEST_SIZES = 6
"""Sizes of one memory that are still to come: with fewer, a front of smaller sizes takes longer to keep than it saves."""
FEWEST_RATES = 3
"""Throughputs of one component: tables that serve all of them take up to twice as long to explore."""
CHANGING = ("objective", "usage", "orders", "max_fused_loops", "max_fused_loops_per_variable", "imperfect", "exchange")
"""Options that change the answer. A time limit does, too, but only that of a run which it ended: see the store."""


@dataclass(frozen=True)
class RunForm:
    """A run's hash, its family's, and its figures: as tuples, more is better in all of them."""

    hash: str
    family: str
    figures: tuple[float, ...]
    rooms: tuple[str, ...] = dataclasses.field(default=(), compare=False, repr=False)
    """The memory of each figure that is a size; empty for others. No entries if that is not known any more."""
    rates: tuple[str, ...] = dataclasses.field(default=(), compare=False, repr=False)
    """The component of each figure that is a throughput; empty for others. No entries if that is not known any more."""

    def nowhere_worse(self, other: RunForm) -> bool:
        """Whether this design is at least as good as the other in every figure, and alike in all else."""
        same = self.family == other.family and len(self.figures) == len(other.figures)
        return same and all(a >= b for a, b in zip(self.figures, other.figures, strict=True))

    def size_to_watch(self, others: Iterable[RunForm]) -> str:
        """The memory by whose smaller sizes alone others differ from this one, most of them; empty if they are too few for it to pay."""
        memories: Counter[str] = Counter()
        for other in others:
            changed = {room for a, b, room in zip(self.figures, other.figures, self.rooms, strict=False) if a != b}
            if len(changed) == 1 and self.nowhere_worse(other):
                memories.update(changed - {""})
        memory, count = memories.most_common(1)[0] if memories else ("", 0)
        return memory if count >= FEWEST_SIZES else ""

    def has_room(self, least: RunForm) -> bool:
        """Whether its memories are at least as large."""
        sizes = zip(self.figures, least.figures, self.rooms, strict=False)
        return all(a >= b * (1 - 1e-12) for a, b, room in sizes if room)

    def without(self, memories: Collection[str], rates: Collection[str] = ()) -> str:
        """A hash that is the same for runs which differ only in sizes of these memories, and in throughputs of those components."""
        figures = zip(self.figures, self.rooms, self.rates, strict=True)
        return _sha([self.family, [repr(f) for f, room, rate in figures if room not in memories and rate not in rates]])

    def rates_of(self, component: str) -> tuple[float, ...]:
        """The throughputs of a component."""
        return tuple(figure for figure, rate in zip(self.figures, self.rates, strict=True) if rate == component)

    def with_sizes(self, needed: Mapping[str, float]) -> RunForm:
        """The form with memories of no more than these sizes, to compare with."""
        figures = zip(self.figures, self.rooms or [""] * len(self.figures), strict=True)
        return RunForm(
            "", self.family, tuple(min(figure, needed.get(room, figure)) for figure, room in figures), self.rooms
        )


def varied_rates(forms: Iterable[RunForm]) -> dict[str, frozenset[str]]:
    """By family, the components of which runs have many different throughputs."""
    rates_seen: dict[tuple[str, str], set[tuple[float, ...]]] = {}
    for form in forms:
        for name in dict.fromkeys(form.rates):
            rates = rates_seen.setdefault((form.family, name), set())
            if name and len(rates) < FEWEST_RATES:
                rates.add(form.rates_of(name))
    varied: dict[str, frozenset[str]] = {}
    for (family, name), rates in rates_seen.items():
        if len(rates) >= FEWEST_RATES:
            varied[family] = varied.get(family, frozenset()) | {name}
    return varied


def run_form(spec: Spec, options: Options) -> RunForm:
    """A spec and the options that change the answer."""
    places: dict[tuple[str, tuple[float, ...]], int] = {}
    einsums = []
    sized, timed = set[str](), set[str]()
    for info in spec.info.einsums.values():
        bound = bind_all(spec, info)
        nodes = []
        for node in arch.flatten(spec.require_arch().nodes):
            component = bound[str(node.name)]
            graded, remainder = _known_split(component)
            if component.total_latency is None:
                timed.add(component.name)
                sized.update({component.name} if component.kind == "memory" else ())
            # A component has the same figures in most Einsums: they are listed once.
            place = places.setdefault((str(node.name), graded), len(places))
            nodes.append([remainder, place, _known_placement(spec, node, info)])
        einsums.append([_einsum(info), nodes])
    figures = tuple(figure for _, graded in places for figure in graded)
    chosen = _chosen(options)
    if options.windows != "none" and has_halos(spec):
        chosen["windows"] = options.windows
    family = _sha([ANSWER, plain(chosen), _structure(spec.require_arch().nodes), einsums])
    rooms = tuple(
        room for name, graded in places for room in ("",) * (len(graded) - 1) + (name if name in sized else "",)
    )
    # Energy and throughput of each action, leakage, size: see `_split`.
    rates = tuple(
        name if name in timed and i % 2 and i + 1 < len(graded) else ""
        for name, graded in places
        for i in range(len(graded))
    )
    return RunForm(_sha([family, [repr(figure) for figure in figures]]), family, figures, rooms, rates)


def _chosen(options: Options) -> dict[str, object]:
    return {name: getattr(options, name) for name in CHANGING}


def options_digest(options: Options, usual_windows: bool) -> str:
    """A hash of what makes a spec's answer, besides the spec: options, and the version that reads files and answers."""
    from fusiest import __version__

    return _sha(
        [ANSWER, __version__, plain({**_chosen(options), "windows": "usual" if usual_windows else options.windows})]
    )


def _sha(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _structure(nodes: tuple[arch.ArchitectureNode, ...]) -> list[Any]:
    """Which node is where: names, Forks with what they gate, and memories that stand beside each other."""
    structure: list[Any] = []
    for node in nodes:
        if isinstance(node, arch.Fork):
            gated = node.forked_power_gateable, node.non_forked_power_gateable
            structure.append(["fork", _structure(node.nodes), *gated])
        elif isinstance(node, arch.Parallel):
            structure.append(["parallel", _structure(node.nodes)])
        else:
            structure.append(str(node.name))
    return structure


def _split(component: BoundComponent) -> tuple[tuple[float, ...], object]:
    """Figures of which more is better, and everything else of a component but its area.

    A `total_latency` of the component's own may depend on anything: then size and throughput are no such figures.
    """
    graded: list[float] = []
    remainder: dict[str, object] = {f.name: getattr(component, f.name) for f in dataclasses.fields(component)}
    del remainder["area"]
    remainder["attributes"] = component.latency_names
    actions: list[object] = []
    for name, action in sorted(component.actions.items()):
        fields = {f.name: getattr(action, f.name) for f in dataclasses.fields(action) if f.name != "energy"}
        graded.append(0.0 - action.energy)
        if component.total_latency is None:
            graded.append(float(fields.pop("throughput")))
        actions.append([name, fields])
    remainder["actions"] = actions
    del remainder["leak_power"], remainder["size"]
    graded.append(0.0 - component.leak_power)
    if component.total_latency is None:
        graded.append(float(component.size))
    else:
        remainder["size"] = component.size
    return tuple(graded), plain(remainder)


class Forms:
    """What was made of the latest objects, by identity: the designs of a sweep share most of theirs."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.forms: dict[tuple[int, ...], tuple[tuple[object, ...], Any]] = {}

    def find(self, objects: tuple[object, ...], make: Callable[[], Any]) -> Any:
        """What was made of these, or what `make` makes of them now."""
        key = tuple(map(id, objects))
        entry = self.forms.get(key)
        if entry is None:  # while an object is kept here, no other has its identity
            if len(self.forms) >= self.most:
                self.forms.clear()
            entry = self.forms[key] = objects, make()
        return entry[1]


_FORMS = Forms(5_000)


def _known_split(component: BoundComponent) -> tuple[tuple[float, ...], str]:
    def make() -> tuple[tuple[float, ...], str]:
        graded, remainder = _split(component)
        return graded, _sha(remainder)

    split: tuple[tuple[float, ...], str] = _FORMS.find((component,), make)
    return split


def _einsum(info: EinsumInfo) -> str:
    """All of an Einsum but its formula, and the names that expressions use: what they stand for is where they are used."""
    fields = (f.name for f in dataclasses.fields(info) if f.name not in ("names", "formula"))
    return str(_FORMS.find((info,), lambda: _sha(plain({name: getattr(info, name) for name in fields}))))


def _known_placement(spec: Spec, node: arch.Container, info: EinsumInfo) -> str | None:
    """What a node may and must hold. It depends on choices: texts, and what the names in them stand for."""
    tensors = getattr(node, "tensors", None)
    if tensors is None:
        return None

    def make() -> str:
        names = architecture_names(spec, info)
        return _sha({f.name: _texts(getattr(tensors, f.name), names) for f in dataclasses.fields(tensors)})

    if spec.variable_values.texts:  # what these come to may depend on components
        return make()
    # Names that depend neither on choices nor on components are the Einsum's and the variables.
    variables = [table for table in (spec.variables, spec.require_arch().variables) if table]
    return str(_FORMS.find((tensors, info, *variables), make))


def _texts(value: object, names: EinsumNames) -> object:
    if isinstance(value, str):
        return [_normal(value), _meanings(value, names)]
    if isinstance(value, tuple):
        return [_texts(item, names) for item in value]
    if dataclasses.is_dataclass(value):
        return {
            f.name: getattr(value, f.name) if f.name == "operator" else _texts(getattr(value, f.name), names)
            for f in dataclasses.fields(value)
        }
    return plain(value)


@functools.lru_cache(10_000)
def _normal(text: str) -> str:
    """An expression, however it is spaced."""
    return ast.unparse(parse_expression(text))


def _meanings(text: str, names: EinsumNames) -> dict[str, object]:
    figures = names.figures()
    return {
        name: plain(figures[name])
        for name in sorted(names_in(text) - set(CONSTANTS))
        if name in figures and name != "Above" and name not in figures.components
    }


def plain(value: Any) -> Any:
    """A value as JSON has it, the same for values that are equal."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, (str, Affine)):
        return str(value)
    if isinstance(value, NameSet):
        return [value.kind, sorted(map(str, value.members))]
    if isinstance(value, Mapping):
        return sorted(([plain(key), plain(item)] for key, item in value.items()), key=repr)
    if isinstance(value, (frozenset, set)):
        return sorted((plain(item) for item in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return str(value)


def _number(value: float) -> object:
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return int(value) if value == int(value) else value
