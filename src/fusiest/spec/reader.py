"""From YAML nodes to architectures, LoopTrees and workloads. How a plain field is read is in `fields`."""

from __future__ import annotations

from typing import Any

from fusiest.errors import Located, SpecError, did_you_mean, shown
from fusiest.frozen import FrozenDict
from fusiest.looptree import nodes as looptree
from fusiest.spec import architecture
from fusiest.spec.affine import Affine, Constraint
from fusiest.spec.dataflow import Dataflow
from fusiest.spec.einsum_text import check_name, check_word, parse_einsum, projection_index
from fusiest.spec.fields import (
    SPECIAL,
    build,
    describe,
    field_readers,
    no_tag,
    only_fields,
    read_expression,
    read_fields,
    read_int,
    read_list,
    read_map,
    read_name,
    read_object,
    read_tagless,
    read_text,
    read_variable,
)
from fusiest.spec.variables import VariableValue
from fusiest.spec.workload import Einsum, EinsumRenames, Rename, TensorAccess, Workload
from fusiest.spec.workload_checks import check_new
from fusiest.spec.yamlfile import ListNode, MapNode, Node, ScalarNode

_ARCHITECTURE_TAGS = {
    f"!{t.__name__}": t
    for t in (
        architecture.Memory,
        architecture.Toll,
        architecture.Compute,
        architecture.Container,
        architecture.Fork,
    )
}
_LOOPTREE_TAGS = {
    f"!{t.__name__}": t
    for t in (
        looptree.Temporal,
        looptree.Spatial,
        looptree.Storage,
        looptree.Toll,
        looptree.Compute,
        looptree.Sequential,
        looptree.Nested,
    )
}
_NOT_SUPPORTED = {"!Array", "!Network", "!Pipeline"}


# --- architecture ---------------------------------------------------------------------------------------------------


def read_architecture(node: Node, what: str = "arch") -> architecture.Architecture:
    no_tag(node, what)
    result: architecture.Architecture = read_object(node, architecture.Architecture, what)
    return result


def read_dataflow(node: Node, what: str = "dataflow") -> Dataflow:
    no_tag(node, what)
    result: Dataflow = read_object(node, Dataflow, what)
    return result


def _read_architecture_nodes(node: Node, what: str) -> tuple[architecture.ArchitectureNode, ...]:
    no_tag(node, what)
    if not isinstance(node, ListNode):
        raise SpecError(f"{what} must be a list, but is {describe(node)}", node.source)
    found: list[architecture.ArchitectureNode] = []
    for item in node.items:
        if item.tag == "!Hierarchical":
            found += _read_architecture_nodes(only_fields(item, item.tag, "nodes")["nodes"], "nodes")
        else:
            found.append(_read_tagged(item, _ARCHITECTURE_TAGS, "arch"))
    return tuple(found)


def _read_tagged(node: Node, tags: dict[str, Any], where: str) -> Any:
    if node.tag in _NOT_SUPPORTED:
        raise SpecError(f"{node.tag} is not supported", node.source)
    if node.tag is None:
        raise SpecError(f"a node of {where} needs one of the tags {' '.join(tags)}", node.source)
    if node.tag not in tags:
        raise SpecError(f"unknown tag {node.tag} in {where}{did_you_mean(node.tag, tags)}", node.source)
    what = node.tag
    if isinstance(node, MapNode):
        name = read_fields(node, what).get("name")
        what = f"{what} {shown(name[1].value)}" if name and isinstance(name[1], ScalarNode) else what
    return read_object(node, tags[node.tag], what)


def _read_direction(node: Node, what: str) -> Any:
    def one(child: Node, _: str) -> str:
        direction = read_text(child, what)
        if direction not in ("down", "up", "up_and_down"):
            raise SpecError(f"direction '{direction}' is none of down, up, up_and_down", child.source)
        return direction

    return read_map(node, what, read_expression, one) if isinstance(node, MapNode) else one(node, what)


# --- LoopTree -------------------------------------------------------------------------------------------------------


