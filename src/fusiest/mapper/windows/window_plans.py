"""Plans of windows: chains of Einsums that step rows in one loop through their halos, and the windows that follow.

They follow from the last Einsum of a chain up: a tile of its rows needs a window of its input, whose producer needs a
window of its own input, and so on. Several consumers need the hull of their windows.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fusiest.base.frozen import FrozenDict
from fusiest.looptree import Tiling
from fusiest.model import footprint
from fusiest.pmapping import least_bits_per_value
from fusiest.spec import EinsumInfo, Spec

MOST_CHOICES = 3
"""Most tensors of a chain that are retained or recomputed in every combination; of more, all or none are retained."""

MOST_EINSUMS = 8
"""Most Einsums of a chain."""
LONGEST_WORKLOAD = 16
"""Largest workload, in Einsums, that is searched with full effort; a longer one would take long."""


class WindowLine(NamedTuple):
    """A sequence of tiles or windows: the i-th goes from start + i·step to end + i·step."""

    start: int
    end: int
    step: int

    @property
    def length(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class WindowPlan:
    """A chain of Einsums, the variable that the shared loop steps in each, and how."""

    einsums: tuple[str, ...]
    times: int
    """Number of iterations of the loop."""
    variables: FrozenDict[str, str]
    tiles: FrozenDict[str, WindowLine]
    """Tiles that each Einsum makes, one per iteration."""
    windows: FrozenDict[str, WindowLine]
    """Windows of each exchanged tensor: all that its consumers need, held in one space."""
    kept: frozenset[str]
    """Retained tensors, which are held above the loop."""
    _touched: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
    """Results of `touched_rows`, by Einsum."""
    _rows: dict[tuple[str, int], float] = field(default_factory=dict, compare=False, repr=False)
    """Results of `rows`, by Einsum and bound."""

    def tiling(self, einsum: str) -> Tiling:
        """The Einsum's tiles in the loop."""
        line = self.tiles[einsum]
        return Tiling(line.end, line.length, line.step)

    def rows(self, einsum: str, bound: int) -> float:
        """How often all rows are made, on average; `bound` is their number."""
        key = einsum, bound
        if key not in self._rows:
            first, tile, step = self.tiling(einsum)
            ends = (first + i * step for i in range(1, self.times))
            count = min(bound, first) + sum(max(0, min(bound, end) - max(0, end - tile)) for end in ends)
            self._rows[key] = count / bound
        return self._rows[key]


@functools.lru_cache(maxsize=4)
def has_halos(spec: Spec) -> bool:
    """Whether an Einsum reads another one's output in any way but position by position."""
    for tensor, makers in spec.info.producers.items():
        produced = [spec.info.einsums[maker].accesses[tensor].ranks for maker in makers]
        for user in (u for u in spec.info.users[tensor] if u not in makers):
            for rank, a in spec.info.einsums[user].accesses[tensor].ranks.items():
                single = len(a.variables) <= 1 and set(a.coefficients.values()) <= {1}
                if not single or any(a.constant != ranks[rank].constant for ranks in produced):
                    return True
    return False


def is_too_long(spec: Spec) -> bool:
    """Whether a workload is so long that windows take many times as long as everything else."""
    return len(spec.info.einsums) > LONGEST_WORKLOAD


def window_runs(spec: Spec) -> Iterator[tuple[str, ...]]:
    """Chains of Einsums, in listed order, of which only the last makes a tensor that is used elsewhere."""
    names = list(spec.info.einsums)
    for begin, length in itertools.product(range(len(names)), range(2, MOST_EINSUMS + 1)):
        run = names[begin : begin + length]
        if len(run) < length:
            continue
        inner = [spec.info.einsums[name].output for name in run[:-1]]
        alone = all(set(spec.info.users[t]) <= set(run) and len(spec.info.producers[t]) == 1 for t in inner)
        used = all(len(spec.info.users[t]) > 1 for t in inner)
        if alone and used and not any(spec.info.einsums[name].is_copy_operation for name in run):
            yield tuple(run)


