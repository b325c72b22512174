"""A LoopTree as loop-nest pseudocode: what moves where, when, and what is computed in the middle.

Loops over one variable are numbered down to 0 at the innermost: m1, m0. `T0[m1, :]` is the tile of T0 that
indices m1 select, with `:` for ranks that no loop above cuts and `m2.m1` for a tile of a tile.
The order is the written one. Which spatial loops a memory sits above is the architecture's business, not known here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from fusiest.base.errors import SpecError
from fusiest.base.frozen import FrozenDict
from fusiest.looptree.nodes import (
    Compute,
    Loop,
    LoopTree,
    Node,
    Sequential,
    Spatial,
    Storage,
    Temporal,
    Tiling,
    Toll,
    tiling_in,
    variable_in,
)
from fusiest.looptree.text import BoundsByEinsum, einsums, first_user, place_words, rank_words, tile_words


@dataclass(frozen=True, slots=True)
class EinsumText:
    """An Einsum's accesses as text: `T1[m, n1]` and (`T0[m, n0]`, `W0[n0, n1]`), and what it computes."""

    output: str
    inputs: tuple[str, ...]
    operation: str = "matmul"
    formula: str | None = None
    """The right side, where the operation does not say it: `exp(A[m] - B[m])`."""

    @property
    def right_side(self) -> str:
        """What is written to the output.

        >>> EinsumText("Z[m]", ("A[m]", "B[m]"), "add").right_side, EinsumText("Z[m]", ("A[m]",), "exp").right_side
        ('A[m] + B[m]', 'exp(A[m])')
        """
        if self.formula is not None:
            return self.formula
        if self.operation in _PLAIN and len(self.inputs) == 1:
            return self.inputs[0]
        if self.operation in _SYMBOLS and len(self.inputs) > 1:
            return f" {_SYMBOLS[self.operation]} ".join(self.inputs)
        return f"{self.operation}({', '.join(self.inputs)})"

    def step(self, reduced: Sequence[str]) -> tuple[str, str]:
        """What one iteration does, with its comment, where loops over these variables reduce.

        >>> EinsumText("Z[m]", ("A[m, k]",), "max").step("k"), EinsumText("Z[m]", ("A[m, k]",), "exp").step("k")
        (('Z[m] = max(Z[m], A[m, k])', ''), ('Z[m] += exp(A[m, k])', ''))
        >>> EinsumText("Z[m]", ("A[m, k]", "B[k]"), "matmul", "relu(A[m, k] * B[k])").step("k")
        ('Z[m] = relu(A[m, k] * B[k])', ', reduced over k')
        """
        right = self.right_side
        if not reduced:
            return f"{self.output} = {right}", ""
        fold = f"{self.operation}("
        if self.operation in _FOLDS and right.startswith(fold):
            return f"{self.output} = {fold}{self.output}, {right.removeprefix(fold)}", ""
        if (self.operation == "matmul" and "(" in right) or set(_FOLDS).intersection(_WORD.findall(right)):
            return f"{self.output} = {right}", f", reduced over {', '.join(reduced)}"
        return f"{self.output} += {right}", ""


_FOLDS = ("max", "min", "mean", "maximum", "minimum", "max_pool", "average_pool", "prod", "all", "any")
"""Functions that reduce: of what they have so far, and of one more value."""
_PLAIN = ("copy", "unary", "sum", "matmul")
_SYMBOLS = {"matmul": "*", "multiply": "*", "add": "+", "subtract": "-", "divide": "/"}


AccessTexts: TypeAlias = Mapping[str, EinsumText]


@dataclass(frozen=True, slots=True)
class _LoopScope:
    """What holds at a place in the tree: the loops above with their numbers, and where each tensor is.

    A loop without a number is its Einsums' only one over the variable; its index is the variable itself.
    """

    bounds: BoundsByEinsum
    accesses: AccessTexts
    separators: Mapping[str, str]
    above: tuple[tuple[Loop, int | None], ...] = ()
    held: Mapping[str, str] = FrozenDict()

    def index(self, variable: str, number: int | None) -> str:
        return variable if number is None else f"{variable}{self.separators[variable]}{number}"

    def indices(self, einsum: str, variable: str) -> Iterator[tuple[str, Tiling]]:
        """The loops above that step the Einsum's variable: each one's index and tiles."""
        for loop, number in self.above:
            tiling = tiling_in(loop, einsum)
            if variable_in(loop, einsum) == variable and tiling is not None:
                yield self.index(variable, number), tiling


