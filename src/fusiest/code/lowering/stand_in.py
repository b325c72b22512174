"""The nests of a mapping that need not fit its architecture, or has none: then memories stand as the mapping names them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from fusiest.base.frozen import FrozenDict
from fusiest.looptree import Compute, LoopTree, Spatial, Storage, Toll
from fusiest.model import Sharing, TreeNode, build_nest, even_iterations, keep_windows, leaf_paths, sharing
from fusiest.spec import BoundComponent, BoundDimension, EinsumInfo, Path, Spec, bind


def apart_as_written(spec: Spec, tree: LoopTree) -> tuple[list[tuple[TreeNode, ...]], Sharing]:
    """The ways down to the computes, and the nests, of a mapping that passed `check_tree`."""
    paths, info = leaf_paths(tree), spec.info
    leaves = [leaf for leaf in (path[-1].node for path in paths) if isinstance(leaf, Compute)]
    even = even_iterations(paths, {leaf.einsum: info.einsums[leaf.einsum].bounds for leaf in leaves})
    nests = []
    for path, leaf in zip(paths, leaves, strict=True):
        known = spec.arch is not None
        components = bind(spec, leaf.einsum, leaf.component) if known else _stand_in(path, info.einsums[leaf.einsum])
        nests.append(build_nest(path, components, even))
    order = {leaf.einsum: i for i, leaf in enumerate(leaves)}
    users = {tensor: sorted(order[user] for user in users) for tensor, users in info.users.items()}
    return paths, sharing(keep_windows(nests), users)


def _stand_in(path: Sequence[TreeNode], einsum: EinsumInfo) -> Path:
    """An architecture as a nest has it: all memories are there, and Spatial loops have room."""
    components: dict[str, BoundComponent] = {}
    width: FrozenDict[str, int | float] = FrozenDict(dict.fromkeys(einsum.accesses, 1))
    for node in (item.node for item in path):
        if isinstance(node, Storage | Toll):
            known = components.get(str(node.component))
            if known is None or known.kind == "container":
                components[str(node.component)] = BoundComponent(
                    name=str(node.component),
                    kind="toll" if isinstance(node, Toll) else "memory",
                    dimensions=known.dimensions if known is not None else (),
                    bits_per_value=width,
                )
        elif isinstance(node, Spatial):
            name, dimension = str(node.component), str(node.name)
            known = components.setdefault(name, BoundComponent(name, "container", ()))
            if dimension not in {d.name for d in known.dimensions}:
                fanout = BoundDimension(name, dimension, 2**62, frozenset(), frozenset(), (), 0, 1, False)
                components[name] = replace(known, dimensions=(*known.dimensions, fanout))
        elif isinstance(node, Compute):
            known = components.pop(str(node.component), None)  # its own fanout
            dimensions = known.dimensions if known else ()
            components[str(node.component)] = BoundComponent(str(node.component), "compute", dimensions, size=math.inf)
    return Path(einsum, tuple(components.values()))
