"""Inputs held below a fanout, once per instance: the search against the exhaustive mapper, and values, on random specs."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import event, given
from hypothesis import strategies as st

import fusiest
from fusiest import NoMapping
from fusiest.looptree.nodes import Compute, LoopTree, Node
from fusiest.model.nest import TreeNode, build_nest
from fusiest.spec import Spec, bind
from tests.drawing.dice import Dice
from tests.load_text import load_text
from tests.mapper.test_exhaustive_workload import same_front
from tests.pmapping.fronts import differences, exhaustive_fronts, pmappings, search_fronts
from tests.proving import PROVE, TALLY, cases, floors
from tests.reference.exhaustive import TooManyTrees, exhaustive
from tests.reference.exhaustive_workload import TooManyCombinations, WorkloadLimits, exhaustive_front
from tests.reference.skeletons import ReferenceLimits
from tests.values import check_tree, check_values

EINSUMS = ["Z[m] = A[m] * W[]", "Z[m, n] = A[m] * W[n]", "Z[m, n] = A[m, k] * W[k, n]", "Z[p] = A[k] * W[I: p + k]",
           "Z[m, p] = A[m, k] * W[I: p + 2*k]", "Z[m] = A[m] * W[k]"]  # fmt: skip


@dataclass(frozen=True)
class MacroCase:
    text: str

    @property
    def spec(self) -> Spec:
        return load_text(self.text)

    def __repr__(self) -> str:
        return self.text


@st.composite
def macro_cases(draw: st.DrawFn, fused: bool = False) -> MacroCase:
    """A buffer, and macros with a memory that alone holds W, sometimes more; registers below it, now and then.

    `fused`: another Einsum uses Z, which need not leave the macros.
    """
    dice = Dice(draw)

    def actions(*names: str) -> str:
        given = (f"{{name: {n}, energy: {dice.one_of([1, 3, 20])}, throughput: {dice.one_of([1, 4])}}}" for n in names)
        return f"component_class: Dummy, actions: [{', '.join(given)}]"

    def fanout(name: str) -> str:
        more = dice.one_of(["", ", may_reuse: Nothing", ", may_reuse: A", ", reuse: A", ", min_usage: 1", ", reuse: Z"])
        return f"{{name: {name}, fanout: {dice.one_of([2, 4, 3])}{more}}}"

    spatial = ", ".join(map(fanout, "XY"[: dice.number(1, 2)]))
    also = dice.one_of(["Z", "A | Z"] if fused else ["Nothing", "Nothing", "A", "A | Z"])
    order = ", force_memory_hierarchy_order: false" if not fused and dice.chance(30) else ""
    nodes = [
        f"!Memory {{name: Buffer, size: inf, tensors: {{keep: {'~W - Z' if fused else '~W'}, may_keep: Z}}, "
        f"{actions('read', 'write')}}}",
        f"!Memory {{name: Macro, size: {8 * dice.number(1, 12)}, tensors: {{keep: W, may_keep: {also}{order}}}, "
        f"spatial: [{spatial}], {actions('read', 'write')}}}",
    ]
    if dice.chance(30):
        nodes.append(f"!Container {{name: Row, spatial: [{fanout('R')}]}}")
    if dice.chance(30):
        kept = dice.one_of(["W", "A"])
        nodes.append(f"!Memory {{name: Reg, size: 16, tensors: {{may_keep: {kept}}}, {actions('read', 'write')}}}")
    nodes.append(f"!Compute {{name: MAC, {actions('compute')}}}")
    einsums = [dice.one_of(EINSUMS)]
    if fused:
        index = einsums[0][2 : einsums[0].index("]")]
        einsums.append(f"Y[{index}] = Z[{index}]")
    ranks = {rank: dice.one_of([2, 3, 4]) for rank in "MNKP"}
    ranks["I"] = ranks["P"] + 2 * ranks["K"]
    used = {rank: size for rank, size in ranks.items() if any(rank.lower() in e or f"{rank}:" in e for e in einsums)}
    listed = "".join(f"  - !{node[1:]}\n" for node in nodes)
    return MacroCase(
        f"arch:\n  nodes:\n{listed}workload:\n  rank_sizes: {used}\n  bits_per_value: 8\n  einsums: {einsums}\n"
    )


def replicates(spec: Spec, nodes: tuple[Node, ...]) -> bool:
    leaf = nodes[-1]
    assert isinstance(leaf, Compute)
    nest = build_nest(tuple(TreeNode(i, node) for i, node in enumerate(nodes)), bind(spec, leaf.einsum, leaf.component))
    own = nest.tensors["W"]
    return any(loop.iterations > 1 and loop.variable not in own.access.fully_relevant for loop in own.gaps[0])


@floors(60, replicated=0.1)
@cases(60, proving=2000)
@given(case=macro_cases(), imperfect=st.booleans())
def test_replicas(case: MacroCase, imperfect: bool) -> None:
    spec = case.spec
    table = pmappings(spec, "Z", imperfect=imperfect)
    limits = ReferenceLimits(trees=20_000 if PROVE else 2_000, imperfect=imperfect)
    try:
        expected = exhaustive(spec, "Z", table.memories, limits)
    except TooManyTrees:
        event("too many trees")
        return
    assert differences(search_fronts(spec, table), exhaustive_fronts(expected)) == []
    found = [pmapping for front in expected.values() for pmapping in front]
    TALLY["compared"] += 1
    TALLY["replicated"] += any(replicates(spec, p.nodes) for p in found)
    for pmapping in found[:3]:
        check_tree(spec, LoopTree(nodes=pmapping.nodes))


@floors(25)
@cases(25, proving=600)
@given(case=macro_cases(fused=True))
def test_replicas_of_fused_einsums(case: MacroCase) -> None:
    spec = case.spec
    limits = WorkloadLimits(trees=8_000, combinations=400_000, trials=4_000)
    try:
        expected = [(m.energy, m.latency) for m in exhaustive_front(spec, limits=limits)]
    except (TooManyTrees, TooManyCombinations) as error:
        event(type(error).__name__)
        return
    try:
        mappings = fusiest.map(spec, ("energy", "latency"), windows="none", jobs=1).mappings
    except NoMapping:
        mappings = ()
    TALLY["compared"] += 1
    assert same_front([(m.energy, m.latency) for m in mappings], expected)
    check_values(spec, mappings)
