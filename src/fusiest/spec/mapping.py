"""LoopTrees from YAML: the section `mapping`."""

from __future__ import annotations

from fusiest.errors import SpecError
from fusiest.looptree import nodes as looptree
from fusiest.spec.fields import describe, no_tag, only_fields, read_tagged
from fusiest.spec.yamlfile import ListNode, Node

_KINDS = (looptree.Temporal, looptree.Spatial, looptree.Storage, looptree.Toll, looptree.Compute, looptree.Sequential)


def read_mapping(node: Node, what: str = "mapping") -> looptree.LoopTree:
    """The section `mapping`."""
    no_tag(node, what)
    return looptree.LoopTree(nodes=_read_nodes(only_fields(node, what, "nodes")["nodes"], what))


def _read_nodes(node: Node, what: str) -> tuple[looptree.Node, ...]:
    children = _items(node, what)
    for child in children:
        if child.tag == "!Nested":
            raise SpecError("!Nested is a branch of !Sequential and stands nowhere else", child.source)
        if child.tag == "!Pipeline":
            raise SpecError("!Pipeline is not supported", child.source)
    return tuple(_read_node(child) for child in children)


def _items(node: Node, what: str) -> tuple[Node, ...]:
    no_tag(node, "nodes")
    if not isinstance(node, ListNode) or not node.items:
        found = "empty" if isinstance(node, ListNode) else describe(node)
        raise SpecError(f"nodes of {what} must be a list of nodes, but is {found}", node.source)
    return node.items


def _read_node(node: Node) -> looptree.Node:
    if node.tag != "!Sequential":
        leaf: looptree.Node = read_tagged(node, _KINDS, "mapping")
        if isinstance(leaf, looptree.Temporal | looptree.Spatial) and not leaf.rank_variable:
            raise SpecError("rank_variable names no Einsum; say rank_variable: m, or {Einsum: m}", node.source)
        return leaf
    branches = []
    for branch in _items(only_fields(node, node.tag, "nodes")["nodes"], node.tag):
        if branch.tag != "!Nested":
            raise SpecError(f"!Sequential holds !Nested branches, not {branch.tag or describe(branch)}", branch.source)
        nodes = _read_nodes(only_fields(branch, branch.tag, "nodes")["nodes"], branch.tag)
        branches.append(looptree.Nested(nodes=nodes))
    return looptree.Sequential(nodes=tuple(branches))