def pseudocode(tree: LoopTree, bounds: BoundsByEinsum, accesses: AccessTexts | None = None) -> str:
    """The mapping as a loop nest. Without accesses, the direction in which a tensor moves is not shown.

    >>> nest = (Temporal(rank_variable="m", tile_shape=2), Temporal(rank_variable="m", tile_shape=1))
    >>> tree = LoopTree(nodes=(*nest, Compute(einsum="Z", component="MAC")))
    >>> print(pseudocode(tree, {"Z": {"m": 8}}, {"Z": EinsumText("Z[m]", ("A[m]", "B[m]"))}))
    for m1 in 0..4:  # tiles of 2
      for m0 in 0..2:
        m = 2*m1 + m0
        Z[m] = A[m] * B[m]  # on MAC
    """
    names = {v for path in tree.paths() for n in path if isinstance(n, Temporal | Spatial) for v in _names(n)}
    separators = {name: _separator(name, names.union(*bounds.values())) for name in names}
    return "\n".join(_lines(tree.nodes, _LoopScope(bounds, accesses or {}, separators), list(_leaves(tree))))


def _separator(variable: str, others: set[str]) -> str:
    """What stands between a variable and a number, so that no index reads like another variable.

    >>> _separator("m", {"m", "n1"}), _separator("n1", {"m", "n1"}), _separator("n", {"n", "n1"})
    ('', '_', '_')
    """
    separator = "_" if variable[-1:].isdigit() else ""
    while any(re.fullmatch(re.escape(variable + separator) + r"\d+", other) for other in others):
        separator += "_"
    return separator


def _names(loop: Loop) -> tuple[str, ...]:
    return (loop.rank_variable,) if isinstance(loop.rank_variable, str) else tuple(loop.rank_variable.values())


@dataclass(frozen=True, slots=True)
class _Leaf:
    """An Einsum's compute: its loops by variable, and how many of them are still to come on the way down to it."""

    einsum: str
    loops: Counter[str]
    below: Counter[str]


def _leaves(tree: LoopTree) -> Iterator[_Leaf]:
    for path in tree.paths():
        for einsum in einsums(path):
            loops = (variable_in(node, einsum) for node in path if isinstance(node, Temporal | Spatial))
            counts = Counter(variable for variable in loops if variable is not None)
            yield _Leaf(einsum, counts, counts.copy())


def _lines(nodes: tuple[Node, ...], scope: _LoopScope, leaves: list[_Leaf]) -> list[str]:
    """Every loop is passed once, from the root down; `leaves` are those under the nodes."""
    users = tuple(leaf.einsum for leaf in leaves)
    lines: list[str] = []
    ends: list[str] = []
    pad = ""
    for node in nodes:
        match node:
            case Sequential():
                lines += [pad + line for line in _branches(node, scope, leaves)]
                break
            case Compute():
                lines += [pad + line for line in _compute(node, scope)]
                break
            case Temporal() | Spatial():
                number = _number(node, leaves)
                lines.append(pad + _loop(node, number, users, scope))
                scope = replace(scope, above=(*scope.above, (node, number)))
                pad += "  "
            case Storage():
                before, after = _moves(node, users, scope)
                before += _kept_windows(node, nodes, users, scope)
                lines += [pad + line for line in before]
                ends = [pad + line for line in after] + ends
                scope = replace(scope, held={**scope.held, **dict.fromkeys(node.tensors, node.component)})
            case Toll():
                lines.append(f"{pad}# {', '.join(node.tensors)} through {node.component}")
    return lines + ends


def _branches(split: Sequential, scope: _LoopScope, leaves: list[_Leaf]) -> Iterator[str]:
    begin = 0
    for branch in split.nodes:
        names = einsums(branch.nodes)
        yield f"# Einsum{'s' if len(names) > 1 else ''} {', '.join(names)}"
        yield from _lines(branch.nodes, scope, leaves[begin : begin + len(names)])
        begin += len(names)


