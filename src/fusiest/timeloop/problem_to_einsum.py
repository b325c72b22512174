"""Timeloop's problem as one Einsum: dimensions become rank variables, projections affine indices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fusiest.base.errors import SpecError, check_known, did_you_mean, shown
from fusiest.spec import NAME, RESERVED
from fusiest.timeloop.sections import FileTable, list_of, name_in, names_of, table_of, tables_in, whole_of

_CNN: dict[str, list[list[tuple[str, str]]]] = {
    "Weights": [[("C", "")], [("K", "")], [("R", "")], [("S", "")]],
    "Inputs": [
        [("N", "")],
        [("C", "")],
        [("R", "Wdilation"), ("P", "Wstride")],
        [("S", "Hdilation"), ("Q", "Hstride")],
    ],
    "Outputs": [[("N", "")], [("K", "")], [("Q", "")], [("P", "")]],
}
"""The shape `cnn-layer`, which Timeloop knows by name."""
CNN_DIMENSIONS = ("R", "S", "P", "Q", "C", "K", "N")


@dataclass(frozen=True, slots=True)
class DataSpace:
    """A tensor: its name in Timeloop and here, and per rank the coefficient of each dimension; dimensions of size 1 are left out."""

    timeloop_name: str
    name: str
    ranks: tuple[dict[str, int], ...]
    is_output: bool

    @property
    def dimensions(self) -> frozenset[str]:
        """All that index it."""
        return frozenset(dimension for rank in self.ranks for dimension in rank)

    @property
    def alone(self) -> frozenset[str]:
        """Dimensions that are alone in their rank."""
        return frozenset(dimension for rank in self.ranks if len(rank) == 1 for dimension in rank)

    def size(self, extents: dict[str, int]) -> int:
        """Values of a tile with these extents."""
        return math.prod(1 + sum(abs(a) * (extents[d] - 1) for d, a in rank.items()) for rank in self.ranks)


@dataclass(frozen=True, slots=True)
class TimeloopProblem:
    """Dimensions with their sizes in Timeloop's order, the rank variable of each, and the data spaces."""

    name: str
    sizes: dict[str, int]
    variables: dict[str, str]
    spaces: tuple[DataSpace, ...]
    unit_dimensions: tuple[str, ...] = ()
    """Dimensions of size 1, which are left out."""

    @property
    def output(self) -> DataSpace:
        """The one that is written."""
        return next(space for space in self.spaces if space.is_output)

    def space(self, name: str, at: Any) -> DataSpace:
        """By Timeloop's name."""
        for space in self.spaces:
            if space.timeloop_name == name:
                return space
        raise SpecError(
            f"there is no data space '{shown(name)}'{did_you_mean(name, [s.timeloop_name for s in self.spaces])}", at
        )


def read_problem(section: Any) -> TimeloopProblem:
    """The section `problem`."""
    problem = table_of(section, "problem")
    own_sizes = () if "instance" in problem else tuple(problem)  # sizes may stand in the problem itself
    problem.only("problem", "version", "shape", "instance", "name", "dnn_name", "notes", *own_sizes)
    shape, name = problem.get("shape"), "Problem"
    if isinstance(shape, FileTable):
        shape.only("problem.shape", "name", "dimensions", "data_spaces", "coefficients", "version")
        name = str(shape.get("name") or name)
        dimensions = names_of(shape.get("dimensions"), "dimensions", shape.source)
    elif shape in (None, "cnn-layer", "cnn_layer"):
        dimensions, name = list(CNN_DIMENSIONS), "cnn_layer"
    else:
        raise SpecError(
            f"problem.shape '{shown(shape)}' is not supported: give its dimensions and data spaces", problem.source
        )
    instance = table_of(problem.get("instance", problem), "problem.instance", problem.source)
    for key in ("densities", "commonDensity"):
        if instance.get(key) not in (None, {}, [], 1, 1.0):
            raise SpecError(f"problem.instance: {key} are not supported: tensors are dense", instance.source)
    sizes = {d: whole_of(instance.get(d), f"the size of {d}", instance, instance.source) for d in dimensions}
    if not sizes:
        raise SpecError("the problem has no dimensions", problem.source)
    if isinstance(shape, FileTable):
        spaces = _spaces(shape, sizes, instance)
    else:
        spaces = [(name, _ranks(ranks, sizes, {}, instance), name == "Outputs") for name, ranks in _CNN.items()]
    return _named(name, sizes, spaces, problem)


