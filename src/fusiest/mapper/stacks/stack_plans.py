"""Stacks of layers that run depth-first: their rows and columns, the tiles to try, and the windows that follow.

Windows follow from a tile of the last layer in all layers before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fusiest.mapper.windows.window_plans import WindowPlan, window_plan
from fusiest.spec import DepthFirst, EinsumInfo, Spec

MOST_TILES = 8
"""Most tile sizes to try for a rank; of more divisors, some that are evenly spread."""
ImageVariables = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class StackLoop:
    """A loop over tiles of rows, or of columns, that all layers of a stack share."""

    plan: WindowPlan
    retained: bool


@dataclass(frozen=True)
class StackPlan:
    """The loops of a stack, outermost first, and where its feature maps are held among them."""

    einsums: tuple[str, ...]
    loops: tuple[StackLoop, ...]
    above: Mapping[str, int]
    """By feature map, the loop that it is held right above; the number of loops, if below all of them."""

    def inside(self, spec: Spec) -> set[str]:
        """Feature maps that the stack makes for itself."""
        return {spec.info.einsums[name].output for name in self.einsums[:-1]}

    def extents(self, einsum: str) -> dict[str, int]:
        """Extents that an Einsum makes in one iteration of all loops, but for shorter or longer ones at the borders."""
        return {loop.plan.variables[einsum]: loop.plan.tiles[einsum].length for loop in self.loops}


def image_variables(spec: Spec) -> ImageVariables:
    """By Einsum, the variables of its result that step rows, columns and so on, in the order of the result's ranks.

    These read a rank together with another variable (`p + r`), or step the same rank of the same tensor as such a
    variable.
    """
    marked = {
        (tensor, rank)
        for info in spec.info.einsums.values()
        for tensor, access in info.accesses.items()
        for rank, affine in access.ranks.items()
        if len(affine.variables) > 1 and any(v in _results(info) for v in affine.variables)
    }
    variables: dict[str, set[str]] = {name: set() for name in spec.info.einsums}
    while True:
        before = len(marked)
        for name, info in spec.info.einsums.items():
            ranks = [(t, r, affine) for t, access in info.accesses.items() for r, affine in access.ranks.items()]
            variables[name] |= {v for t, r, a in ranks if (t, r) in marked for v in a.variables if v in _results(info)}
            marked |= {(t, r) for t, r, a in ranks if variables[name] & set(a.variables)}
        if len(marked) == before:
            return {
                name: tuple(v for v in _results(spec.info.einsums[name]) if v in images)
                for name, images in variables.items()
            }


def _results(info: EinsumInfo) -> list[str]:
    """Variables that each step a rank of the result alone."""
    access = info.accesses[info.output]
    return [v for affine in access.ranks.values() for v in affine.variables if v in access.fully_relevant]


def features(spec: Spec, images: ImageVariables, einsum: str) -> tuple[str, ...]:
    """The feature maps that an Einsum reads and makes: its tensors with rows or columns. All others are weights."""
    accesses = spec.info.einsums[einsum].accesses
    variables = set(images[einsum])
    return tuple(
        t for t, access in accesses.items() if any(variables & set(a.variables) for a in access.ranks.values())
    )


def plans_of_stack(spec: Spec, run: Sequence[str], flow: DepthFirst, images: ImageVariables) -> Iterator[StackPlan]:
    """A plan for every size of tiles.

    Loops whose overlap is recomputed stand outside of those whose overlap is retained.
    """
    if not all(images[name] for name in run):
        return
    axes: list[list[StackLoop | None]] = []
    for index, variable in enumerate(images[run[-1]]):
        retained = (flow.columns if index else flow.rows) == "retained"
        axes.append(list(_loops(spec, run, variable, retained)))
    for chosen in itertools.product(*axes):
        loops = tuple(sorted((loop for loop in chosen if loop is not None), key=lambda loop: loop.retained))
        places = {t: len(loops) for name in run for t in features(spec, images, name)}
        for index, loop in reversed(list(enumerate(loops))):
            if loop.retained:
                places |= {t: index for t in places if _overlaps(spec, run, loop.plan, t)}
        yield StackPlan(tuple(run), loops, places)


def _loops(spec: Spec, run: Sequence[str], variable: str, retained: bool) -> Iterator[StackLoop | None]:
    """A loop for every size of tiles that divides and is tried; none for the whole image at once."""
    bound = spec.info.einsums[run[-1]].bounds[variable]
    inner = frozenset(spec.info.einsums[name].output for name in run[:-1]) if retained else frozenset[str]()
    for tile in spread([t for t in range(1, bound + 1) if bound % t == 0], MOST_TILES):
        plan = window_plan(spec, run, variable, tile, inner) if tile < bound else None
        if plan is not None or tile == bound:
            yield StackLoop(plan, retained) if plan is not None else None


def spread(values: Sequence[int], most: int) -> list[int]:
    """Choose values that are evenly spread, with the first and the last.

    >>> spread([1, 2, 4, 7, 8, 14, 28], 4), spread([1, 3], 4)
    ([1, 4, 8, 28], [1, 3])
    """
    if len(values) <= most:
        return list(values)
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def _overlaps(spec: Spec, run: Sequence[str], plan: WindowPlan, tensor: str) -> bool:
    """Whether tiles of a feature map overlap. For one from outside, whether those of a single user do."""
    if tensor in plan.windows:
        return tensor in plan.kept
    users = [spec.info.einsums[name] for name in run if tensor in spec.info.einsums[name].accesses]
    if len(users) > 1 or users[0].output == tensor:
        return False
    variable = plan.variables[users[0].name]
    ranks = users[0].accesses[tensor].ranks.values()
    for affine in (a for a in ranks if variable in a.variables):
        reach = sum(abs(b) * (users[0].bounds[v] - 1) for v, b in affine.coefficients.items() if v != variable)
        return reach + 1 > abs(affine.coefficients[variable])
    return False