def _number(loop: Loop, leaves: list[_Leaf]) -> int | None:
    """The loop's number; none if its Einsums have no other loop over the variable.

    Where branches below differ, the longest one counts, so that a shared index is larger than all below it.
    """
    number, alone = 0, True
    for leaf in leaves:
        variable = variable_in(loop, leaf.einsum)
        if variable is not None:
            leaf.below[variable] -= 1
            number = max(number, leaf.below[variable])
            alone = alone and leaf.loops[variable] == 1
    return None if alone else number


def _loop(loop: Loop, number: int | None, users: tuple[str, ...], scope: _LoopScope) -> str:
    user = first_user(loop, users, scope.bounds)
    if user is None:
        raise SpecError(f"no Einsum under the loop over {rank_words(loop)} has a bound for it", _names(loop)[0])
    extent, tiling = _extent(*user, scope), tiling_in(loop, user[0])
    assert tiling is not None
    if isinstance(extent, int):
        count = str(tiling.last(extent, None) + 1)
    else:
        count = extent if tiling.tile == 1 else f"ceil({extent} / {tiling.tile})"
    keyword = "parallel-for" if isinstance(loop, Spatial) else "for"
    words = tile_words(loop, users).removeprefix("tile ")
    comment = f"  # tiles of {words}" if words != "1" else ""
    index = rank_words(loop, lambda variable: scope.index(variable, number))
    return f"{keyword} {index} in 0..{count}{place_words(loop)}:{comment}"


def _extent(einsum: str, variable: str, scope: _LoopScope) -> int | str:
    """The variable's extent here: a number, or an expression where the last tile may be smaller."""
    extent: int | str = scope.bounds[einsum][variable]
    for index, tiling in scope.indices(einsum, variable):
        tile = tiling.tile
        if tiling.windowed:
            extent = f"(min({extent}, {_times(tiling.step, index)} + {tiling.first}) - {_start(index, tiling)})"
        elif tile == 1 or (isinstance(extent, int) and extent % tile == 0):
            extent = tile
        else:
            extent = f"min({tile}, {extent} - {tile}*{index})"
    return extent


def _start(index: str, tiling: Tiling) -> str:
    """Where the tile begins.

    >>> [_start("h1", Tiling(*sizes)) for sizes in ((4, 2, 2), (4, 4, 2), (3, 4, 2))]
    ['(h1 and 2*h1 + 2)', '2*h1', 'max(0, 2*h1 - 1)']
    """
    before = tiling.first - tiling.tile
    start = _times(tiling.step, index)
    if before > 0:
        return f"({index} and {start} + {before})"
    return f"max(0, {start} - {-before})" if before else start


def _times(step: int, index: str) -> str:
    return index if step == 1 else f"{step}*{index}"


def _moves(node: Storage, users: tuple[str, ...], scope: _LoopScope) -> tuple[list[str], list[str]]:
    """What is said where the holder stands, and what is drained when everything under it has run."""
    before: list[str] = []
    after: list[str] = []
    backed = [_tile(tensor, users, scope) for tensor in node.tensors if tensor not in scope.held]
    if backed:
        before.append(f"# {node.component} holds {', '.join(backed)}{' (persistent)' if node.persistent else ''}")
    for tensor in node.tensors:
        if tensor not in scope.held:
            continue
        parent = scope.held[tensor]
        roles = list(_roles(tensor, users, scope))
        if not roles:
            before.append(f"# {node.component} holds {tensor}, exchanged with {parent}")
            continue
        tile = _tile(tensor, users, scope)
        fetch = f"fetch {tile} from {parent} into {node.component}"
        written_first, revisited = roles[0][2], _revisited(roles[0], scope)
        if not written_first:
            before.append(fetch)
        elif revisited:
            before.append(f"if {revisited}: {fetch}  # partial sums")
        if any(output for _, _, output in roles):
            after.append(f"drain {tile} from {node.component} into {parent}")
    return before, after


