"""The workload as the user wrote it: Einsums, their accesses, and what is known of their sizes.

`analysis` derives bounds, relevance and sharing from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from fusiest.base.errors import Located, SpecError, check_known, shown
from fusiest.base.frozen import FrozenDict
from fusiest.spec.language import fields as f
from fusiest.spec.language.affine import Affine, Constraint
from fusiest.spec.language.allowed_names import check_name, check_word
from fusiest.spec.language.einsum_text import ParsedEinsum, parse_einsum, projection_index
from fusiest.spec.language.fields import FieldError, Reader
from fusiest.spec.language.formulas import Read, leaves, parse_formula
from fusiest.spec.language.ranges import Limits
from fusiest.spec.reading.yamlfile import ListNode, MapNode, ScalarNode, YamlNode

COPY = "copy"
MOST_EINSUMS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """Also `{name: source, …}` as a table, without `expected_count`."""

    name: Annotated[str, "The name, for use in the architecture's set expressions."]
    source: Annotated[f.SetText, "What it stands for; earlier renames may be used."]
    expected_count: Annotated[f.Value | None, "How many tensors that must be; checked."] = None

    def __post_init__(self) -> None:
        check_name(self.name, "rename")


@dataclass(frozen=True, slots=True, kw_only=True)
class EinsumRenames:
    """The top-level section `renames` has one field, `einsums`, a list of these."""

    name: Annotated[str, "An Einsum, or `default` for all. An Einsum's own entry goes before it, name by name."]
    tensor_accesses: Annotated[Renames, "Names for sets of tensors, in order."] = ()
    rank_variables: Annotated[Renames, "Names for sets of rank variables, in order."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorAccess:
    """How an Einsum indexes a tensor: one affine expression per rank."""

    name: Annotated[str, "The tensor."]
    projection: Annotated[
        FrozenDict[str, Affine],
        Reader(_read_projection, "list, or {rank: index}"),
        "One index per rank: `[m, n]` for ranks M and N, or `{H: 2*p + r}`. A variable may not index two ranks of one tensor.",
    ]
    output: Annotated[bool, "Exactly one access of an Einsum is its output."] = False
    bits_per_value: Annotated[
        f.PositiveNumber | None,
        Limits(positive=True, units=("bit",)),
        "In place of the workload's; all users of a tensor must agree.",
    ] = None
    persistent: Annotated[bool, "As if it were one of the workload's `persistent_tensors`; all users must agree."] = (
        False
    )
    backing_storage_size_scale: Annotated[int, Limits(always_one=True), "Always 1."] = 1

    def __post_init__(self) -> None:
        check_name(self.name, "tensor")
        f.check_fields(self)

    @property
    def variables(self) -> dict[str, None]:
        """The rank variables that index it, in order."""
        return {v: None for index in self.projection.values() for v in index.variables}


@dataclass(frozen=True, slots=True, kw_only=True)
class Einsum:
    """An entry may also be a list of entries, or a string, `C[m, n] = A[m, k] * B[k, n]`, or have that string in a field
    `einsum` in place of `tensor_accesses`; `name` is then the output's name unless given. `M: p` in a string names the rank.
    """

    name: Annotated[str, "Unique in the workload."]
    tensor_accesses: Annotated[tuple[TensorAccess, ...], "The tensors that are read and the one that is written."]
    renames: Annotated[Renames, "Names for this Einsum alone; they go before the section `renames`."] = ()
    iteration_space_shape: Annotated[Shape, "Constraints for this Einsum alone."] = ()
    rank_sizes: Annotated[RankSizes, "Sizes of ranks in this Einsum, in place of the workload's."] = field(
        default_factory=FrozenDict
    )
    n_instances: Annotated[int, "How often this Einsum runs, on top of the workload's."] = 1
    is_copy_operation: Annotated[bool, "The output is the input, elsewhere: moved once, nothing computed."] = False
    operation: Annotated[
        str | None,
        Reader(_read_operation, "text"),
        "What it computes, in a word that expressions of the architecture may compare: `matmul`, `add`, `exp`, … Default: see "
        "[workload.md](workload.md#what-an-einsum-computes).",
    ] = None
    formula: Annotated[
        str | None,
        "What it computes of its inputs, such as `exp(QK - MX)`. It changes no cost. Default: what its text says, or else its "
        "`operation`.",
    ] = None

    def __post_init__(self) -> None:
        check_name(self.name, "Einsum", dashes=True)
        _check_instances(self.n_instances)
        if self.operation is not None and (self.operation == COPY) != self.is_copy_operation:
            raise FieldError("operation", "the operation 'copy' and is_copy_operation: true go together")
        if self.formula is not None:
            self._check_formula(self.formula)

    def _check_formula(self, formula: str) -> None:
        """Refuse a formula of anything but the inputs."""
        inputs = [str(access.name) for access in self.tensor_accesses if not access.output]
        for leaf in leaves(parse_formula(formula)):
            if isinstance(leaf, Read):
                name = leaf.tensor.partition(".")[0]
                check_known(name, inputs, f"the Einsum reads no tensor '{shown(name)}'", formula)
        if self.is_copy_operation:
            raise FieldError("formula", f"Einsum {self.name} is a copy, which has no formula")

    @property
    def variables(self) -> dict[str, None]:
        """Its rank variables, in order."""
        return {v: None for access in self.tensor_accesses for v in access.variables}

    @property
    def computes(self) -> str:
        """Its operation; if it does not say, the product of its inputs, summed over what the output does not have."""
        if self.operation is not None:
            return str(self.operation)
        inputs = [access for access in self.tensor_accesses if not access.output]
        outputs = {v for access in self.tensor_accesses if access.output for v in access.variables}
        reduces = not outputs.issuperset(self.variables)
        if self.is_copy_operation:
            return COPY
        if len(inputs) == 1:
            return "sum" if reduces else "unary"
        return "matmul" if reduces else "multiply"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Einsums, in an order in which each is listed after those whose results it reads."""

    einsums: Annotated[tuple[Einsum, ...], Reader(_read_einsums, "list"), "In the order that `--orders given` means."]
    rank_sizes: Annotated[
        RankSizes,
        "Sizes of ranks: every index into the rank is at least 0 and less than this. Sizes of other ranks and variables may be "
        "used.",
    ] = field(default_factory=FrozenDict)
    iteration_space_shape: Annotated[
        Shape, "Constraints on rank variables, such as `0 <= m < 128`, each for the Einsums that have its variables."
    ] = ()
    bits_per_value: Annotated[
        f.BitsPerTensor | None, "Bits of a value, for all tensors or by disjoint sets, `Other` being the rest."
    ] = None
    persistent_tensors: Annotated[
        f.SetText, "Tensors that stay for all of the run: backed above all loops, with space for every instance."
    ] = "Nothing"
    n_instances: Annotated[
        int, "How often the workload runs: multiplies energy, latency, actions and persistent space."
    ] = 1

    def __post_init__(self) -> None:
        if not self.einsums:
            raise FieldError("einsums", "the workload has no Einsums")
        f.check_fields(self)
        _check_instances(self.n_instances)


