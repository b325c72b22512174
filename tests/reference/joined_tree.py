"""One LoopTree from the branches of several Einsums, for the exhaustive mapper: literal, and refused where there is none.

Neighbours have their first loops in common, as many as they are told. A holder that several branches have at the same
place is written once. If an Einsum's path in the tree is not its branch again, the branches do not make a tree: a holder
above a common loop would serve an Einsum that holds that tensor elsewhere. Where a Toll stands among Temporal loops makes no
difference, so Tolls stand below a split rather than above it, and below common loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fusiest.base.frozen import FrozenDict
from fusiest.looptree import (
    Compute,
    Loop,
    LoopTree,
    Nested,
    Node,
    Sequential,
    Spatial,
    Storage,
    Temporal,
    Toll,
    variable_in,
)


class NoTree(Exception):
    """The branches cannot be written as one tree."""


@dataclass(frozen=True, slots=True)
class EinsumBranch:
    """One Einsum's nodes from the root to its compute, cut at its loops."""

    einsum: str
    loops: tuple[Loop, ...]
    holders: tuple[tuple[Node, ...], ...]
    """Holders above each loop, then all that stands below the last: one more than loops."""

    def below(self, depth: int) -> tuple[Node, ...]:
        """The rest of the branch below `depth` loops and the holders there."""
        nodes: list[Node] = []
        for loop, holders in zip(self.loops[depth:], self.holders[depth + 1 :], strict=True):
            nodes += [loop, *holders]
        return tuple(nodes)


def make_branch(nodes: Sequence[Node]) -> EinsumBranch:
    leaf = nodes[-1]
    assert isinstance(leaf, Compute)
    loops: list[Loop] = []
    holders: list[list[Node]] = [[]]
    for node in nodes:
        if isinstance(node, (Temporal, Spatial)):
            loops.append(node)
            holders.append([])
        else:
            holders[-1].append(node)
    return EinsumBranch(leaf.einsum, tuple(loops), tuple(tuple(group) for group in holders))


def joined_tree(
    nests: Sequence[Sequence[Node]],
    common: Sequence[int],
    tensors: Mapping[str, frozenset[str]],
    copies: frozenset[str] = frozenset(),
) -> LoopTree:
    """The tree in which neighbours i and i + 1 share their first `common[i]` loops. Raises NoTree if there is none.

    `tensors`: those that each Einsum uses. `copies`: Einsums whose holders other than backing ones are ignored.
    """
    deepest = [max(depths) for depths in zip((0, *common), (*common, 0), strict=True)]
    nests = [_sunk(nodes, depth) for nodes, depth in zip(nests, deepest, strict=True)]
    branches = [make_branch(nodes) for nodes in nests]
    tree = LoopTree(nodes=_group(branches, common, range(len(branches)), 0))
    for path, nodes, branch in zip(tree.paths(), nests, branches, strict=True):
        branch_nodes = _branch_of(path, branch.einsum, tensors[branch.einsum])
        written = _backing_only(branch_nodes) if branch.einsum in copies else branch_nodes
        if _regardless_of_tolls(written) != _regardless_of_tolls(nodes):
            raise NoTree(branch.einsum)
    return tree


def _sunk(nodes: Sequence[Node], depth: int) -> list[Node]:
    """With Tolls below the first `depth` loops, as far as these are Temporal, and then at the lower end of a gap as before."""
    sunk = list(nodes)
    for i in reversed(range(len(sunk))):
        toll = sunk[i]
        loops = sum(isinstance(node, (Temporal, Spatial)) for node in sunk[:i])
        while isinstance(toll, Toll):
            below = sunk[i + 1]
            others = isinstance(below, (Storage, Toll)) and below.tensors != toll.tensors
            if not isinstance(below, Temporal) and not (others and loops < depth):
                break
            loops += isinstance(below, Temporal)
            sunk[i], sunk[i + 1] = below, toll
            i += 1
    return sunk


def _branch_of(path: Sequence[Node], einsum: str, tensors: frozenset[str]) -> list[Node]:
    """An Einsum's path without the holders of other tensors, its loops named by its own variables."""
    nodes: list[Node] = []
    for node in path:
        if isinstance(node, (Storage, Toll)) and node.tensors[0] not in tensors:
            continue
        if isinstance(node, (Temporal, Spatial)):
            variable = variable_in(node, einsum)
            assert variable is not None
            node = replace(node, rank_variable=variable)
        nodes.append(node)
    return nodes


def _backing_only(nodes: Sequence[Node]) -> list[Node]:
    held: set[str] = set()
    remaining: list[Node] = []
    for node in nodes:
        if isinstance(node, (Storage, Toll)):
            if node.tensors[0] in held:
                continue
            held.add(node.tensors[0])
        remaining.append(node)
    return remaining