def _spaces(
    shape: FileTable, sizes: dict[str, int], instance: FileTable
) -> list[tuple[str, list[dict[str, int]], bool]]:
    defaults = {
        name_in(entry, "name", "a coefficient"): entry.get("default", 1)
        for entry in tables_in(shape.get("coefficients") or [], "coefficients", shape.source)
    }
    spaces = []
    for entry in tables_in(shape.get("data_spaces"), "data_spaces", shape.source):
        name = name_in(entry, "name", "a data space")
        entry.only(f"data space {name}", "name", "projection", "read_write")
        terms = [
            [_term(term, name, entry) for term in list_of(rank, f"a rank of {name}", entry.source)]
            for rank in list_of(entry.get("projection"), f"the projection of {name}", entry.source)
        ]
        spaces.append((str(name), _ranks(terms, sizes, defaults, instance), bool(entry.get("read_write", False))))
    return spaces


def _term(term: Any, space: str, entry: FileTable) -> tuple[str, Any]:
    """`[R]`, or `[R, Wdilation]`."""
    pair = term if isinstance(term, list) else [term]
    if not 1 <= len(pair) <= 2 or not isinstance(pair[0], str):
        raise SpecError(
            f"the projection of {space} must be lists of [dimension] or [dimension, coefficient]", entry.source
        )
    return pair[0], pair[1] if len(pair) == 2 else ""


def _ranks(terms: Any, sizes: dict[str, int], defaults: dict[Any, Any], instance: FileTable) -> list[dict[str, int]]:
    """Per rank, dimension -> coefficient."""
    ranks = []
    for rank in terms:
        index: dict[str, int] = {}
        for dimension, coefficient in rank:
            check_known(dimension, sizes, f"there is no dimension '{shown(dimension)}'", dimension)
            value = coefficient
            if isinstance(coefficient, str):
                value = instance.get(coefficient, defaults.get(coefficient, 1)) if coefficient else 1
            if isinstance(value, bool) or not isinstance(value, int) or value == 0:
                raise SpecError(
                    f"the coefficient of {dimension} must be a whole number, but is '{shown(value)}'", instance.source
                )
            index[dimension] = index.get(dimension, 0) + value
        ranks.append(index)
    return ranks


def _named(
    name: str, sizes: dict[str, int], spaces: list[tuple[str, list[dict[str, int]], bool]], problem: FileTable
) -> TimeloopProblem:
    outputs = [space for space, _, is_output in spaces if is_output]
    if len(outputs) != 1:
        raise SpecError(
            f"the problem must have one data space that is read_write, but has {len(outputs)}", problem.source
        )
    dimensions = {d for d in sizes if sizes[d] > 1}
    named: list[DataSpace] = []
    for space, ranks, is_output in spaces:
        reduced = [{d: a for d, a in rank.items() if d in dimensions} for rank in ranks]
        reduced = [rank for rank in reduced if rank]
        if not reduced:  # a tensor of one value keeps a rank
            reduced = [dict(list(ranks[0].items())[:1])] if ranks else []
            dimensions |= {d for rank in reduced for d in rank}
        named.append(DataSpace(space, _tensor_name(space, [s for s, _, _ in spaces]), tuple(reduced), is_output))
    used = {d: sizes[d] for d in sizes if any(d in s.dimensions for s in named)}
    for d, size in sizes.items():
        if size > 1 and d not in used:
            raise SpecError(f"dimension {d} indexes no data space", problem.source)
    lower = [d.lower() for d in used]
    variables = {d: d.lower() if lower.count(d.lower()) == 1 and d.lower() not in RESERVED else f"{d}_" for d in used}
    for text in [*variables.values(), *(space.name for space in named)]:
        if not NAME.match(text):
            raise SpecError(f"'{shown(text)}' cannot be a name: only letters, digits and underscores", problem.source)
    word = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
    einsum = word if NAME.match(word) and word not in RESERVED else "Problem"
    return TimeloopProblem(einsum, used, variables, tuple(named), tuple(d for d in sizes if d not in used))


def _tensor_name(name: str, names: list[str]) -> str:
    """Timeloop's name, unless it is a word of the language, as `Inputs` is."""
    if name not in RESERVED:
        return name
    shorter = name.removesuffix("s")
    return shorter if shorter not in RESERVED and shorter not in names else f"{name}_"
