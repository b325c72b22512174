"""The first of two chained 4 x 4 x 4 products below two memories, with costs that are easily added up: for tests by hand.

Per bit: DRAM 10 J to read and 20 J to write, GLB 1 J and 2 J; 3 J per operation. In a second DRAM reads 1 bit or writes 2, and MAC
does 1 operation. GLB leaks 0.5 W. Values of A have 2 bits, all others 1. DRAM holds all but Y, which Einsums exchange in GLB.
"""

from __future__ import annotations

from fusiest.pmapping.explore import lattice_space, leakage
from fusiest.pmapping.fused.structures import Situation
from fusiest.pmapping.lattice.applies import constrained_variables
from fusiest.pmapping.lattice.remaining import Cutoff
from fusiest.pmapping.lattice.tile_problem import Problem, make_problem
from fusiest.pmapping.lattice.tile_search import Lattice
from fusiest.pmapping.nest.rules import HeldTensor, Nest, Rules, Stretch
from fusiest.pmapping.placements.placement import placements
from fusiest.spec import bind
from tests.load_text import load_text

DRAM, GLB = 0, 1
_ARCH = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: ~Intermediates},
             actions: [{name: read, energy: 10, throughput: 1}, {name: write, energy: 20, throughput: 2}]}
  - !Memory {name: GLB, size: %s, component_class: Dummy, leak_power: 0.5, tensors: {keep: %s%s},
             actions: [{name: read, energy: 1}, {name: write, energy: 2}]}
  - !Compute {name: MAC, component_class: Dummy, actions: [{name: compute, energy: 3, throughput: 1}]}
"""
_WORKLOAD = "workload: {rank_sizes: {%s}, bits_per_value: {A: 2, ~A: 1}%s, einsums: [%s]}"
_TWO = "'Y[m, n] = A[m, k] * B[k, n]', 'Z[m, p] = Y[m, n] * C[n, p]'"
PRODUCTS = _WORKLOAD % ("M: 4, N: 4, K: 4, P: 4", "", _TWO)
"""A product has 64 operations, and each of its tensors 16 values."""
PERSISTENT = _WORKLOAD % ("M: 4, N: 4, K: 4, P: 4", ", persistent_tensors: A", _TWO)
WINDOWS = _WORKLOAD % ("M: 4, K: 2", "", "'Y[m] = A[H: m + k] * B[k]', 'Z[m] = Y[m]'")


def make_search(
    held: str,
    size: int = 1_000,
    *,
    constraints: str = "",
    workload: str = PRODUCTS,
    shared: frozenset[str] = frozenset("Y"),
    rules: Rules | None = None,
    cutoff: Cutoff | None = None,
) -> Lattice:
    """A search for pmappings of Y, before it runs. It has one placement: GLB holds the tensors of `held`."""
    spec = load_text(_ARCH % (size, held, constraints), workload)
    path = bind(spec, "Y", "MAC")
    problem = make_problem(path, *constrained_variables(spec, path))
    nest = Nest(problem, shared, {}, rules or Rules(), frozenset(), frozenset())
    (placement,) = placements(spec, path)
    return Lattice(lattice_space(nest, [placement], None, frozenset([GLB]), leakage(spec, problem)), cutoff)


def glb_stretch(search: Lattice) -> Stretch:
    """The holders of GLB."""
    ((stretch, _),) = search.steps.stretches(frozenset([0]), range(GLB, GLB + 1), 0)
    return stretch


def in_glb(search: Lattice, tensor: str) -> HeldTensor:
    return HeldTensor(GLB, search.nest.number[tensor])


def shape(problem: Problem, **extents: int) -> int:
    """The number of a tile shape."""
    return sum(
        stride * variable.divisors.tolist().index(extents[variable.members[0]])
        for variable, stride in zip(problem.variables, problem.strides, strict=True)
    )


def situation(search: Lattice, *orders: str) -> Situation:
    """Above a seed of Y: the orders in which other holders of GLB may stand, the innermost first."""
    held = tuple(tuple(in_glb(search, tensor) for tensor in order) for order in orders)
    stretch = search.steps.extended(0, glb_stretch(search))
    return Situation(search.nest, stretch, tuple(sorted(held[0])), held, frozenset(), frozenset([GLB]))