def _group(branches: Sequence[EinsumBranch], common: Sequence[int], group: range, depth: int) -> tuple[Node, ...]:
    """What these Einsums have below `depth` loops that are common to all."""
    runs: list[range] = []
    for i in group:
        if runs and common[i - 1] > depth and i > group.start:
            runs[-1] = range(runs[-1].start, i + 1)
        else:
            runs.append(range(i, i + 1))
    cuts = _above_the_split(branches, runs, depth)
    split = {i: _tolls_below(branches[i].holders[depth], cuts[i]) for i in group}
    above, below = [split[i][0] for i in group], {i: split[i][1] for i in group}
    subtrees = [_run(branches, common, run, depth, below) for run in runs]
    if len(subtrees) == 1:
        return (*merged(above), *subtrees[0])
    return (*merged(above), Sequential(nodes=tuple(Nested(nodes=subtree) for subtree in subtrees)))


def _tolls_below(holders: tuple[Node, ...], cut: int) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """What stands above and below a cut: Tolls below, unless a holder of their tensor follows above."""
    above, below = list(holders[:cut]), list(holders[cut:])
    for i in reversed(range(len(above))):
        node = above[i]
        if isinstance(node, Toll) and not any(
            isinstance(other, (Storage, Toll)) and other.tensors == node.tensors for other in above[i + 1 :]
        ):
            below.insert(0, above.pop(i))
    return tuple(above), tuple(below)


def _regardless_of_tolls(
    nodes: Sequence[Node],
) -> tuple[list[Node], list[tuple[int, Node]], list[tuple[str, list[Node]]]]:
    """All but Tolls; Tolls with how many loops are above; and the holders of each tensor in their order."""
    loops = 0
    tolls: list[tuple[int, Node]] = []
    by_tensor: dict[str, list[Node]] = {}
    for node in nodes:
        loops += isinstance(node, (Temporal, Spatial))
        if isinstance(node, Toll):
            tolls.append((loops, node))
        if isinstance(node, (Storage, Toll)):
            by_tensor.setdefault(node.tensors[0], []).append(node)
    rest: list[Node] = [node for node in nodes if not isinstance(node, Toll)]
    return rest, sorted(tolls, key=str), sorted(by_tensor.items())


def _above_the_split(branches: Sequence[EinsumBranch], runs: Sequence[range], depth: int) -> dict[int, int]:
    """How many of each Einsum's holders here stand above the split: down to the last that is exchanged across it.

    What stands above for one Einsum does so for all that have it here.
    """
    above = _exchanged(branches, runs, depth)
    while True:
        cuts = {}
        for i in (i for run in runs for i in run):
            holders = branches[i].holders[depth]
            cuts[i] = max((n + 1 for n, node in enumerate(holders) if node in above), default=0)
        lifted = {node for i, cut in cuts.items() for node in _tolls_below(branches[i].holders[depth], cut)[0]} - above
        if not lifted:
            return cuts
        above |= lifted


def _exchanged(branches: Sequence[EinsumBranch], runs: Sequence[range], depth: int) -> set[Node]:
    """Backing holders that Einsums of several runs have here: they stand above the split."""
    runs_of: dict[Node, set[int]] = {}
    for n, run in enumerate(runs):
        for i in run:
            outer = {
                node.tensors[0] for group in branches[i].holders[:depth] for node in group if isinstance(node, Storage)
            }
            for node in branches[i].holders[depth]:
                if isinstance(node, Storage) and node.tensors[0] not in outer:
                    runs_of.setdefault(node, set()).add(n)
                    outer.add(node.tensors[0])
    return {node for node, numbers in runs_of.items() if len(numbers) > 1}


def _run(
    branches: Sequence[EinsumBranch],
    common: Sequence[int],
    run: range,
    depth: int,
    holders: Mapping[int, tuple[Node, ...]],
) -> tuple[Node, ...]:
    """Einsums that share the next loop, or one alone."""
    if len(run) == 1:
        return (*holders[run[0]], *branches[run[0]].below(depth))
    loops = [branches[i].loops[depth] for i in run]
    names = {branches[i].einsum: str(loop.rank_variable) for i, loop in zip(run, loops, strict=True)}
    variable = loops[0].rank_variable if len(set(names.values())) == 1 else FrozenDict(names)
    loop = replace(loops[0], rank_variable=variable)
    return (*merged([holders[i] for i in run]), loop, *_group(branches, common, run, depth + 1))


def merged(sequences: Sequence[tuple[Node, ...]]) -> list[Node]:
    """All nodes, each once, in an order that every sequence agrees with."""
    remaining = [list(sequence) for sequence in sequences]
    merged: list[Node] = []
    while any(remaining):
        heads = [sequence[0] for sequence in remaining if sequence]
        node = next((head for head in heads if not any(head in sequence[1:] for sequence in remaining)), None)
        if node is None:
            raise NoTree("holders in different orders")
        merged.append(node)
        remaining = [sequence[1:] if sequence and sequence[0] == node else sequence for sequence in remaining]
    return merged