def _check_instances(count: int) -> None:
    if count < 1:
        raise FieldError("n_instances", f"n_instances must be at least 1, but is {count}")


def check_new(einsum: Einsum, seen: set[str]) -> None:
    """Refuse a second Einsum of the same name."""
    if einsum.name in seen:
        raise SpecError(f"two Einsums are named {einsum.name}; give one of them another 'name'", einsum.name)
    seen.add(einsum.name)


# --- from YAML ------------------------------------------------------------------------------------------------------


def _read_einsums(node: YamlNode, what: str) -> tuple[Einsum, ...]:
    seen: set[str] = set()

    def read_item(child: YamlNode, what: str) -> tuple[Einsum, ...]:
        if isinstance(child, ListNode):
            return tuple(einsum for group in f.read_list(child, what, read_item) for einsum in group)
        einsum = read_einsum(child, what)
        check_new(einsum, seen)
        if len(seen) > MOST_EINSUMS:
            raise SpecError(f"a workload may have {MOST_EINSUMS:,} Einsums at most", child.source)
        return (einsum,)

    return tuple(einsum for group in f.read_list(node, what, read_item) for einsum in group)


def read_einsum(node: YamlNode, what: str) -> Einsum:
    """An Einsum, from its text or its fields."""
    f.no_tag(node, what)
    nodes: dict[str, YamlNode] = {"einsum": node} if isinstance(node, ScalarNode) else _einsum_fields(node)
    if "einsum" not in nodes:
        name = nodes.get("name")
        label = f"Einsum {name.value}" if isinstance(name, ScalarNode) else "Einsum"
        result: Einsum = f.read_object(node, Einsum, label)
        return result
    parsed = parse_einsum(f.read_text(nodes.pop("einsum"), what))
    values: dict[str, Any] = {"name": parsed.output.name, "operation": parsed.operation}
    if not parsed.says_nothing or ("operation" in nodes and len(parsed.inputs) > 1):
        values["formula"] = parsed.formula
    other_fields = _read_more(nodes.pop("tensor_accesses"), parsed) if "tensor_accesses" in nodes else {}
    values["tensor_accesses"] = (
        *(TensorAccess(**access._asdict(), **other_fields.get(access.name, {})) for access in parsed.inputs),
        TensorAccess(output=True, **parsed.output._asdict(), **other_fields.get(parsed.output.name, {})),
    )
    declared = f.fields_of(Einsum)
    values.update({name: declared[name].reader.read(value, name) for name, value in nodes.items()})
    built: Einsum = f.build(node, Einsum, values, nodes)
    return built