def _kept_windows(node: Storage, nodes: tuple[Node, ...], users: tuple[str, ...], scope: _LoopScope) -> Iterator[str]:
    """How tensors are addressed that are made in windows below the holder that backs them: round and round."""
    below = nodes[[node is other for other in nodes].index(True) :]
    for tensor in node.tensors:
        roles = [] if tensor in scope.held else list(_roles(tensor, users, scope))
        for maker, access in ((einsum, access) for einsum, access, output in roles if output):
            loop = next((n for n in below if isinstance(n, Temporal)), None)
            tiling = tiling_in(loop, maker) if loop is not None else None
            if loop is None or tiling is None or not tiling.windowed or tiling.step != tiling.tile:
                continue
            ranks = _ranks(access)
            stepped = [i for i, rank in enumerate(ranks) if variable_in(loop, maker) in _WORD.findall(rank)]
            lengths = [_length(_ranks(a)[i], loop, einsum, scope) for einsum, a, _ in roles for i in stepped]
            for i in stepped:
                ranks[i] = f"({ranks[i]}) mod {max(lengths)}" if len(ranks[i]) > 1 else f"{ranks[i]} mod {max(lengths)}"
                yield f"# of it, a window that moves along: {tensor}[{', '.join(ranks)}]"


def _length(rank: str, loop: Temporal, einsum: str, scope: _LoopScope) -> int:
    """How many positions of a rank an Einsum touches in one iteration of a loop below."""
    length = 1
    for coefficient, variable in re.findall(r"(?:(\d+)\s*\*\s*)?([^\W\d]\w*)", rank.rpartition(":")[2]):
        extent, tiling = scope.bounds[einsum][variable], tiling_in(loop, einsum)
        if variable_in(loop, einsum) == variable and tiling is not None:
            extent = max(tiling.lengths(extent, None))
        length += int(coefficient or 1) * (extent - 1)
    return length


_AccessRole: TypeAlias = tuple[str, str, bool]
"""An Einsum, its access to some tensor, and whether it writes there."""


def _roles(tensor: str, users: tuple[str, ...], scope: _LoopScope) -> Iterator[_AccessRole]:
    for einsum in users:
        if einsum in scope.accesses:
            accesses = scope.accesses[einsum]
            for access, output in [(accesses.output, True), *((access, False) for access in accesses.inputs)]:
                if _tensor(access) == tensor:
                    yield einsum, access, output


def _revisited(role: _AccessRole, scope: _LoopScope) -> str:
    """The condition under which an output tile has been here before: some loop above reduces, and has gone round."""
    einsum, access, _ = role
    reduced = [v for v in scope.bounds.get(einsum, {}) if v not in _variables(access)]
    loops = [(loop, number) for loop, number in scope.above if isinstance(loop, Temporal)]
    return " or ".join(
        f"{scope.index(v, n)} > 0" for loop, n in loops for v in reduced if variable_in(loop, einsum) == v
    )


def _tile(tensor: str, users: tuple[str, ...], scope: _LoopScope) -> str:
    """`T0[m1, :]`, or the bare name if it is all of the tensor or its access is not known."""
    for einsum, access, _ in _roles(tensor, users, scope):
        ranks = [_cut(rank, einsum, scope) for rank in _ranks(access)]
        return f"{tensor}[{', '.join(ranks)}]" if any(rank != ":" for rank in ranks) else tensor
    return tensor


def _cut(rank: str, einsum: str, scope: _LoopScope) -> str:
    def indices(variable: re.Match[str]) -> str:
        return ".".join(index for index, _ in scope.indices(einsum, variable[0])) or ":"

    return _WORD.sub(indices, rank) if any(any(scope.indices(einsum, v)) for v in _WORD.findall(rank)) else ":"


_WORD = re.compile(r"[^\W\d]\w*")


def _tensor(access: str) -> str:
    return access.partition("[")[0].strip()


def _ranks(access: str) -> list[str]:
    return [rank.strip() for rank in access.partition("[")[2].rstrip("] ").split(",")]


def _variables(access: str) -> set[str]:
    return set(_WORD.findall(access.partition("[")[2]))


def _compute(node: Compute, scope: _LoopScope) -> list[str]:
    if node.einsum not in scope.accesses:
        return [f"compute {node.einsum} on {node.component}"]
    bounds, access = scope.bounds.get(node.einsum, {}), scope.accesses[node.einsum]
    lines = []
    for v in bounds:
        terms = [_start(index, tiling) for index, tiling in scope.indices(node.einsum, v)]
        if terms != [v]:
            lines.append(f"{v} = {' + '.join(terms) or '0'}")
    step, remark = access.step([v for v, bound in bounds.items() if bound > 1 and v not in _variables(access.output)])
    return [*lines, f"{step}  # on {node.component}{remark}"]
