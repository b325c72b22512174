"""A spec: architecture, workload, mapping, renames and variables, each from a file or built in Python."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from typing import TYPE_CHECKING, Annotated, Any

from fusiest.base.errors import SpecError, closest, did_you_mean
from fusiest.base.frozen import FrozenDict
from fusiest.looptree import LoopTree
from fusiest.spec import edits
from fusiest.spec.hardware import architecture as arch
from fusiest.spec.hardware.architecture import Architecture, computes, flatten, path_nodes
from fusiest.spec.hardware.binding import architecture_names, at_node, bind_node, missing_figures
from fusiest.spec.hardware.bound import BoundComponent
from fusiest.spec.hardware.component_classes import WrittenClass, compiled
from fusiest.spec.hardware.dataflow import Dataflow
from fusiest.spec.hardware.models import DUMMY, ComponentModels
from fusiest.spec.hardware.placement_sets import placement_sets
from fusiest.spec.language.allowed_names import check_name, repeated
from fusiest.spec.language.fields import NameText, Reader, Value
from fusiest.spec.language.scope import EinsumNames
from fusiest.spec.language.variables import SpecVariable, VariableSplit, split
from fusiest.spec.mapping import read_mapping
from fusiest.spec.reading.budget import budget, spend
from fusiest.spec.reading.origin import SpecOrigin
from fusiest.spec.workload.analysis import WorkloadInfo, analyze
from fusiest.spec.workload.einsums import EinsumRenames, Workload, read_rename_section

if TYPE_CHECKING:
    from fusiest.spec.hardware.costs import ComponentCosts

MAX_STEPS, MAX_STEPS_PER_EINSUM, STEPS_PER_NODE = 1_000_000, 5_000, 10
"""What may be spent on checking a spec: its expressions, and a node for an Einsum."""
MAX_NODES = 200
_IDENTITIES = itertools.count()


@dataclass(frozen=True, kw_only=True)
class Spec:
    """Each section may stand in any of the files, all but `renames` and `variables` in one of them only. Sections that a use
    does not need may be missing.
    """

    arch: Annotated[Architecture | None, "The architecture."] = None
    dataflow: Annotated[
        Dataflow | None, "Constraints to put on the architecture, whatever its memories are called."
    ] = None
    """Already part of `arch`."""
    workload: Annotated[Workload | None, "The workload."] = None
    mapping: Annotated[LoopTree | None, Reader(read_mapping, "table"), "The mapping to evaluate or show."] = None
    renames: Annotated[
        tuple[EinsumRenames, ...],
        Reader(read_rename_section, "{einsums: list}"),
        "Names for sets of tensors, per Einsum or for all.",
    ] = ()
    variables: Annotated[
        FrozenDict[NameText, SpecVariable],
        "Values that expressions may name, in any order; one that names tensors has a value for each Einsum.",
    ] = field(default_factory=FrozenDict)
    component_classes: Annotated[
        tuple[WrittenClass, ...], "Classes of components, besides [those that come with fusiest](components.md)."
    ] = ()

    def __repr__(self) -> str:
        """In one line: a spec can be long. `print` shows all of it."""
        nodes = f"an architecture of {len(list(flatten(self.arch.nodes)))} nodes" if self.arch is not None else ""
        einsums = f"{len(self.workload.einsums)} Einsums" if self.workload is not None else ""
        mapping = "a mapping" if self.mapping is not None else ""
        return f"<Spec: {', '.join(section for section in (nodes, einsums, mapping) if section) or 'empty'}>"

    def __str__(self) -> str:
        from fusiest.show import show_text

        return show_text(self)

    @functools.cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, f.name) for f in dataclass_fields(self)))

    def __hash__(self) -> int:
        """Computed once: much is kept by spec, and a workload may be large."""
        return self._hash

    @functools.cached_property
    def _identity(self) -> int:
        """Common to specs that were found to be equal."""
        return next(_IDENTITIES)

    def __eq__(self, other: object) -> bool:
        """Found out once: what is kept by spec is asked for with an equal one, too, thousands of times."""
        if not isinstance(other, Spec):
            return NotImplemented
        if self._identity == other._identity:
            return True
        names = [f.name for f in dataclass_fields(self)]
        equal = hash(self) == hash(other) and all(getattr(self, name) == getattr(other, name) for name in names)
        if equal:
            self.__dict__["_identity"] = other.__dict__["_identity"] = min(self._identity, other._identity)
        return equal

    def __getstate__(self) -> dict[str, object]:
        """Texts have other hashes in other processes; components are bound again there, if they are needed."""
        here_only = "_hash", "_identity", "bound", "_placed"
        return {name: value for name, value in self.__dict__.items() if name not in here_only}

    @property
    def origin(self) -> SpecOrigin | None:
        """Where it was loaded from; None if it was made or changed in Python."""
        origin = self.__dict__.get("_origin")
        return origin if isinstance(origin, SpecOrigin) else None

    def came_from(self, origin: SpecOrigin) -> Spec:
        """This spec, which now knows where it was loaded from. That is no part of it: equal specs are equal."""
        self.__dict__["_origin"] = origin
        return self

    def require_arch(self) -> Architecture:
        if self.arch is None:
            raise SpecError("no file has a section 'arch:'")
        return self.arch

    def require_workload(self) -> Workload:
        if self.workload is None:
            raise SpecError("no file has a section 'workload:'")
        return self.workload

    @functools.cached_property
    def info(self) -> WorkloadInfo:
        """What follows from the workload: bounds, sharing, named sets."""
        return analyze(self.require_workload(), self.renames, self.variables)

    def sharing_info(self, other: Spec) -> Spec:
        """This spec, which takes over what is known of its workload from one that says the same of it."""
        context, other_context = (self.renames, self.variables), (other.renames, other.variables)
        if self.workload is other.workload and context == other_context and "info" in other.__dict__:
            self.__dict__["info"] = other.info
        return self

    @functools.cached_property
    def bound(self) -> dict[str, dict[str, BoundComponent]]:
        """Every node evaluated for each Einsum, as far as that was asked for (`bind_all`)."""
        return {}

    def take_bound(self, bound: dict[str, dict[str, BoundComponent]], placed: bool) -> None:
        """Take over components that another spec has bound (`sharing`). `placed`: what nodes may hold was checked there."""
        self.bound.update(bound)
        self.__dict__["_placed"] = placed

    @functools.cached_property
    def variable_values(self) -> VariableSplit:
        """Values of variables that have one for all Einsums, and the texts of the others."""
        return split({**self.variables, **(self.arch.variables if self.arch is not None else {})})

    @functools.cached_property
    def models(self) -> ComponentModels:
        """What estimates the components whose figures are not given."""
        attributes = self.arch.attributes if self.arch is not None else {}
        every_einsum = functools.partial(_every_einsum, self)
        return ComponentModels(compiled(self.component_classes), attributes, self.variable_values.values, every_einsum)

    def costs(self) -> tuple[ComponentCosts, ...]:
        """What every component costs, how many there are, and where each figure comes from."""
        from fusiest.spec.hardware.costs import component_costs

        return component_costs(self)

    @property
    def area(self) -> float | None:
        """Square metres of all components together; None if one of them is not known."""
        areas = [component.total_area for component in self.costs()]
        return math.fsum(area for area in areas if area is not None) if None not in areas else None

    @property
    def leak_power(self) -> float:
        """Watts of all components together, none of them gated off."""
        return math.fsum(component.total_leak_power for component in self.costs())

    def with_component(self, name: str, **fields: object) -> Spec:
        """Change fields of one component. The new spec is checked as if it had been loaded.

        Fields of actions and dimensions have names of two parts: `**{"read.throughput": "1 GB/s"}`, `**{"X.fanout": 4}`.

        >>> from fusiest import load
        >>> spec = load("simple", "matmuls").with_component("GlobalBuffer", size="2 MiB")
        >>> [node.size for node in spec.arch.nodes if node.name == "GlobalBuffer"]
        ['2 MiB']
        """
        return check(edits.with_component(self, name, fields).sharing_info(self))

    def with_einsum(self, name: str, **fields: object) -> Spec:
        """Change fields of one Einsum; or add one, if `einsum` says what it computes.

        >>> from fusiest import load
        >>> spec = load("simple", "matmuls").with_einsum("Relu", einsum="R[m, n2] = relu(T2[m, n2])")
        >>> list(spec.info.einsums), spec.info.einsums["Relu"].operation
        (['Matmul0', 'Matmul1', 'Relu'], 'relu')
        """
        return check(edits.with_einsum(self, name, fields))

    def with_rank_size(self, rank: str | None = None, size: Value | None = None, /, **sizes: Value) -> Spec:
        """Change sizes of ranks: `with_rank_size("M", 64)` or `with_rank_size(M=64, K=32)`. Where the
        workload bounds rank variables, their names do, too.

        >>> from fusiest import load
        >>> load("simple", "matmuls").with_rank_size(m=64).info.einsums["Matmul0"].bounds
        {'m': 64, 'n0': 128, 'n1': 128}
        """
        spec = self
        for name, value in _pairs(rank, size, sizes):
            spec = edits.with_rank_size(spec, name, value)
        return check(spec)

    def with_define(self, name: str | None = None, value: object = None, /, **defines: object) -> Spec:
        """Its files loaded again, with other values of some defines: `with_define("N", 64)` or `with_define(N=64, M=32)`.

        >>> from fusiest import load
        >>> load("simple", "matmuls", KN=64).with_define(N_EINSUMS=1).info.einsums["Matmul0"].bounds
        {'m': 128, 'n0': 64, 'n1': 64}
        """
        return edits.with_defines(self, dict(_pairs(name, value, defines)))

    def to_yaml(self) -> str:
        """The spec as a file that loads to the same."""
        from fusiest.spec.dumping import dump

        return dump(self)

    def _repr_html_(self) -> str:
        from fusiest.show import spec_html

        return spec_html(self)


def _every_einsum(spec: Spec) -> list[EinsumNames]:
    infos = spec.info.einsums.values() if spec.workload is not None else ()
    return [architecture_names(spec, info) for info in infos]


def _pairs(name: str | None, value: Any, more: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [*([(name, value)] if name is not None else []), *more.items()]


def check(spec: Spec) -> Spec:
    """The spec; the first error in it that can be known without a mapping is raised."""
    einsums = len(spec.workload.einsums) if spec.workload is not None else 0
    steps = MAX_STEPS + MAX_STEPS_PER_EINSUM * einsums
    with budget(steps, "the spec takes too long to check: too many Einsums, nodes or long expressions"):
        _check(spec)
    return spec


def _check(spec: Spec) -> None:
    if spec.arch is not None:
        _check_architecture(spec.arch)
    _ = spec.variable_values
    _check_classes(spec)
    if spec.workload is None:
        return
    _check_name_clashes(spec)
    _check_variables(spec)
    if spec.arch is None:
        return
    for info in spec.info.einsums.values():
        names = architecture_names(spec, info)
        outer = frozenset[str]()
        shared = spec.bound.get(info.name, {})
        bound = spec.bound[info.name] = {}
        for node in flatten(spec.arch.nodes):
            spend(STEPS_PER_NODE, node.name)
            bound[str(node.name)] = shared.get(str(node.name)) or bind_node(node, info, names)
            if spec.__dict__.get("_placed"):
                continue
            if isinstance(node, (arch.Memory, arch.TollStation)):
                with at_node(node):
                    sets = placement_sets(node, names, outer)
            if isinstance(node, arch.Memory):
                outer |= sets.keep | sets.may_keep
                names = names.choose(str(node.name), sets.keep | sets.may_keep)


def _check_classes(spec: Spec) -> None:
    """Classes of the spec, and of its components, as far as they can be known without an Einsum."""
    models = spec.models
    for node in flatten(spec.arch.nodes) if spec.arch is not None else ():
        if not isinstance(node, arch.Component) or node.component_class in (None, DUMMY):
            continue
        if node.area is None or missing_figures(node):
            models.check(node)


def _check_variables(spec: Spec) -> None:
    """Each variable has a value in at least one Einsum, also if nothing uses it."""
    errors: dict[str, SpecError] = {}
    unresolved = set(spec.variable_values.texts)
    for info in spec.info.einsums.values():
        names = architecture_names(spec, info) if spec.arch else info.names
        for name in sorted(unresolved):
            try:
                names[name]
                unresolved.discard(name)
            except SpecError as error:
                errors.setdefault(name, error)
    for name in sorted(unresolved):
        raise errors[name]


def _check_architecture(architecture: Architecture) -> None:
    nodes = list(flatten(architecture.nodes))
    if len(nodes) > MAX_NODES:
        raise SpecError(f"an architecture may have {MAX_NODES} nodes, but this one has more", nodes[MAX_NODES].name)
    if name := repeated(node.name for node in nodes):
        raise SpecError(f"two nodes of the architecture are named {name}", name)
    for node in nodes:
        check_name(node.name, "component", dashes=True)
        if name := repeated(dimension.name for dimension in node.spatial):
            raise SpecError(f"two fanout dimensions of {node.name} are named {name}", name)
        if isinstance(node, arch.Component):
            _check_actions(node)
    for compute in computes(architecture):
        path = path_nodes(architecture.nodes, compute) or []
        first = next(node for node in path if type(node) is not arch.Container)
        if not isinstance(first, arch.Memory):
            raise SpecError(
                f"above {compute}, the outermost node must be a !Memory that holds the workload's tensors, "
                f"but it is {first.name}",
                first.name,
            )
        if first.name in arch.beside(architecture.nodes):
            raise SpecError(f"the outermost memory, {first.name}, must not stand in a !Parallel", first.name)


def _check_actions(node: arch.Component) -> None:
    """Actions that a component never does may be given; what looks like a misspelling of one that it does may not."""
    for action in node.actions:
        others = set(node.ACTIONS) - {listed.name for listed in node.actions}
        if action.name not in node.ACTIONS and closest(action.name, others) is not None:
            raise SpecError(
                f"{node.name} has no action '{action.name}'{did_you_mean(action.name, others)}", action.name
            )
    if name := repeated(action.name for action in node.actions):
        raise SpecError(f"{node.name} lists action '{name}' twice", name)


def _check_name_clashes(spec: Spec) -> None:
    """A name in an expression must mean one thing."""
    einsums = spec.require_workload().einsums
    tables = [e.tensor_accesses + e.rank_variables for e in spec.renames] + [einsum.renames for einsum in einsums]
    nodes, variables = (spec.arch.nodes, spec.arch.variables) if spec.arch is not None else ((), {})
    names: dict[str, Iterable[str]] = {
        "a rank variable": {v for info in spec.info.einsums.values() for v in info.bounds},
        "a tensor": spec.info.users,
        "a rename": (rename.name for table in tables for rename in table),
        "a component": (node.name for node in flatten(nodes)),
        "a variable": (*spec.variables, *variables),
    }
    meanings: dict[str, str] = {}
    for kind, members in names.items():
        for name in members:
            first = meanings.setdefault(name, kind)
            if first != kind:
                raise SpecError(f"{name} is the name of {kind} and of {first}; rename one", name)