def _read_more(node: YamlNode, parsed: ParsedEinsum) -> dict[str, dict[str, Any]]:
    """What `tensor_accesses` say of tensors beside the text of the Einsum: all but how they are indexed."""
    by_tensor: dict[str, dict[str, Any]] = {}
    tensors = [name for name, _ in (*parsed.inputs, parsed.output)]
    for access in f.read_list(node, "tensor_accesses", lambda item, what: f.read_given(item, TensorAccess, what)):
        name = access.get("name")
        check_known(str(name), tensors, f"the Einsum has no tensor '{shown(name)}'", name or node.source)
        for field_name in ("projection", "output"):
            if field_name in access:
                raise SpecError(f"how {name} is indexed is said by 'einsum'; '{field_name}' has no place here", name)
        by_tensor[str(name)] = {key: value for key, value in access.items() if key != "name"}
    return by_tensor


def _einsum_fields(node: YamlNode) -> dict[str, YamlNode]:
    for name, (key, _) in f.read_fields(node, "an Einsum").items():
        if "[" in name:
            raise SpecError(f"an Einsum with ': ' in it wants quotes around it, at '{name}: …'", key.source)
    return f.known_fields(node, "an Einsum", [*f.fields_of(Einsum), "einsum"])


def _read_operation(node: YamlNode, what: str) -> Located:
    word = f.read_text(node, what)
    check_word(word, what)
    return word


def _read_projection(node: YamlNode, what: str) -> FrozenDict[str, Affine]:
    def affine(child: YamlNode) -> Located:
        value = child.value if isinstance(child, ScalarNode) else None
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise f.must_be("an expression such as '2*p + r'", child, "an index")
        return Located(str(value), child.source)

    f.no_tag(node, what)
    if isinstance(node, MapNode):
        pairs = [projection_index(f.read_text(k, what), affine(v), f"{k.value}: …") for k, v in node.items]
    elif isinstance(node, ListNode):
        pairs = [projection_index(None, affine(item), affine(item)) for item in node.items]
    else:
        raise f.must_be("a list such as [m, k] or a mapping", node, "projection")
    if len({rank for rank, _ in pairs}) < len(pairs):
        raise SpecError("a projection names a rank twice", node.source)
    return FrozenDict(pairs)


def _read_shape(node: YamlNode, what: str) -> tuple[Constraint, ...]:
    f.no_tag(node, what)
    if isinstance(node, ListNode):
        return tuple(Constraint(f.read_text(item, what)) for item in node.items)
    if not isinstance(node, MapNode):
        raise f.must_be("a mapping such as m: 0 <= m < 4", node, what)
    constraints = []
    for key, value in node.items:
        constraint = Constraint(f.read_text(value, f"{what} of {key.value}"))
        if key.value not in constraint.variables:
            raise SpecError(f"'{shown(constraint.text)}' says nothing of '{shown(key.value)}'", value.source)
        constraints.append(constraint)
    return tuple(constraints)


def _read_renames(node: YamlNode, what: str) -> tuple[Rename, ...]:
    if isinstance(node, ListNode):
        return f.read_list(node, what, lambda item, _: f.read_tagless(item, Rename, "a rename"))
    pairs = f.read_map(node, what, f.read_text, f.read_expression)
    return tuple(Rename(name=name, source=source) for name, source in pairs.items())


def read_rename_section(node: YamlNode, what: str = "renames") -> tuple[EinsumRenames, ...]:
    """The top-level section `renames: {einsums: [{name, tensor_accesses}]}`."""
    f.no_tag(node, what)
    if isinstance(node, MapNode) and not node.items:
        return ()
    entries = f.only_fields(node, what, "einsums")["einsums"]
    return f.read_list(entries, what, lambda item, _: f.read_tagless(item, EinsumRenames, "a renames entry"))


RankSizes = Annotated[FrozenDict[Annotated[str, Reader(f.read_text, "rank")], f.Value], Limits(whole=True)]
Renames = Annotated[tuple[Rename, ...], Reader(_read_renames, "list or {name: set}")]
Shape = Annotated[tuple[Constraint, ...], Reader(_read_shape, "{variable: constraint}, or list of constraints")]
