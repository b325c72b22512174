"""Random mappings against a literal walk through Timeloop's loops: what each level is filled with.

The walk is Timeloop's: every loop is stepped once and its other steps are taken to be alike; a tile brings what the tile before it did not
have, unless the step is another than the one before.
"""

from __future__ import annotations

import math
import os
import random
from pathlib import Path

import pytest

import fusiest
from fusiest.base.errors import InvalidMapping
from fusiest.timeloop import TimeloopImport, import_timeloop
from fusiest.timeloop.mapping_to_tree import FactorLoop
from fusiest.timeloop.problem_to_einsum import DataSpace
from tests.timeloop.descriptions import write

CASES = int(os.environ.get("FUSIEST_TIMELOOP_CASES", "60"))
LEVELS = ("DRAM", "Buffer", "Register")


class Walk:
    """Values that one instance of a level is filled with."""

    def __init__(self, space: DataSpace, loops: tuple[FactorLoop, ...], first: int) -> None:
        self.space, self.loops, self.first = space, loops, first
        self.below = dict.fromkeys({loop.dimension for loop in loops} | space.dimensions, 1)
        for loop in loops[first:]:
            self.below[loop.dimension] *= loop.iterations
        self.tile: list[tuple[int, int]] | None = None
        self.step: tuple[int, ...] | None = None
        self.filled = 0

    def run(self) -> int:
        self.walk(0, dict.fromkeys(self.below, 0), 1)
        return self.filled

    def walk(self, at: int, place: dict[str, int], times: int) -> None:
        if at == self.first:
            self.filled += times * self.arrive(place)
            return
        loop = self.loops[at]
        self.walk(at + 1, place, times)
        if loop.axis is None:
            moved = {**place, loop.dimension: place[loop.dimension] + loop.tile}
            self.walk(at + 1, moved, times * (loop.iterations - 1))

    def arrive(self, place: dict[str, int]) -> int:
        ranks = self.space.ranks
        low = [sum(a * place[d] for d, a in rank.items()) for rank in ranks]
        wide = [1 + sum(a * (self.below[d] - 1) for d, a in rank.items()) for rank in ranks]
        tile, before = [(one, one + w) for one, w in zip(low, wide, strict=True)], self.tile
        self.tile = tile
        step = None if before is None else tuple(new[0] - old[0] for new, old in zip(tile, before, strict=True))
        if before is not None and self.step is not None and step != self.step:
            self.step = None
            return math.prod(wide)
        self.step = step
        if before is None:
            return math.prod(wide)
        common = [max(0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in zip(tile, before, strict=True)]
        return math.prod(wide) - math.prod(common)


def description(dice: random.Random) -> list[str]:
    """A convolution in one or two dimensions, three levels, perhaps a fanout, and a mapping with random factors and orders."""
    two = dice.random() < 0.5
    sizes = {
        "K": dice.choice([1, 2, 4]),
        "C": dice.choice([1, 2, 3]),
        "R": dice.choice([1, 2, 3]),
        "P": dice.choice([4, 6, 8, 12]),
    }
    if two:
        sizes |= {"S": dice.choice([1, 3]), "Q": dice.choice([2, 4])}
    stride = dice.choice([1, 1, 2, 4])
    fanout = dice.choice([1, 1, 2, 4])
    ranks = "[[C]], [[R], [P, stride]]" + (", [[S], [Q, stride]]" if two else "")
    problem = f"""
problem:
  shape:
    name: conv
    dimensions: [{", ".join(sizes)}]
    coefficients: [{{name: stride, default: 1}}]
    data_spaces:
    - {{name: Weights, projection: [[[K]], [[C]], [[R]]{", [[S]]" if two else ""}]}}
    - {{name: Inputs, projection: [{ranks}]}}
    - {{name: Outputs, projection: [[[K]], [[P]]{", [[Q]]" if two else ""}], read_write: true}}
  instance: {{{", ".join(f"{d}: {n}" for d, n in sizes.items())}, stride: {stride}}}
"""
    architecture = f"""
architecture:
  nodes:
  - !Component {{name: DRAM, class: DRAM, attributes: {{width: 8, datawidth: 8}}}}
  - !Component {{name: Buffer, class: SRAM, attributes: {{width: 8, datawidth: 8, depth: 100000}}}}
  - !Container {{name: PE, spatial: {{meshX: {fanout}}}}}
  - !Component {{name: Register, class: regfile, attributes: {{width: 8, datawidth: 8, depth: 100000}}}}
  - !Component {{name: MAC, class: intmac}}
"""
    left, factors = dict(sizes), {level: dict.fromkeys(sizes, 1) for level in (*LEVELS, "PE")}
    spread = dice.choice(list(sizes))
    factors["PE"][spread] = math.gcd(left[spread], fanout)
    left[spread] //= factors["PE"][spread]
    for dimension in sizes:
        for level in LEVELS[:-1]:
            factors[level][dimension] = dice.choice(
                [n for n in range(1, left[dimension] + 1) if left[dimension] % n == 0]
            )
            left[dimension] //= factors[level][dimension]
        factors["Register"][dimension] = left[dimension]
    lines = ["mapping:"]
    for level, mine in factors.items():
        order = list(sizes)
        dice.shuffle(order)
        if level != "PE" or fanout > 1:
            kind = "spatial" if level == "PE" else "temporal"
            text = ", ".join(f"{d}={n}" for d, n in mine.items())
            lines.append(f"- {{target: {level}, type: {kind}, factors: [{text}], permutation: [{', '.join(order)}]}}")
    return [problem, architecture, "\n".join(lines)]


def fills(found: TimeloopImport) -> dict[tuple[str, str], int]:
    assert found.nest is not None
    expected = {}
    for number, level in enumerate(found.levels):
        for space in found.problem.spaces:
            if (number, space.timeloop_name) not in found.nest.holders or number == 0 or space.is_output:
                continue
            loops = found.nest.loops
            first = next((i for i, loop in enumerate(loops) if loop.level >= number), len(loops))
            instances = math.prod(loop.iterations for loop in loops[:first] if loop.axis is not None)
            expected[level.name, space.name] = Walk(space, loops, first).run() * instances
    return expected


def test_fills_are_those_of_a_walk_through_the_loops(tmp_path: Path) -> None:
    dice = random.Random(2026)
    compared = slid = 0
    for _ in range(CASES):
        texts = description(dice)
        found = import_timeloop(write(tmp_path, *texts))
        assert found.nest is not None
        try:
            (einsum,) = fusiest.evaluate(found.spec).einsums.values()
        except InvalidMapping:  # pragma: no cover
            pytest.fail("\n".join(texts))
        for (level, tensor), expected in fills(found).items():
            number = [one.name for one in found.levels].index(level)
            timeloop_name = next(space.timeloop_name for space in found.problem.spaces if space.name == tensor)
            if (number, timeloop_name) not in found.nest.lost_overlaps:
                assert einsum.actions[level, tensor, "write"] == expected, "\n".join(texts)
                compared += 1
                slid += tensor == "Input" and found.nest.holders[number, timeloop_name] < len(found.nest.loops)
    assert compared > 3 * CASES
    assert slid > CASES / 2