def read_mapping(node: Node, what: str = "mapping") -> looptree.LoopTree:
    no_tag(node, what)
    return looptree.LoopTree(nodes=_read_looptree_nodes(only_fields(node, what, "nodes")["nodes"], what))


def _read_looptree_nodes(node: Node, what: str) -> tuple[looptree.Node, ...]:
    children = _list_of_nodes(node, what)
    for child in children:
        if child.tag == "!Nested":
            raise SpecError("!Nested is a branch of !Sequential and stands nowhere else", child.source)
    return tuple(_read_looptree_node(child) for child in children)


def _list_of_nodes(node: Node, what: str) -> tuple[Node, ...]:
    no_tag(node, "nodes")
    if not isinstance(node, ListNode) or not node.items:
        found = "empty" if isinstance(node, ListNode) else describe(node)
        raise SpecError(f"nodes of {what} must be a list of nodes, but is {found}", node.source)
    return node.items


def _read_looptree_node(node: Node) -> looptree.Node:
    if node.tag != "!Sequential":
        leaf: looptree.Node = _read_tagged(node, _LOOPTREE_TAGS, "mapping")
        return leaf
    branches = []
    for branch in _list_of_nodes(only_fields(node, node.tag, "nodes")["nodes"], node.tag):
        if branch.tag != "!Nested":
            raise SpecError(f"!Sequential holds !Nested branches, not {branch.tag or describe(branch)}", branch.source)
        nodes = _read_looptree_nodes(only_fields(branch, branch.tag, "nodes")["nodes"], branch.tag)
        branches.append(looptree.Nested(nodes=nodes))
    return looptree.Sequential(nodes=tuple(branches))


def _read_rank_variable(node: Node, what: str) -> Any:
    if isinstance(node, MapNode) and not node.items:
        raise SpecError(f"{what} names no Einsum; say {what}: m, or {{Einsum: m}}", node.source)
    return read_map(node, what, read_text, read_text) if isinstance(node, MapNode) else read_text(node, what)


# --- workload -------------------------------------------------------------------------------------------------------


def read_workload(node: Node, what: str = "workload") -> Workload:
    no_tag(node, what)
    result: Workload = read_object(node, Workload, what)
    return result


def _read_einsums(node: Node, what: str) -> tuple[Einsum, ...]:
    seen: set[str] = set()

    def one(child: Node, what: str) -> Einsum:
        einsum = _read_einsum(child, what)
        check_new(einsum, seen)
        return einsum

    return read_list(node, what, one)


def _read_einsum(node: Node, what: str) -> Einsum:
    no_tag(node, what)
    if isinstance(node, ScalarNode):
        text = read_text(node, what)
        parsed = parse_einsum(text)
        return Einsum(name=parsed.accesses[-1].name, tensor_accesses=parsed.accesses, operation=parsed.operation)
    fields = read_fields(node, "an Einsum")
    for name, (key, _) in fields.items():
        if "[" in name:
            raise SpecError(f"an Einsum with ': ' in it wants quotes around it, at '{name}: …'", key.source)
    if "einsum" not in fields:
        result: Einsum = read_object(node, Einsum, f"Einsum {_name_in(fields)}".rstrip())
        check_name(result.name, "Einsum")
        return result
    if "tensor_accesses" in fields:
        raise SpecError("give either 'einsum' or 'tensor_accesses', not both", fields["tensor_accesses"][0].source)
    parsed = parse_einsum(read_text(fields["einsum"][1], "einsum"))
    known = field_readers(Einsum)
    values: dict[str, Any] = {"name": parsed.accesses[-1].name, "tensor_accesses": parsed.accesses}
    values["operation"] = parsed.operation
    for name, (key, value) in fields.items():
        if name == "einsum":
            continue
        if name not in known:
            raise SpecError(
                f"unknown field '{shown(name)}' in an Einsum{did_you_mean(name, [*known, 'einsum'])}", key.source
            )
        values[name] = known[name](value, name)
    check_name(values["name"], "Einsum")
    result = build(Einsum, values, node.source, {name: value.source for name, (_, value) in fields.items()})
    return result


