"""Random chains of convolutions, fused in windows: strides, dilations, padding, residuals, one or two ranks, all choices of
what is kept and what is made again. Some windows are too short or in the wrong place: then values are wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from fusiest.base.frozen import FrozenDict
from fusiest.looptree import tiling_in
from fusiest.looptree.nodes import Compute, LoopTree, Nested, Node, Sequential, Spatial, Storage, Temporal
from fusiest.spec import architecture as arch
from fusiest.spec.hardware.actions import Action
from fusiest.spec.language.affine import Affine, Constraint
from fusiest.spec.spec import Spec
from fusiest.spec.workload.einsums import Einsum, TensorAccess, Workload
from tests.drawing.bits import draw_bits
from tests.drawing.dice import Dice
from tests.strategies import Case


@dataclass(frozen=True)
class DrawnLine:
    """Tiles of a variable: the i-th goes from start + i·step to end + i·step, and the first begins at 0."""

    start: int
    end: int
    step: int


@dataclass
class WindowLayer:
    """`T1[h1] = T0[a·h1 + d·r1 - pad] · W1[r1]`, along one or two ranks."""

    number: int
    bounds: dict[str, int] = field(default_factory=dict)
    reads: dict[int, dict[str, Affine]] = field(default_factory=dict)
    """Layer (0 is the input) → rank → index."""
    weights: tuple[str, ...] = ()
    channels: bool = False
    operation: str | None = None

    @property
    def name(self) -> str:
        return f"E{self.number}"

    @property
    def output(self) -> str:
        return f"T{self.number}"


def draw_windows(dice: Dice, wrong: int = 10) -> Case:
    """In `wrong` of a hundred loops, a window is not what it should be."""
    ranks = ["H", "W"][: 2 if dice.chance(35) else 1]
    layers = _layers(dice, ranks)
    spec = Spec(arch=_architecture(dice), workload=_workload(layers, ranks))
    tree = _tree(dice, layers, ranks, wrong)
    return Case(draw_bits(dice, spec) if dice.chance(30) else spec, tree)


def draw_layers(dice: Dice) -> Spec:
    """A chain of convolutions and a small buffer."""
    layers = _layers(dice, ["H"], most=3, rows=(4, 8))
    return Spec(arch=_small_buffer(8 * dice.number(5, 16)), workload=_workload(layers, ["H"]))


def draw_small_cnn(dice: Dice, kind: str) -> Spec:
    """Few layers with few rows and a buffer for some of what they exchange. `kind`: pair, triple, four, residual (of three,
    or four), image (two or three layers with rows and columns), dilated (two or three), pooled (maxima of two or three rows
    among them), depthwise (channels with weights of their own), forked (the last of three reads the first through windows, too).
    """
    ranks = {"image": ["H", "W"], "depthwise": ["H", "C"]}.get(kind, ["H"])
    counts = {"pair": [2], "triple": [3], "four": [4], "residual": [3, 4], "image": [2, 2, 3], "forked": [3]}
    count = dice.one_of(counts.get(kind, [2, 3] if kind != "depthwise" else [2, 2, 3]))
    layers = [WindowLayer(i + 1) for i in range(count)]
    most = 2 if len(ranks) > 1 else 3 if count < 4 else 2
    sizes = {rank: dice.number(2, 3 if len(ranks) > 1 else 6 if count == 2 else 4) for rank in ranks}
    strides: dict[str, list[int]] = {rank: [] for rank in ranks}
    for layer in reversed(layers):
        n = layer.number
        layer.reads[n - 1] = {}
        pooled = kind == "pooled" and dice.chance(60)
        plain = not pooled and dice.chance(35 if count == 2 else 55)  # a pointwise layer
        along = dice.subset(ranks, 100 if len(ranks) == 1 or n == count == 2 else 50)  # the ranks with windows
        if kind == "depthwise":
            along = ["H"]
        for rank in ranks:
            layer.bounds[f"{rank.lower()}{n}"] = sizes[rank]
            large = sizes[rank] > (4 if len(ranks) > 1 else 7)
            stride = (
                1 if plain or large or rank == "C" else dice.one_of([1, 1, 1, 2, 3] if count == 2 else [1, 1, 1, 2])
            )
            taps = (
                1 if plain or rank not in along else dice.number(1, 2 if large else most + (2 if kind == "pair" else 0))
            )
            if pooled:
                stride, taps = dice.number(1, 2 if large else 3), dice.number(2, 2 if large else 3)
            terms = {f"{rank.lower()}{n}": stride}
            gap = dice.number(1, 2) if kind == "dilated" and taps > 1 else 1
            if taps > 1:
                layer.bounds[f"{rank.lower()}r{n}"] = taps
                terms[f"{rank.lower()}r{n}"] = gap
            reach = gap * (taps - 1)
            pad = dice.number(0, reach) if dice.chance(30) else 0
            layer.reads[n - 1][rank] = Affine(FrozenDict(terms), -pad)
            strides[rank].append(stride)
            sizes[rank] = max(1, stride * (sizes[rank] - 1) + reach + 1 - pad - (dice.number(0, pad) if pad else 0))
        taps_of = tuple(v for v in layer.bounds if "r" in v)
        layer.weights = taps_of if taps_of and dice.chance(15 if kind == "image" else 70) and not pooled else ()
        layer.operation = "max" if pooled else None
        if kind == "depthwise" and layer.weights:
            layer.weights = (*layer.weights, f"c{n}")
    if kind in ("residual", "forked"):
        origin, last = dice.number(1, count - 2), layers[-1]
        for rank in ranks:
            terms, step = {f"{rank.lower()}{count}": math.prod(strides[rank][: count - origin])}, dice.number(1, 2)
            if kind == "forked":
                last.bounds.setdefault(f"{rank.lower()}r{count}", 2)
                terms[f"{rank.lower()}r{count}"] = step
            last.reads.setdefault(origin, {})[rank] = Affine(FrozenDict(terms))
    whole = sum(math.prod(layer.bounds[f"{r.lower()}{layer.number}"] for r in ranks) for layer in layers[:-1])
    return Spec(arch=_small_buffer(8 * dice.number(4, max(6, 3 + 2 * whole // 3))), workload=_workload(layers, ranks))


def _small_buffer(bits: int) -> arch.Architecture:
    def memory(name: str, size: float, energy: int, keep: str) -> arch.Memory:
        actions = tuple(arch.Action(name=action, energy=energy, throughput=1) for action in ("read", "write"))
        held = arch.Tensors(keep=keep, may_keep="All")
        return arch.Memory(name=name, component_class="Dummy", size=size, actions=actions, tensors=held)

    compute = arch.ComputeUnit(
        name="MAC", component_class="Dummy", actions=(arch.Action(name="compute", energy=1, throughput=1),)
    )
    dram = memory("DRAM", math.inf, 100, "~Intermediates")
    buffer = memory("GLB", bits, 1, "~DRAM")
    return arch.Architecture(nodes=(dram, buffer, compute))


def _layers(dice: Dice, ranks: list[str], most: int = 4, rows: tuple[int, int] = (1, 6)) -> list[WindowLayer]:
    count = dice.number(2, most if len(ranks) == 1 else 3)
    layers = [WindowLayer(i + 1, channels=False) for i in range(count)]
    sizes = {rank: dice.number(rows[0], rows[1] if len(ranks) == 1 else 4) for rank in ranks}
    strides: dict[str, list[int]] = {rank: [] for rank in ranks}
    for layer in reversed(layers):
        n = layer.number
        layer.reads[n - 1] = {}
        for rank in ranks:
            layer.bounds[f"{rank.lower()}{n}"] = sizes[rank]
            stride, taps, gap = dice.one_of([1, 1, 1, 2, 3]), dice.number(1, 4), dice.one_of([1, 1, 1, 2])
            if sizes[rank] > 12:
                stride, taps = 1, min(taps, 2)
            reach = gap * (taps - 1)
            pad = dice.number(0, reach) if dice.chance(50) else 0
            terms = {f"{rank.lower()}{n}": stride}
            if taps > 1:
                layer.bounds[f"{rank.lower()}r{n}"] = taps
                terms[f"{rank.lower()}r{n}"] = gap
            layer.reads[n - 1][rank] = Affine(FrozenDict(terms), -pad)
            strides[rank].append(stride)
            below = stride * (sizes[rank] - 1) + reach + 1 - pad - (dice.number(0, pad) if pad else 0)
            sizes[rank] = max(1, below + (dice.number(0, 2) if dice.chance(15) else 0))
        if dice.chance(60):
            layer.weights = tuple(v for v in layer.bounds if "r" in v)
    last = layers[-1]
    if count > 2 and dice.chance(40):
        origin = dice.number(0, count - 2)
        last.reads[origin] = {
            rank: Affine(
                FrozenDict({f"{rank.lower()}{count}": math.prod(strides[rank][: count - origin])}),
                dice.number(-1, 1) if dice.chance(40) else 0,
            )
            for rank in ranks
        }
    return layers


def _workload(layers: list[WindowLayer], ranks: list[str]) -> Workload:
    einsums = []
    for layer in layers:
        accesses = [
            TensorAccess(name=f"T{source}", projection=FrozenDict(index)) for source, index in layer.reads.items()
        ]
        if layer.weights:
            index = {f"R{v}": Affine(FrozenDict({v: 1})) for v in layer.weights}
            accesses.append(TensorAccess(name=f"K{layer.number}", projection=FrozenDict(index)))
        made = {rank: Affine(FrozenDict({f"{rank.lower()}{layer.number}": 1})) for rank in ranks}
        accesses.append(TensorAccess(name=layer.output, projection=FrozenDict(made), output=True))
        bounds = tuple(Constraint(f"0 <= {v} < {bound}") for v, bound in layer.bounds.items())
        einsums.append(
            Einsum(
                name=layer.name,
                tensor_accesses=tuple(accesses),
                iteration_space_shape=bounds,
                operation=layer.operation,
            )
        )
    return Workload(einsums=tuple(einsums), bits_per_value=FrozenDict({"All": 8}))


def _architecture(dice: Dice) -> arch.Architecture:
    def memory(name: str) -> arch.Memory:
        actions = tuple(Action(name=action, energy=1, throughput=1) for action in ("read", "write"))
        skip = not dice.chance(12)
        return arch.Memory(
            name=name, component_class="Dummy", size=math.inf, actions=actions, skip_initial_output_write=skip
        )

    lanes = arch.Container(name="PE", spatial=(arch.Dimension(name="X", fanout=6),))
    compute = Action(name="compute", energy=1, throughput=1)
    mac = arch.ComputeUnit(name="MAC", component_class="Dummy", actions=(compute,))
    return arch.Architecture(nodes=(memory("DRAM"), memory("GLB"), lanes, memory("Reg"), mac))


class _WindowDrawer:
    """Draws the tree of one group of layers that run in turns."""

    def __init__(
        self, dice: Dice, group: list[WindowLayer], layers: list[WindowLayer], ranks: list[str], wrong: int
    ) -> None:
        self.dice, self.group, self.layers, self.wrong = dice, group, layers, wrong
        self.ranks = dice.shuffled(dice.subset(ranks, 75) or ranks[:1]) if len(group) > 1 else []
        self.depth: dict[int, int] = {}
        for layer in group[:-1]:
            outside = any(layer.number in other.reads for other in layers if other not in group)
            self.depth[layer.number] = -1 if outside else dice.number(0, len(self.ranks))
        self.lines = {rank: self._lines(rank) for rank in self.ranks}

    def _lines(self, rank: str) -> dict[int, DrawnLine]:
        """Per layer, from the last one up: the tiles that its consumers ask for."""
        lines: dict[int, DrawnLine] = {}
        for layer in reversed(self.group):
            variable = f"{rank.lower()}{layer.number}"
            needs = [self._needs(c, layer.number, rank, lines[c.number]) for c in self.group if layer.number in c.reads]
            if not needs:
                tile = self.dice.number(1, layer.bounds[variable])
                lines[layer.number] = DrawnLine(0, tile, tile)
                continue
            start, end = min(n.start for n in needs), max(n.end for n in needs)
            if self.depth[layer.number] <= self.ranks.index(rank):  # it is kept, so only what is new is made
                start = end - needs[0].step
            lines[layer.number] = DrawnLine(start, end, needs[0].step)
        return lines

    def _needs(self, consumer: WindowLayer, source: int, rank: str, line: DrawnLine) -> DrawnLine:
        index = consumer.reads[source][rank]
        variable = f"{rank.lower()}{consumer.number}"
        a = index.coefficients[variable]
        reach = sum(b * (consumer.bounds[v] - 1) for v, b in index.coefficients.items() if v != variable)
        return DrawnLine(
            a * line.start + index.constant, a * (line.end - 1) + reach + index.constant + 1, a * line.step
        )

    def loop(self, rank: str) -> tuple[Temporal, dict[str, int]]:
        """The shared loop over a rank, and what extent is left to each layer."""
        variables, tiles, first, steps, left = {}, {}, {}, {}, {}
        for layer in self.group:
            line, bound = self.lines[rank][layer.number], layer.bounds[f"{rank.lower()}{layer.number}"]
            variables[layer.name] = f"{rank.lower()}{layer.number}"
            tile, end, step = line.end - line.start, line.end, line.step
            if layer is not self.group[-1] and self.dice.chance(self.wrong):
                end, tile = max(1, end - self.dice.number(0, 1)), max(1, tile - self.dice.number(0, 1))
                step = tile if step == line.end - line.start else step
            if step == tile:
                end, tile = min(end, bound), min(tile, bound)
                step = tile
            tiles[layer.name], left[layer.name] = tile, bound
            if end != tile:
                first[layer.name] = max(end, 1)
            if step != tile:
                steps[layer.name] = step
        even = len(set(tiles.values())) == 1
        loop = Temporal(
            rank_variable=FrozenDict(variables),
            tile_shape=tiles[self.group[0].name] if even else FrozenDict(tiles),
            initial_tile_shape=FrozenDict(first) if first else None,
            step=FrozenDict(steps) if steps else None,
        )
        return loop, left

    def nodes(self) -> list[Node]:
        nodes: list[Node] = []
        loops = [self.loop(rank)[0] for rank in self.ranks]
        for depth in range(len(loops) + 1):
            held = tuple(f"T{number}" for number, own in self.depth.items() if own == depth)
            if held:
                nodes.append(Storage(tensors=held, component="GLB"))
            if depth < len(loops):
                nodes.append(loops[depth])
        branches = tuple(Nested(nodes=tuple(self._branch(layer, loops))) for layer in self.group)
        return [*nodes, Sequential(nodes=branches)] if len(branches) > 1 else [*nodes, *branches[0].nodes]

    def _branch(self, layer: WindowLayer, loops: list[Temporal]) -> list[Node]:
        dice = self.dice
        extents = dict(layer.bounds)
        for rank, loop in zip(self.ranks, loops, strict=True):
            v = f"{rank.lower()}{layer.number}"
            tiling = tiling_in(loop, layer.name)
            assert tiling is not None
            evens = [(tiling_in(loop, x.name), x.bounds[f"{rank.lower()}{x.number}"]) for x in self.group]
            times = max(even.last(bound, None) + 1 for even, bound in evens if even and not even.windowed)
            extents[v] = max(tiling.lengths(extents[v], times))
        nodes: list[Node] = []
        lanes = 1
        for v in dice.shuffled([v for v, extent in extents.items() if extent > 1]):
            tile = dice.number(1, extents[v] - 1) if dice.chance(40) else 1
            count = -(-extents[v] // tile)
            if dice.chance(30) and lanes * count <= 6:
                lanes *= count
                nodes.append(Spatial(rank_variable=v, tile_shape=tile, component="PE", name="X"))
            else:
                nodes.append(Temporal(rank_variable=v, tile_shape=tile))
            if tile > 1:
                nodes.append(Temporal(rank_variable=v, tile_shape=1))
        for tensor in [layer.output, *(f"T{source}" for source in layer.reads)]:
            if dice.chance(40) and not any(isinstance(node, Spatial) for node in nodes):
                nodes.insert(dice.number(0, len(nodes)), Storage(tensors=(tensor,), component="Reg"))
        return [*nodes, Compute(einsum=layer.name, component="MAC")]


def _tree(dice: Dice, layers: list[WindowLayer], ranks: list[str], wrong: int) -> LoopTree:
    groups: list[list[WindowLayer]] = [[layers[0]]]
    for layer in layers[1:]:
        if dice.chance(12):
            groups.append([layer])
        else:
            groups[-1].append(layer)
    drawers = [_WindowDrawer(dice, group, layers, ranks, wrong) for group in groups]
    inside = {f"T{n}" for drawer in drawers for n, depth in drawer.depth.items() if depth >= 0}
    tensors = ["T0", *(f"K{x.number}" for x in layers if x.weights), *(x.output for x in layers)]
    root = Storage(tensors=tuple(t for t in tensors if t not in inside), component="DRAM")
    if len(drawers) == 1:
        return LoopTree(nodes=(root, *drawers[0].nodes()))
    branches = tuple(Nested(nodes=tuple(drawer.nodes())) for drawer in drawers)
    return LoopTree(nodes=(root, Sequential(nodes=branches)))
