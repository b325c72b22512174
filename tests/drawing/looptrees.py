"""Random LoopTrees, valid by construction: fused and not, imperfect tiles, bypassed memories, Spatials anywhere."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from fusiest.looptree.nodes import LoopTree
from fusiest.spec import architecture as arch
from tests.drawing.dice import Dice
from tests.drawing.drafts import DraftCompute, DraftHolder, DraftLoop, DraftNode, DraftSplit, draft_paths, freeze
from tests.drawing.workloads import DraftEinsum, DraftWorkload


@dataclass
class TreeProgress:
    """What stands above the point of the tree that is being drawn."""

    extents: dict[tuple[str, str], int]
    held: dict[str, list[str]]
    """Tensor → components that hold it already, outermost first."""
    used: dict[tuple[str, str], int]
    """Fanout dimension → instances in use."""

    def copy(self) -> TreeProgress:
        return TreeProgress(dict(self.extents), {t: list(h) for t, h in self.held.items()}, dict(self.used))


class TreeDrawer:
    """Draws a LoopTree from the root down."""

    def __init__(self, dice: Dice, draft: DraftWorkload, architecture: arch.Architecture, imperfect: bool) -> None:
        self.dice, self.draft, self.imperfect = dice, draft, imperfect
        levels = [tuple(arch.flatten((n,))) for n in architecture.nodes if not isinstance(n, arch.Fork)]
        nodes = [n for level in levels for n in level]
        self.order = {str(n.name): i for i, level in enumerate(levels) for n in level}
        self.memories = [str(n.name) for n in nodes if isinstance(n, arch.Memory)]
        self.tolls = [str(n.name) for n in nodes if isinstance(n, arch.TollStation)]
        self.fanout = {(str(n.name), str(d.name)): int(d.fanout) for n in nodes for d in n.spatial}
        self.backing: dict[str, str] = {}
        self.wanted: dict[str, list[str]] = {}

    def tree(self) -> LoopTree:
        dice = self.dice
        order = self._einsum_order()
        for tensor in self.draft.tensors:
            self.backing[tensor] = dice.one_of(self.memories) if dice.chance(45) else self.memories[0]
        self._copies_agree()
        progress = TreeProgress({(e.name, v): b for e in order for v, b in e.bounds.items()}, {}, {})
        nodes: list[DraftNode] = []
        at_root = [t for t in self.draft.tensors if self._backed_at_root(t)]
        for tensor in dice.shuffled(at_root) if dice.chance(30) else at_root:
            nodes.append(DraftHolder([tensor], self.backing[tensor], persistent=tensor in self.draft.persistent))
            progress.held[tensor] = [self.backing[tensor]]
        nodes += self._block(order, progress)
        self._make_valid(nodes, order)
        return LoopTree(nodes=freeze(self._merged(nodes)))

    def _einsum_order(self) -> list[DraftEinsum]:
        """The listed order, or another that respects dependencies."""
        left, order = list(self.draft.einsums), list[DraftEinsum]()
        another = self.dice.chance(25)
        while left:
            waiting = {e.output for e in left}
            ready = [e for e in left if not any(t in waiting and t != e.output for t in e.accesses)]
            order.append(self.dice.one_of(ready) if another else ready[0])
            left.remove(order[-1])
        return order

    def _copies_agree(self) -> None:
        """Copies in one memory lie under the same loops: here, above all."""
        self.pinned = {
            t
            for e in self.draft.einsums
            if e.copy and len({self.backing[t] for t in e.accesses}) == 1
            for t in e.accesses
        }

    def _backed_at_root(self, tensor: str) -> bool:
        if tensor in self.draft.persistent or tensor in self.pinned:
            return True
        return self.dice.chance(80 if self.backing[tensor] == self.memories[0] else 20)

    # -- blocks of Einsums under shared loops

    def _block(self, group: list[DraftEinsum], progress: TreeProgress) -> list[DraftNode]:
        if len(group) == 1:
            return self._leaf(group[0], progress)
        nodes: list[DraftNode] = []
        inside = [t for t in self.draft.tensors if self._exchanged(t, group)]
        for loop in self._shared_loops(group, inside, progress):
            nodes += self._upper_holders(group, inside, progress)
            nodes.append(loop)
            self._enter(loop, progress)
            nodes += self._back(group, inside, progress, percent=25)
        parts = self._parts(group)
        across = [t for t in inside if sum(any(t in e.accesses for e in part) for part in parts) > 1]
        nodes += self._back(group, across, progress, percent=100)
        nodes += self._lower_holders(group, parts, progress)
        nodes.append(DraftSplit([self._block(part, progress.copy()) for part in parts]))
        return nodes

    def _exchanged(self, tensor: str, group: list[DraftEinsum]) -> bool:
        return sum(tensor in e.accesses for e in group) > 1

    def _parts(self, group: list[DraftEinsum]) -> list[list[DraftEinsum]]:
        parts = [[group[0]]]
        for einsum in group[1:]:
            if self.dice.chance(70):
                parts.append([einsum])
            else:
                parts[-1].append(einsum)
        return parts if len(parts) > 1 else [group[:1], group[1:]]

    def _shared_loops(self, group: list[DraftEinsum], inside: list[str], progress: TreeProgress) -> list[DraftLoop]:
        loops: list[DraftLoop] = []
        extents = dict(progress.extents)
        for _ in range(3):
            candidates = [c for c in self._classes(group) if self._may_share(c, group, inside, extents, progress)]
            if not candidates or not self.dice.chance(75):
                break
            variables = self.dice.one_of(candidates)
            extent = extents[next(iter(variables.items()))]
            loop = DraftLoop(variables, self._tile(extent), by_name=self.dice.chance(20))
            self._maybe_spatial(loop, extent, progress)
            extents.update(dict.fromkeys(variables.items(), loop.tile))
            loops.append(loop)
        return loops

    def _classes(self, group: list[DraftEinsum]) -> list[dict[str, str]]:
        """Ways to name one variable per Einsum so that they step the same rank of what the Einsums exchange."""
        found = []
        for start in group[0].bounds:
            variables = {group[0].name: start}
            for einsum in group[1:]:
                linked = self._linked(einsum, variables, group)
                if linked is None:
                    break
                variables[einsum.name] = linked
            else:
                found.append(variables)
        return found

    def _linked(self, einsum: DraftEinsum, variables: dict[str, str], group: list[DraftEinsum]) -> str | None:
        """The variable that indexes a tensor of an earlier Einsum just as that Einsum's does."""
        for other in group:
            if other.name not in variables:
                continue
            for tensor in einsum.accesses:
                index = other.alone(tensor, variables[other.name]) if tensor in other.accesses else None
                for variable in einsum.bounds if index is not None else ():
                    if einsum.alone(tensor, variable) == index:
                        return variable
        return None

    def _may_share(
        self,
        variables: dict[str, str],
        group: list[DraftEinsum],
        inside: list[str],
        extents: dict[tuple[str, str], int],
        progress: TreeProgress,
    ) -> bool:
        if len({extents[item] for item in variables.items()}) > 1:
            return False
        for tensor in self.draft.tensors:
            here = [e for e in group if tensor in e.accesses]
            # Tensors not backed yet must be indexed fully; so must intermediates, or they would be used half-done.
            if here and (tensor not in progress.held or (tensor in inside and tensor in self.draft.produced)):
                indices = {e.alone(tensor, variables[e.name]) for e in here}
                if None in indices or len(indices) > 1:
                    return False
        return True

    def _enter(self, loop: DraftLoop, progress: TreeProgress) -> None:
        progress.extents.update(dict.fromkeys(loop.variables.items(), loop.tile))

    def _back(
        self, group: list[DraftEinsum], tensors: list[str], progress: TreeProgress, percent: int
    ) -> list[DraftNode]:
        nodes: list[DraftNode] = []
        for tensor in tensors:
            outside = any(e not in group for e in self.draft.users(tensor))
            if tensor not in progress.held and not outside and (percent == 100 or self.dice.chance(percent)):
                progress.held[tensor] = [self.backing[tensor]]
                nodes.append(DraftHolder([tensor], self.backing[tensor]))
        return nodes

    def _upper_holders(self, group: list[DraftEinsum], inside: list[str], progress: TreeProgress) -> list[DraftNode]:
        """Holders above a shared loop; not of intermediates, which are exchanged where they are backed."""
        tensors = [t for e in group for t in e.accesses if t not in inside or t not in self.draft.produced]
        return self._some_holders(list(dict.fromkeys(tensors)), progress, 30)

    def _lower_holders(
        self, group: list[DraftEinsum], parts: list[list[DraftEinsum]], progress: TreeProgress
    ) -> list[DraftNode]:
        tensors = [t for e in group for t in e.accesses if not any(self._exchanged(t, part) for part in parts)]
        return self._some_holders(list(dict.fromkeys(tensors)), progress, 20)

    def _some_holders(self, tensors: list[str], progress: TreeProgress, percent: int) -> list[DraftNode]:
        nodes: list[DraftNode] = []
        for tensor in tensors:
            below = self._below(tensor, progress)
            if below and self.dice.chance(percent):
                nodes.append(self._hold(tensor, self.dice.one_of(below), progress))
        return nodes

    def _below(self, tensor: str, progress: TreeProgress) -> list[str]:
        """Components that may hold a backed tensor further in than it is held already."""
        if not progress.held.get(tensor):
            return []
        last = self.order[progress.held[tensor][-1]]
        return [name for name in [*self.memories, *self.tolls] if self.order[name] > last]

    def _hold(self, tensor: str, component: str, progress: TreeProgress) -> DraftHolder:
        progress.held.setdefault(tensor, []).append(component)
        return DraftHolder([tensor], component, toll=component in self.tolls)

    # -- one Einsum

    def _leaf(self, einsum: DraftEinsum, progress: TreeProgress) -> list[DraftNode]:
        """Loops and holders in random order, each tensor backed before any loop that does not index it fully."""
        dice = self.dice
        nodes: list[DraftNode] = []
        holders = self._leaf_holders(einsum, progress)
        loops = self._leaf_loops(einsum, progress)
        while loops or any(holders.values()):
            waiting = [t for t, components in holders.items() if components]
            if waiting and (not loops or dice.chance(50)):
                tensor = dice.one_of(waiting)
                nodes.append(self._hold(tensor, holders[tensor].pop(0), progress))
                continue
            options = [v for v in loops if loops[v]]
            variable = dice.one_of(options)
            for tensor in einsum.accesses:
                if tensor not in progress.held and not einsum.full(tensor, variable):
                    nodes.append(self._hold(tensor, holders[tensor].pop(0), progress))
            nodes.append(loops[variable].pop(0))
            loops = {v: left for v, left in loops.items() if left}
        nodes.append(DraftCompute(einsum.name))
        return nodes

    def _leaf_holders(self, einsum: DraftEinsum, progress: TreeProgress) -> dict[str, list[str]]:
        holders: dict[str, list[str]] = {}
        for tensor in einsum.accesses:
            chosen = [] if tensor in progress.held else [self.backing[tensor]]
            last = self.order[(chosen or progress.held[tensor])[-1]]
            places = sorted([*self.memories, *self.tolls], key=self.order.__getitem__)
            for _, beside in itertools.groupby((p for p in places if self.order[p] > last), self.order.__getitem__):
                level = list(beside)
                chosen += [self.dice.one_of(level)] if self.dice.chance(60) else []
            holders[tensor] = chosen
        return holders

    def _leaf_loops(self, einsum: DraftEinsum, progress: TreeProgress) -> dict[str, list[DraftNode]]:
        loops: dict[str, list[DraftNode]] = {}
        for variable in einsum.bounds:
            chain: list[DraftNode] = []
            extent = progress.extents[einsum.name, variable]
            while extent > 1 or (not chain and self.dice.chance(10)):
                tile = 1 if len(chain) >= 3 or not self.dice.chance(50) else self._tile(extent)
                loop = DraftLoop({einsum.name: variable}, tile, by_name=self.dice.chance(3))
                self._maybe_spatial(loop, extent, progress)
                chain.append(loop)
                extent = loop.tile
            if chain:
                loops[variable] = chain
        order = self.dice.shuffled(list(loops))
        return {v: loops[v] for v in order}

    # -- loops

    def _tile(self, extent: int) -> int:
        if self.imperfect:
            return self.dice.number(1, extent)
        return self.dice.one_of([tile for tile in range(1, extent + 1) if extent % tile == 0])

    def _maybe_spatial(self, loop: DraftLoop, extent: int, progress: TreeProgress) -> None:
        count = -(-extent // loop.tile)
        free = [d for d, fanout in self.fanout.items() if progress.used.get(d, 1) * count <= fanout]
        if free and self.dice.chance(45):
            loop.dimension = self.dice.one_of(free)
            progress.used[loop.dimension] = progress.used.get(loop.dimension, 1) * count

    # -- what cannot be seen on the way down

    def _make_valid(self, nodes: list[DraftNode], order: list[DraftEinsum]) -> None:
        """Turn Spatial loops that some tensor's nest would put out of order into Temporal ones."""
        paths = draft_paths(nodes, [])
        while any(self._repair(path, einsum) for path, einsum in zip(paths, order, strict=True)):
            pass

    def _repair(self, path: list[DraftNode], einsum: DraftEinsum) -> bool:
        loops = [n for n in path if isinstance(n, DraftLoop)]
        for tensor, access in einsum.accesses.items():
            indexed = {v for rank in access.values() for v in rank.variables}
            gaps, written = self._gaps(path, tensor), self._gaps(path, tensor, as_written=True)
            for i, one in enumerate(loops):
                v = one.variables[einsum.name]
                replicated = one.dimension is not None and gaps[i] == 0
                common = all(user.name in one.variables for user in self.draft.users(tensor))
                fits = common and (einsum.full(tensor, v) or self._replicable(tensor, einsum))
                if replicated and (tensor in self.draft.persistent or not fits):
                    one.dimension = None  # above the backing holder: would recompute, or miss what others left there
                    return True
                for j in range(i + 1, len(loops)):
                    other = loops[j]
                    same = v == other.variables[einsum.name] and v in indexed
                    spatial = [loop for loop in (one, other) if loop.dimension is not None]
                    if gaps[i] > gaps[j] and spatial and (same or len(spatial) == 2):
                        spatial[-1].dimension = None
                        return True
                    if same and one.dimension is not None and gaps[i] == gaps[j] > written[i]:
                        one.dimension = None  # moved past a holder to just above the next: past the other loop, too
                        return True
        return False

    def _replicable(self, tensor: str, einsum: DraftEinsum) -> bool:
        """An input that one Einsum uses: each instance of a fanout may have its own."""
        return not einsum.copy and tensor not in self.draft.produced and len(self.draft.users(tensor)) == 1

    def _gaps(self, path: list[DraftNode], tensor: str, as_written: bool = False) -> list[int]:
        """For each loop of a path, how many of the tensor's holders stand above it in the tensor's nest."""
        holders = [n for n in path if isinstance(n, DraftHolder) and tensor in n.tensors]
        gaps, above = [], 0
        for node in path:
            if isinstance(node, DraftHolder) and tensor in node.tensors:
                above += 1
            elif isinstance(node, DraftLoop) and (node.dimension is None or as_written):
                gaps.append(above)
            elif isinstance(node, DraftLoop) and node.dimension is not None:
                component = self.order[node.dimension[0]]
                gaps.append(sum(self.order[h.component] < component for h in holders))
        return gaps

    def _merged(self, nodes: list[DraftNode]) -> list[DraftNode]:
        """Sometimes write neighbouring holders of one component as one."""
        merged: list[DraftNode] = []
        for node in nodes:
            last = merged[-1] if merged else None
            if isinstance(node, DraftSplit):
                node = DraftSplit([self._merged(branch) for branch in node.branches])
            if (
                isinstance(node, DraftHolder)
                and isinstance(last, DraftHolder)
                and (node.component, node.persistent) == (last.component, last.persistent)
                and not set(node.tensors) & set(last.tensors)
                and self.dice.chance(50)
            ):
                last.tensors += node.tensors
            else:
                merged.append(node)
        return merged
