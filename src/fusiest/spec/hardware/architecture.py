"""The architecture as the user wrote it: frozen objects, expressions not yet evaluated.

`binding` evaluates them for one Einsum. What stands beside a field's type says how it is read and what the reference says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar, get_args

from fusiest.base.errors import SpecError
from fusiest.base.frozen import FrozenDict
from fusiest.spec.hardware.actions import BITS, Action
from fusiest.spec.language import fields as f
from fusiest.spec.language.fields import Alias, FieldError, NameText, Number, Reader, Value
from fusiest.spec.language.ranges import Limits
from fusiest.spec.language.variables import SpecVariable
from fusiest.spec.reading.yamlfile import YamlNode

OPERATORS = ("==", "<=", ">=", "<", ">", "product==", "product<=", "product>=", "product<", "product>")
Direction: TypeAlias = Literal["down", "up", "up_and_down"]
S = TypeVar("S")
T = TypeVar("T")
_NOT_GIVEN: Any = None
_OF_HOLDERS = ("back", "tile_shape", "no_refetch_from_above", "no_resend_to_below", "no_fused_loops",
               "tensor_order_options")  # fmt: skip
"""Fields of `Tensors` that say something only where tensors are held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenComparison:
    """In `loop_bounds` the number compared is the iterations of a variable's loop on this dimension, 1 if it has none;
    in `tile_shape`, the variable's extent at this memory's outermost holder.
    """

    expression: Annotated[
        f.VariableSet,
        "A set of rank variables, such as `m | n`, `~m` or `weight.rank_variables`; `All` means all variables of the Einsum.",
    ]
    operator: Annotated[
        str, "`==` `<=` `>=` `<` `>`, for each variable; with `product` in front, as in `product<=`, for their product."
    ]
    value: Annotated[Value, "What to compare with."]

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise FieldError("operator", f"operator '{self.operator}' is none of {' '.join(OPERATORS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One dimension of a fanout: the node that carries it, and all below, exist `fanout` times."""

    name: Annotated[str, "Unique in its node."]
    fanout: Annotated[Value, Limits(whole=True), "How many there are."]
    may_reuse: Annotated[
        f.SetText | None,
        "Tensors that are multicast or reduced for free across loops on this dimension that do not index them. Default: "
        "`reuse` if given, else All. It restricts no loop.",
    ] = None
    reuse: Annotated[
        f.SetText | None, "Loops here may run only over variables that index none of these tensors. Default Nothing."
    ] = None
    loop_bounds: Annotated[
        tuple[WrittenComparison, ...], "What the iterations of the loops on this dimension must obey."
    ] = ()
    min_usage: Annotated[
        Value,
        Limits(fraction=True),
        "The mapper keeps a Spatial choice only if no other uses every dimension at least as well and one better, counting "
        "usage up to this fraction. 1: use as much as possible. Not for copies.",
    ] = 0
    usage_scale: Annotated[
        f.PositiveNumber, "Usage is instances used times this, over the fanout; it must not exceed 1."
    ] = 1
    power_gateable: Annotated[bool, "Leakage of this node and all below counts only for the fraction in use."] = False

    def __post_init__(self) -> None:
        f.check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensors(Generic[S, T]):
    """What a memory or Toll must, may and must not do with which tensors. Written, sets are expressions; evaluated for an
    Einsum, they are sets.
    """

    keep: Annotated[
        S,
        f.SET,
        "Must be held here; of a Toll: is charged if a memory above holds it. The name of an outer memory is the set it "
        "holds; `Above` is the union of all of them. Default Nothing.",
    ] = _NOT_GIVEN
    may_keep: Annotated[S, f.SET, "May be held here. Default: All if `keep` is absent, else Nothing."] = _NOT_GIVEN
    back: Annotated[S, f.SET, "Must be held here and in no memory above. Default Nothing."] = _NOT_GIVEN
    tile_shape: Annotated[
        tuple[T, ...], Reader(_read_comparisons, "list"), "What extents at this memory's outermost holder must obey."
    ] = ()
    no_refetch_from_above: Annotated[
        S,
        f.SET,
        "For these tensors, no Temporal loop that does not index them fully between the backing holder and this one. "
        "Default Nothing.",
    ] = _NOT_GIVEN
    no_resend_to_below: Annotated[
        S, f.SET, "The same between this holder and the next below, or the compute. Default Nothing."
    ] = _NOT_GIVEN
    no_fused_loops: Annotated[
        S,
        Reader(f.read_expression, "set of rank variables"),
        "Rank variables that no loop may step above a tensor of several Einsums that is backed here: its tiles are whole "
        "in them.",
    ] = _NOT_GIVEN
    tensor_order_options: Annotated[
        tuple[tuple[S, ...], ...],
        Reader(_read_order, "list of lists of sets"),
        "Options, each a list of disjoint sets, highest first. This memory's holders satisfy at least one; tensors that "
        "are not listed are free.",
    ] = ()
    force_memory_hierarchy_order: Annotated[
        bool,
        "Holders of outer memories stand above those of inner ones. `false` on either memory lifts that between different "
        "tensors; where a fanout or a Toll lies between two such memories, the mapper takes its slower, general search.",
    ] = True


WrittenTensors: TypeAlias = Tensors[str | None, WrittenComparison]


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A node without a function of its own; it carries a fanout."""

    name: Annotated[str, "Unique in the architecture."]
    spatial: Annotated[
        tuple[Dimension, ...],
        "Dimensions of a fanout: this node and all below it on the path exist that many times. Dimensions multiply.",
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Component(Container):
    """These fields, and those of `!Container`, belong to every component. Without a `component_class`, a component
    must give `leak_power`, and the energy and throughput of each of its actions. Other actions may be given.
    """

    component_class: Annotated[
        str | None,
        "Estimates the energy, throughput, leakage and area that are not given ([classes](components.md)). `Dummy`: they are 0, "
        "throughput is inf.",
    ] = None
    attributes: Annotated[
        FrozenDict[NameText, SpecVariable],
        Alias("extra_attributes_for_component_model"),
        "What the class wants to know, such as `{width: 64, tech_node: 22nm}`. `size`, `bits_per_action` and "
        "`n_parallel_instances` are attributes, too.",
    ] = field(default_factory=FrozenDict)
    enabled: Annotated[
        f.Condition,
        "Per Einsum. A memory that is not enabled holds nothing (its fanout stays); a compute cannot run the Einsum.",
    ] = True
    leak_power: Annotated[Number | None, Limits(units=("W",)), "Watts per instance, for as long as anything runs."] = (
        None
    )
    area: Annotated[
        Number | None,
        Limits(units=("m²",)),
        "Square metres per instance. It may be left out; results say what all instances take.",
    ] = None
    actions: Annotated[tuple[Action, ...], "What the component does, with energy and throughput."] = ()
    total_latency: Annotated[
        f.ExpressionText | None,
        Limits(units=("s",)),
        "Seconds busy, as an expression over `actions` (each with `name`, `n_calls`, `throughput`) and the component's own "
        "figures. Default: the sum of n_calls / throughput. It must not fall when a count rises.",
    ] = None
    n_parallel_instances: Annotated[
        f.PositiveNumber, "Multiplies throughput, leakage and area; not size, not energy."
    ] = 1
    bits_per_action: Annotated[
        f.PerTensor | None, BITS, "Bits that one action moves, where the action does not say. Default 1."
    ] = None
    values_per_action: Annotated[f.PerTensor | None, "Values that one action moves; goes before bits_per_action."] = (
        None
    )
    bits_per_value: Annotated[
        f.BitsPerTensor | None, "Bits per value in this component, in place of the workload's."
    ] = None
    energy_scale: Annotated[Number, "Multiplies the energy of every action."] = 1
    throughput_scale: Annotated[f.PositiveAmount, "Multiplies the throughput of every action."] = 1
    latency_scale: Annotated[Number, "Divides the throughput of every action."] = 1
    actions_scale: Annotated[Number, "Multiplies the count of every action."] = 1
    leak_power_scale: Annotated[Number, "Multiplies leak_power."] = 1
    area_scale: Annotated[Number, "Multiplies area."] = 1

    ACTIONS: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        f.check_fields(self)

    def action(self, name: str) -> Action:
        """What it says of an action; nothing, if it does not mention it."""
        return next((action for action in self.actions if action.name == name), None) or Action(name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Component):
    """Actions: `read`, `write`."""

    ACTIONS: ClassVar[tuple[str, ...]] = ("read", "write")
    size: Annotated[
        Value, f.NUMBER, Limits(finite=False, units=("bit",)), "Bits per instance, or `2 MiB`; `inf` for no limit."
    ]
    tensors: Annotated[WrittenTensors, "What is held here, and how."] = field(default_factory=Tensors)
    skip_initial_output_write: Annotated[
        bool, "Whether partial sums are not moved the first time, when there are none yet."
    ] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TollStation(Component):
    """Data passes through and is charged (a network, a converter); nothing is kept. Actions: `read`."""

    TAG: ClassVar[str] = "!Toll"
    ACTIONS: ClassVar[tuple[str, ...]] = ("read",)
    direction: Annotated[
        Direction | FrozenDict[f.SetText, Direction],
        "`down` (towards the compute), `up` or `up_and_down`; or by set, covering every tensor. Only these ways are charged.",
    ]
    tensors: Annotated[WrittenTensors, "Which tensors pass here: `keep` and `may_keep` alone."] = field(
        default_factory=Tensors
    )

    def __post_init__(self) -> None:
        f.check_fields(self)
        for name in _OF_HOLDERS:
            if getattr(self.tensors, name):
                raise FieldError("tensors", f"a Toll holds nothing, so that '{name}' has no meaning for it")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeUnit(Component):
    """Actions: `compute`."""

    TAG: ClassVar[str] = "!Compute"
    ACTIONS: ClassVar[tuple[str, ...]] = ("compute",)
    skip_initial_output_write: Annotated[bool, "As for a memory."] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A side branch below the node above; the main path continues after it."""

    nodes: Annotated[Nodes, "A side branch below the node above; the main path goes on after it."]
    name: Annotated[str | None, "For people only."] = None
    forked_power_gateable: Annotated[bool, "Its nodes do not leak while another branch runs."] = False
    non_forked_power_gateable: Annotated[bool, "What comes after the fork does not leak while the fork runs."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """Memories that stand beside each other below the node above: none of them is above another.

    A tensor is held in at most one of them. What they hold stands between the memories above and below in any order.
    """

    nodes: Annotated[Nodes, "Two or more `!Memory` nodes without a fanout of their own."]
    name: Annotated[str | None, "For people only."] = None

    def __post_init__(self) -> None:
        for node in self.nodes:
            if not isinstance(node, Memory):
                raise FieldError("nodes", "only !Memory nodes can stand in a !Parallel", getattr(node, "name", None))
            if node.spatial:
                message = (
                    f"{node.name} stands in a !Parallel, so it has no fanout of its own; give it to a !Container above"
                )
                raise FieldError("nodes", message, node.name)
        if len(self.nodes) < 2:
            raise FieldError("nodes", "a !Parallel needs two memories or more")


ArchitectureNode: TypeAlias = Memory | TollStation | ComputeUnit | Container | Fork | Parallel


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """`!Hierarchical {nodes}` may wrap nodes; it changes nothing."""

    nodes: Annotated[Nodes, "The nodes from the outermost in, each the parent of the next."]
    variables: Annotated[FrozenDict[f.NameText, SpecVariable], "As the section `variables`, for this architecture."] = (
        field(default_factory=FrozenDict)
    )
    attributes: Annotated[
        FrozenDict[NameText, SpecVariable],
        Alias("extra_attributes_for_all_component_models"),
        "Attributes of all components whose class has them and that do not give them.",
    ] = field(default_factory=FrozenDict)

    def __post_init__(self) -> None:
        if not computes(self):
            raise FieldError("nodes", "the architecture has no !Compute")


_NOT_SUPPORTED = {
    "!Array": "instances of a node are its 'spatial', or that of a !Container above it",
    "!Network": "what a link costs is a !Toll, where data goes over several hops with that many 'actions_scale'",
    "!Pipeline": "Einsums run one after the other",
}


def _read_nodes(node: YamlNode, what: str) -> tuple[ArchitectureNode, ...]:
    def read_item(item: YamlNode, what: str) -> tuple[ArchitectureNode, ...]:
        if item.tag in _NOT_SUPPORTED:
            raise SpecError(f"{item.tag} is not supported; {_NOT_SUPPORTED[item.tag]}", item.source)
        if item.tag == "!Hierarchical":
            return _read_nodes(f.only_fields(item, item.tag, "nodes")["nodes"], "nodes")
        return (f.read_tagged(item, get_args(ArchitectureNode), "arch"),)

    return tuple(child for group in f.read_list(node, what, read_item) for child in group)


Nodes = Annotated[tuple[ArchitectureNode, ...], Reader(_read_nodes, "list of nodes")]


def _read_comparisons(node: YamlNode, what: str) -> tuple[WrittenComparison, ...]:
    return f.read_list(node, what, lambda item, what: f.read_tagless(item, WrittenComparison, what))


def _read_order(node: YamlNode, what: str) -> tuple[tuple[str, ...], ...]:
    return f.read_list(node, what, lambda item, what: f.read_list(item, what, f.read_expression))


def flatten(nodes: tuple[ArchitectureNode, ...]) -> Iterator[Container]:
    """All nodes, the contents of Forks and Parallels included."""
    for node in nodes:
        if isinstance(node, (Fork, Parallel)):
            yield from flatten(node.nodes)
        else:
            yield node


def rewritten(
    nodes: tuple[ArchitectureNode, ...], change: Callable[[Container], ArchitectureNode]
) -> tuple[ArchitectureNode, ...]:
    """Change each of these nodes, those in Forks and Parallels, too."""
    return tuple(
        replace(node, nodes=rewritten(node.nodes, change)) if isinstance(node, (Fork, Parallel)) else change(node)
        for node in nodes
    )


def memory_names(architecture: Architecture) -> list[str]:
    """All memories, outermost first."""
    return [str(node.name) for node in flatten(architecture.nodes) if isinstance(node, Memory)]


def path_nodes(nodes: tuple[ArchitectureNode, ...], compute: str) -> list[Container] | None:
    """The nodes from the outermost to this compute, or None if it is not among them."""
    path: list[Container] = []
    for node in nodes:
        if isinstance(node, Fork):
            inside = path_nodes(node.nodes, compute)
            if inside is not None:
                return path + inside
        elif isinstance(node, ComputeUnit):
            if node.name == compute:
                return [*path, node]
        elif isinstance(node, Parallel):
            path += flatten(node.nodes)
        else:
            path.append(node)
    return None


def outermost_memories(nodes: tuple[ArchitectureNode, ...], compute_names: Iterable[str]) -> list[str]:
    """The first memory on the way to each of these computes; nearly always one."""
    paths = (path_nodes(nodes, compute) or () for compute in compute_names)
    return list(dict.fromkeys(str(next(node.name for node in path if isinstance(node, Memory))) for path in paths))


def beside(nodes: tuple[ArchitectureNode, ...]) -> dict[str, frozenset[str]]:
    """For each memory in a `!Parallel`, the others in it."""
    neighbours: dict[str, frozenset[str]] = {}
    for node in nodes:
        if isinstance(node, Fork):
            neighbours |= beside(node.nodes)
        elif isinstance(node, Parallel):
            names = frozenset(str(memory.name) for memory in flatten(node.nodes))
            neighbours |= {name: names - {name} for name in names}
    return neighbours


def computes(architecture: Architecture) -> list[str]:
    """The names of all computes."""
    return [str(node.name) for node in flatten(architecture.nodes) if isinstance(node, ComputeUnit)]
