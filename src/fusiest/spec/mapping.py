"""LoopTrees from YAML: the section `mapping`."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

from fusiest.base.errors import SpecError
from fusiest.base.frozen import FrozenDict
from fusiest.looptree import nodes as looptree
from fusiest.spec.language.fields import describe, no_tag, only_fields, read_list, read_tagged, read_text
from fusiest.spec.reading.yamlfile import ListNode, MapNode, ScalarNode, YamlNode
from fusiest.spec.workload.einsums import Workload

_ANY = "any: "
"""Before the key of a variable that is for whichever Einsum has it."""


def read_mapping(node: YamlNode, what: str = "mapping") -> looptree.LoopTree:
    """The section `mapping`."""
    no_tag(node, what)
    return looptree.LoopTree(nodes=_read_nodes(only_fields(node, what, "nodes")["nodes"], what))


def _read_nodes(node: YamlNode, what: str) -> tuple[looptree.Node, ...]:
    children = _items(node, what)
    for child in children:
        if child.tag == "!Nested":
            raise SpecError("!Nested is a branch of !Sequential and stands nowhere else", child.source)
        if child.tag == "!Pipeline":
            raise SpecError(
                "!Pipeline is not supported; Einsums run one after the other, which !Sequential says", child.source
            )
    return tuple(_read_node(child) for child in children)


def _items(node: YamlNode, what: str) -> tuple[YamlNode, ...]:
    no_tag(node, "nodes")
    if not isinstance(node, ListNode) or not node.items:
        content = "empty" if isinstance(node, ListNode) else describe(node)
        raise SpecError(f"nodes of {what} must be a list of nodes, but is {content}", node.source)
    return node.items


def _read_node(node: YamlNode) -> looptree.Node:
    if node.tag != "!Sequential":
        leaf: looptree.Node = read_tagged(_plain_loop(node), get_args(looptree.Node), "mapping")
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


def _plain_loop(node: YamlNode) -> YamlNode:
    """A loop as AccelForge writes it: over a list of variables, with the shape of the first tile also where it is that of all."""
    if node.tag not in ("!Temporal", "!Spatial") or not isinstance(node, MapNode):
        return node
    fields = {str(key.value): (key, value) for key, value in node.items}
    variables, first = fields.get("rank_variable"), fields.get("initial_tile_shape")
    tile = fields.get("tile_shape")
    if first and read_scalar(first[1]) in (None, read_scalar(tile[1]) if tile else None):
        del fields["initial_tile_shape"]
    if variables and isinstance(variables[1], ListNode):
        names = read_list(variables[1], "rank_variable", read_text)
        if not names:
            raise SpecError("rank_variable names no variable", variables[1].source)
        pairs = [(ScalarNode(f"{_ANY}{name}", node.source), ScalarNode(name, node.source)) for name in names]
        fields["rank_variable"] = (variables[0], MapNode(tuple(pairs), node.source))
    return MapNode(tuple(fields.values()), node.source, node.tag)


def read_scalar(node: YamlNode) -> object:
    """The value of a scalar, and of nothing else."""
    return node.value if isinstance(node, ScalarNode) else node


def with_variables(tree: looptree.LoopTree, workload: Workload | None) -> looptree.LoopTree:
    """The tree, in which loops over lists of variables say which is whose: each Einsum steps the one that it has."""
    return dataclasses.replace(tree, nodes=_with_variables(tree.nodes, workload))


def _with_variables(nodes: tuple[Any, ...], workload: Workload | None) -> tuple[Any, ...]:
    completed: list[Any] = []
    for node in nodes:
        if isinstance(node, looptree.Sequential | looptree.Nested):
            completed.append(dataclasses.replace(node, nodes=_with_variables(node.nodes, workload)))  # type: ignore[arg-type]
        elif isinstance(node, looptree.Temporal | looptree.Spatial) and not isinstance(node.rank_variable, str):
            completed.append(dataclasses.replace(node, rank_variable=_by_einsum(node.rank_variable, workload)))
        else:
            completed.append(node)
    return tuple(completed)


def _by_einsum(variables: FrozenDict[str, str], workload: Workload | None) -> looptree.RankVariable:
    if not all(name.startswith(_ANY) for name in variables):
        return variables
    names = list(variables.values())
    if len(names) == 1 or workload is None:
        return names[0]
    chosen: dict[str, str] = {}
    for einsum in workload.einsums:
        own_names = [name for name in names if name in einsum.variables]
        if len(own_names) > 1:
            raise SpecError(
                f"Einsum {einsum.name} has several of {', '.join(names)}; say {{Einsum: variable, …}}", names[0]
            )
        chosen.update({str(einsum.name): name for name in own_names})
    return FrozenDict(chosen) if chosen else names[0]
