"""Random LoopTrees of a producer and a consumer that share loops, whatever these step: some are right, some are wrong.

E0 makes T, and E1 uses it, by shifted, mirrored and strided indices and through windows. Both read C, which is exchanged
below all loops that they share, so that they take turns in each. T is exchanged above, between or below these loops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusiest.base.frozen import FrozenDict
from fusiest.looptree.nodes import Compute, LoopTree, Nested, Node, Sequential, Storage, Temporal
from fusiest.spec import architecture as arch
from fusiest.spec.hardware.actions import Action
from fusiest.spec.language.affine import Affine, Constraint
from fusiest.spec.spec import Spec
from fusiest.spec.workload.einsums import Einsum, TensorAccess, Workload
from tests.drawing.dice import Dice
from tests.drawing.indices import Twist, draw_twist
from tests.strategies import Case

MEMORIES = ("DRAM", "GLB", "Reg")
Projection = dict[str, Affine]


@dataclass
class Shared:
    """A loop that steps a variable of E0 and one of E1."""

    made: str
    used: str
    tile: int


def draw_exchange(dice: Dice, uneven: bool = False) -> Case:
    """`uneven`: what a loop goes through need not be as long in both, nor divide evenly."""
    ranks = dice.number(1, 2)
    size = dice.number(2, 5 if uneven else 4)
    bounds = {v: dice.number(2, 5) if uneven and dice.chance(40) else size for v in ("n0", "n1", "k", "q0", "q1", "r")}
    made: Projection = {f"T{i}": _twist(dice, bounds[f"n{i}"], 15).of({f"n{i}": 1}) for i in range(ranks)}
    used = {f"T{i}": _used(dice, f"q{i}", bounds, made[f"T{i}"]) for i in range(ranks)}
    if ranks == 2 and dice.chance(15):
        used = {"T0": used["T1"], "T1": used["T0"]}
    e0 = [*(f"n{i}" for i in range(ranks)), *(["k"] if dice.chance(50) else [])]
    e1 = list(dict.fromkeys(v for affine in used.values() for v in affine.variables))
    e1 += [v for v in ("q1",) if v not in e1 and dice.chance(40)]
    loops = _loops(dice, e0, e1, bounds, uneven)
    common = [{f"C{i}": Affine(FrozenDict({v: 1})) for i, v in enumerate(dict.fromkeys(own))}
              for own in ([x.made for x in loops], [x.used for x in loops])]  # fmt: skip
    if loops and dice.chance(10):
        common[1]["C0"] = Twist(1, 1).of(common[1]["C0"].coefficients)
    if len(common[0]) != len(common[1]) or not loops:
        common = [{}, {}]
    e0_accesses = {"A": {f"A{v}": Affine(FrozenDict({v: 1})) for v in e0}, **_named("C", common[0]), "T": made}
    e1_accesses = {"T": used, **_named("C", common[1]), "U": {f"U{v}": Affine(FrozenDict({v: 1})) for v in e1[:1]}}
    einsums = (_einsum("E0", e0_accesses, "T", bounds), _einsum("E1", e1_accesses, "U", bounds))
    spec = Spec(arch=_architecture(), workload=Workload(einsums=einsums, bits_per_value=FrozenDict({"All": 8})))
    return Case(spec, _tree(dice, spec, loops))


def _twist(dice: Dice, size: int, percent: int) -> Twist:
    return draw_twist(dice, size) if dice.chance(percent) else Twist()


def _used(dice: Dice, variable: str, bounds: dict[str, int], made: Affine) -> Affine:
    """As it was made, or in another way, through a window now and then."""
    (factor,) = made.coefficients.values()
    terms = {variable: factor}
    if variable == "q0" and dice.chance(25):
        terms["r"] = dice.one_of([1, -1])
    if dice.chance(50):
        return Affine(FrozenDict(terms), made.constant)
    return _twist(dice, bounds[variable], 80).of(dict.fromkeys(terms, 1))


def _named(name: str, projection: Projection) -> dict[str, Projection]:
    return {name: projection} if projection else {}


def _loops(dice: Dice, e0: list[str], e1: list[str], bounds: dict[str, int], uneven: bool) -> list[Shared]:
    extents = dict(bounds)
    loops: list[Shared] = []
    pairs: dict[str, str] = {}
    for _ in range(dice.one_of([1, 2, 2, 3])):
        made = dice.one_of(e0)
        used = pairs.get(made) or dice.one_of([v for v in e1 if v not in pairs.values()] or e1)
        if (made in pairs) != (used in pairs.values()) or (extents[made] != extents[used] and not uneven):
            continue
        pairs[made] = used
        most = min(extents[made], extents[used])
        tiles = [t for t in range(1, most + 1) if uneven or most % t == 0]
        tile = dice.one_of(tiles)
        extents[made] = extents[used] = tile
        loops.append(Shared(made, used, tile))
    return loops


def _einsum(name: str, accesses: dict[str, Projection], output: str, bounds: dict[str, int]) -> Einsum:
    own = dict.fromkeys(
        v for projection in accesses.values() for affine in projection.values() for v in affine.variables
    )
    return Einsum(
        name=name,
        tensor_accesses=tuple(
            TensorAccess(name=t, projection=FrozenDict(p), output=t == output) for t, p in accesses.items()
        ),
        iteration_space_shape=tuple(Constraint(f"0 <= {v} < {bounds[v]}") for v in own),
    )


def _architecture() -> arch.Architecture:
    figures = tuple(Action(name=name, energy=1, throughput=1) for name in ("read", "write"))
    memories = (
        arch.Memory(name=m, component_class="Dummy", leak_power=0, size=math.inf, actions=figures) for m in MEMORIES
    )
    compute = Action(name="compute", energy=1, throughput=1)
    return arch.Architecture(
        nodes=(*memories, arch.ComputeUnit(name="MAC", component_class="Dummy", leak_power=0, actions=(compute,)))
    )


def _tree(dice: Dice, spec: Spec, loops: list[Shared]) -> LoopTree:
    """T stands somewhere among the shared loops, above those that do not index it fully, and maybe once more below."""
    access = [spec.info.einsums[e].accesses["T"] for e in ("E0", "E1")]
    above = 0
    while (
        above < len(loops)
        and loops[above].made in access[0].fully_relevant
        and loops[above].used in access[1].fully_relevant
    ):
        above += 1
    depth = dice.number(0, above)
    again = dice.number(depth, len(loops)) if dice.chance(15) else None
    roots = [t for t in spec.info.users if t not in ("T", "C")]
    nodes: list[Node] = [Storage(tensors=tuple(roots), component="DRAM")]
    for i in range(len(loops) + 1):
        if i == depth:
            nodes.append(Storage(tensors=("T",), component="DRAM"))
        if i == again:
            nodes.append(Storage(tensors=("T",), component="GLB"))
        if i < len(loops):
            names = FrozenDict({"E0": loops[i].made, "E1": loops[i].used})
            nodes.append(Temporal(rank_variable=names, tile_shape=loops[i].tile))
    if "C" in spec.info.users:
        nodes.append(Storage(tensors=("C",), component="GLB"))
    branches = (_branch(dice, spec, name, loops) for name in ("E0", "E1"))
    return LoopTree(nodes=(*nodes, Sequential(nodes=tuple(Nested(nodes=branch) for branch in branches))))


def _branch(dice: Dice, spec: Spec, einsum: str, loops: list[Shared]) -> tuple[Node, ...]:
    extents = dict(spec.info.einsums[einsum].bounds)
    extents.update({x.made if einsum == "E0" else x.used: x.tile for x in loops})
    nodes: list[Node] = [
        Temporal(rank_variable=v, tile_shape=1) for v in dice.shuffled(list(extents)) if extents[v] > 1
    ]
    if dice.chance(20):
        nodes.insert(dice.number(0, len(nodes)), Storage(tensors=("T",), component="Reg"))
    return (*nodes, Compute(einsum=einsum, component="MAC"))