def _read_operation(node: Node, what: str) -> Located:
    word = read_text(node, what)
    check_word(word, what)
    return word


def _name_in(fields: dict[str, tuple[ScalarNode, Node]]) -> str:
    node = fields["name"][1] if "name" in fields else None
    return shown(node.value) if isinstance(node, ScalarNode) else ""


def _read_access(node: Node, what: str) -> TensorAccess:
    no_tag(node, what)
    result: TensorAccess = read_object(node, TensorAccess, "a tensor access")
    check_name(result.name, "tensor")
    return result


def _read_projection(node: Node, what: str) -> FrozenDict[str, Affine]:
    def affine(child: Node) -> Located:
        value = child.value if isinstance(child, ScalarNode) else None
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise SpecError(f"an index must be an expression such as '2*p + r', but is {describe(child)}", child.source)
        return Located(str(value), child.source)

    no_tag(node, what)
    if isinstance(node, MapNode):
        pairs = [projection_index(read_text(k, what), affine(v), f"{k.value}: …") for k, v in node.items]
    elif isinstance(node, ListNode):
        pairs = [projection_index(None, affine(item), affine(item)) for item in node.items]
    else:
        raise SpecError(f"projection must be a list such as [m, k] or a mapping, but is {describe(node)}", node.source)
    if len({rank for rank, _ in pairs}) < len(pairs):
        raise SpecError("a projection names a rank twice", node.source)
    return FrozenDict(pairs)


def _read_shape(node: Node, what: str) -> tuple[Constraint, ...]:
    no_tag(node, what)
    if isinstance(node, ListNode):
        return tuple(Constraint(read_text(item, what)) for item in node.items)
    if not isinstance(node, MapNode):
        raise SpecError(f"{what} must be a mapping such as m: 0 <= m < 4, but is {describe(node)}", node.source)
    found = []
    for key, value in node.items:
        constraint = Constraint(read_text(value, f"{what} of {key.value}"))
        if key.value not in constraint.variables:
            raise SpecError(f"'{shown(constraint.text)}' says nothing of '{shown(key.value)}'", value.source)
        found.append(constraint)
    return tuple(found)


def _read_renames(node: Node, what: str) -> tuple[Rename, ...]:
    if isinstance(node, ListNode):
        renames: tuple[Rename, ...] = read_list(node, what, lambda n, w: read_tagless(n, Rename, "a rename"))
    else:
        pairs = read_map(node, what, read_text, read_expression)
        renames = tuple(Rename(name=name, source=source) for name, source in pairs.items())
    for rename in renames:
        check_name(rename.name, "rename")
    return renames


def read_renames(node: Node, what: str = "renames") -> tuple[EinsumRenames, ...]:
    """The top-level section `renames: {einsums: [{name, tensor_accesses}]}`."""
    no_tag(node, what)
    return read_list(only_fields(node, what, "einsums")["einsums"], what, lambda n, w: _read_entry(n))


def _read_entry(node: Node) -> EinsumRenames:
    no_tag(node, "a renames entry")
    fields = only_fields(node, "a renames entry", "name", "tensor_accesses")
    return EinsumRenames(
        name=read_text(fields["name"], "name"),
        tensor_accesses=_read_renames(fields["tensor_accesses"], "tensor_accesses"),
    )


def read_variables(node: Node, what: str = "variables") -> FrozenDict[str, VariableValue]:
    return read_map(node, what, read_name, read_variable)


SPECIAL.update(
    {
        "nodes": _read_architecture_nodes,
        "direction": _read_direction,
        "variables": read_variables,
        "operation": _read_operation,
        "rank_variable": _read_rank_variable,
        "einsums": _read_einsums,
        "tensor_accesses": lambda node, what: read_list(node, what, _read_access),
        "projection": _read_projection,
        "iteration_space_shape": _read_shape,
        "renames": _read_renames,
        "rank_sizes": lambda node, what: read_map(node, what, read_text, read_int),
        "tensor_order_options": lambda node, what: read_list(node, what, lambda n, w: read_list(n, w, read_expression)),
    }
)