def window_plans(spec: Spec, run: Sequence[str]) -> Iterator[WindowPlan]:
    """All plans of a chain: over each rank of its result, in tiles that divide, with any choice of retained tensors.

    Of plans over the same rank in as many iterations, the first retains all overlaps, the last none.
    """
    leader = spec.info.einsums[run[-1]]
    inner = [spec.info.einsums[name].output for name in run[:-1]]
    for variable in sorted(leader.accesses[leader.output].fully_relevant):
        bound = leader.bounds[variable]
        for times in (n for n in range(2, bound + 1) if bound % n == 0):
            seen: set[tuple[frozenset[str], ...]] = set()
            for kept in _choices(inner):
                plan = window_plan(spec, run, variable, bound // times, kept)
                if plan is not None and not _is_too_wide(spec, plan) and any(is_window(plan, t) for t in inner):
                    overlapping = frozenset(t for t in inner if _overlaps(plan, t))
                    if (key := (kept & overlapping, overlapping)) not in seen:
                        seen.add(key)
                        yield plan


def _choices(inner: Sequence[str]) -> Iterator[frozenset[str]]:
    few = len(inner) <= MOST_CHOICES
    for count in reversed(range(len(inner) + 1)) if few else (len(inner), 0):
        yield from map(frozenset, itertools.combinations(inner, count))


def is_window(plan: WindowPlan, tensor: str) -> bool:
    """Whether a tensor's tiles differ from those of the chain's result: without windows, all are the same."""
    line = plan.windows[tensor]
    return (line.start, line.length) != (0, line.step) or line.step != plan.tiles[plan.einsums[-1]].step


def _is_too_wide(spec: Spec, plan: WindowPlan) -> bool:
    """Whether an Einsum's tiles are longer than all its rows: as a spec, some would be only padding."""
    bounds = {name: spec.info.einsums[name].bounds[plan.variables[name]] for name in plan.einsums[:-1]}
    return any(plan.tiles[name].length > max(bound, plan.tiles[name].step) for name, bound in bounds.items())


def _overlaps(plan: WindowPlan, tensor: str) -> bool:
    line = plan.windows[tensor]
    return line.length > line.step


def window_plan(spec: Spec, run: Sequence[str], variable: str, tile: int, kept: frozenset[str]) -> WindowPlan | None:
    """The windows of a chain over one variable of its result, in tiles of this size.

    None if they do not all move together.

    `kept`: tensors that are held above the loop, if their windows overlap.
    """
    variables: dict[str, str] = {}
    tiles: dict[str, WindowLine] = {}
    windows: dict[str, WindowLine] = {}
    times = -(-spec.info.einsums[run[-1]].bounds[variable] // tile)
    variables[run[-1]], tiles[run[-1]] = variable, WindowLine(0, tile, tile)
    for name in reversed(run[:-1]):
        info = spec.info.einsums[name]
        needs = [
            _window(spec.info.einsums[user], info, variables[user], tiles[user])
            for user in spec.info.users[info.output]
            if user != name
        ]
        pairs = [need for need in needs if need is not None]
        if len(pairs) < len(needs) or len({(v, line.step) for v, line in pairs}) > 1:
            return None
        stepped, (_, _, step) = pairs[0]
        hull = WindowLine(min(line.start for _, line in pairs), max(line.end for _, line in pairs), step)
        stays = info.output in kept and hull.length > step
        variables[name], windows[info.output] = stepped, hull
        tiles[name] = WindowLine(hull.end - step, hull.end, step) if stays else hull
        if hull.end < 1:
            return None
    overlapping = frozenset(t for t in kept if t in windows and windows[t].length > windows[t].step)
    return WindowPlan(tuple(run), times, FrozenDict(variables), FrozenDict(tiles), FrozenDict(windows), overlapping)


def _window(user: EinsumInfo, maker: EinsumInfo, variable: str, line: WindowLine) -> tuple[str, WindowLine] | None:
    """The window of a tensor that a user needs for its own tiles, and the maker's variable that steps that rank."""
    for rank, affine in user.accesses[maker.output].ranks.items():
        a = affine.coefficients.get(variable, 0)
        produced = maker.accesses[maker.output].ranks[rank]
        if a > 0 and len(produced.variables) == 1 and produced.coefficients[produced.variables[0]] == 1:
            ends = [b * (user.bounds[v] - 1) for v, b in affine.coefficients.items() if v != variable]
            low, high = sum(e for e in ends if e < 0), sum(e for e in ends if e > 0)
            shift = affine.constant - produced.constant
            start, end = a * line.start + low + shift, a * (line.end - 1) + high + shift + 1
            return produced.variables[0], WindowLine(start, end, a * line.step)
    return None


def touched_rows(spec: Spec, plan: WindowPlan, maker: EinsumInfo) -> int:
    """Rows of an Einsum's output that are needed at least in some iteration: in the first, a middle, or the last one.

    Padding is left out.
    """
    if maker.name not in plan._touched:
        plan._touched[maker.name] = _touched_rows(spec, plan, maker)
    return plan._touched[maker.name]


def _touched_rows(spec: Spec, plan: WindowPlan, maker: EinsumInfo) -> int:
    most, bound = 0, maker.bounds[plan.variables[maker.name]]
    for turn in {0, plan.times // 2, plan.times - 1}:
        starts, ends = [bound], [0]
        for name in spec.info.users[maker.output]:
            info, variable = spec.info.einsums[name], plan.variables[name]
            first, end = plan.tiling(name).range(turn, info.bounds[variable])
            if name != maker.name and end > first:
                need = _window(info, maker, variable, WindowLine(first, end, 0))
                assert need is not None
                starts.append(max(0, need[1].start))
                ends.append(min(bound, need[1].end))
        most = max(most, max(ends) - min(starts))
    return most


def plan_bits(spec: Spec, plan: WindowPlan) -> float:
    """Estimate of the bits that an iteration needs: while an Einsum runs, its windows, and all retained tensors."""
    bits = _window_bits(spec, plan)
    used = ({*spec.info.einsums[name].accesses, *plan.kept} for name in plan.einsums)
    return max(sum(size for tensor, size in bits.items() if tensor in tensors) for tensors in used)


def kept_bits(spec: Spec, plan: WindowPlan) -> float:
    """Bits that are retained from one iteration to the next."""
    bits = _window_bits(spec, plan)
    return sum(bits[tensor] for tensor in plan.kept)


def _window_bits(spec: Spec, plan: WindowPlan) -> dict[str, float]:
    """Bits of the windows of each tensor.

    Variables that step all tensors of the chain alike, such as the batch, count as 1: they may be stepped outside of
    everything.
    """
    infos = [spec.info.einsums[name] for name in plan.einsums]
    outside = frozenset.intersection(
        *(info.accesses[t].fully_relevant for info in infos for t in info.accesses.keys() & plan.windows.keys())
    )
    bits, per_value = dict[str, float](), least_bits_per_value(spec)
    for info in infos:
        extents = {v: 1 if v in outside else bound for v, bound in info.bounds.items()}
        extents[plan.variables[info.name]] = plan.tiles[info.name].length
        for tensor in info.accesses.keys() & plan.windows.keys():
            size = footprint(info.accesses[tensor], extents) * per_value[info.name, tensor]
            bits[tensor] = max(bits.get(tensor, 0.0), size)
    return bits
