"""In which orders Einsums may run, and how the fused parts of their nests can follow one another: what they must agree on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fusiest.spec import EinsumInfo, Spec


@dataclass(frozen=True, slots=True)
class ExchangeShape:
    """What neighbours must agree on. Loops are told by iterations, tile and place; variables are the Einsum's own."""

    variables: tuple[str, ...]
    loops: tuple[tuple[int, int, object], ...]
    backings: tuple[tuple[str, str, int], ...]
    """(tensor, memory, loops above it) of every shared tensor."""


def einsum_orders(spec: Spec) -> Iterator[tuple[str, ...]]:
    """Every order in which no Einsum reads a tensor before it is written."""
    infos = spec.info.einsums

    def extend(order: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if len(order) == len(infos):
            yield order
        for name in infos:
            inputs = (t for t, access in infos[name].accesses.items() if not access.output)
            sources = (source for t in inputs for source in spec.info.producers.get(t, ()))
            if name not in order and all(source in order for source in sources):
                yield from extend((*order, name))

    yield from extend(())


def index_of(info: EinsumInfo, tensor: str, variable: str) -> str | None:
    """The index of a tensor's rank in which a variable stands alone, as text.

    >>> from fusiest import load
    >>> index_of(load("matmuls", N_EINSUMS=1).info.einsums["Matmul0"], "T0", "m")
    'M: 1 v + 0'
    """
    for rank, affine in info.accesses[tensor].ranks.items():
        if affine.variables == (variable,):
            return f"{rank}: {affine.coefficients[variable]} v + {affine.constant}"
    return None


Exchange = tuple[str, str, tuple[str | None, ...]]
"""Of a live tensor: its name, its memory, and what each loop above it steps, element by element."""


@dataclass(frozen=True, slots=True)
class Open:
    """Where the next Einsum would run: common loops, and the tensors that are exchanged with those before."""

    loops: tuple[tuple[int, int, object], ...] = ()
    live: tuple[Exchange, ...] = ()


class ShapeChains:
    """All ways to put compatible shapes in a row, in one order of the Einsums."""

    def __init__(self, spec: Spec, order: Sequence[str], shapes: Mapping[str, Iterable[ExchangeShape]]) -> None:
        self.order = order
        self.infos = [spec.info.einsums[name] for name in order]
        self.shapes = [list(shapes[name]) for name in order]
        self.last = {t: max(order.index(u) for u in users) for t, users in spec.info.users.items()}
        self.first = {t: min(order.index(u) for u in users) for t, users in spec.info.users.items()}
        self.indexes: dict[tuple[int, int], dict[object, list[ExchangeShape]]] = {}

    def all(self) -> Iterator[tuple[tuple[ExchangeShape, ...], tuple[int, ...]]]:
        """One shape per Einsum, and how many loops each has in common with the next."""
        yield from self._extend((), (), Open())

    def _extend(
        self, chosen: tuple[ExchangeShape, ...], common: tuple[int, ...], before: Open
    ) -> Iterator[tuple[tuple[ExchangeShape, ...], tuple[int, ...]]]:
        at = len(chosen)
        if at == len(self.order):
            yield chosen, common[1:]
            return
        exchanged = tuple(e for e in before.live if e[0] in self.infos[at].accesses)
        for shape in self._index(at, len(before.loops)).get((exchanged, before.loops), []):
            after = self._after(at, shape, before)
            yield from self._extend((*chosen, shape), (*common, len(before.loops)), after)

    def _index(self, at: int, depth: int) -> dict[object, list[ExchangeShape]]:
        """Shapes by what they say of tensors that were used before, and by their first loops."""
        if (at, depth) not in self.indexes:
            index: dict[object, list[ExchangeShape]] = {}
            for shape in self.shapes[at]:
                if len(shape.loops) >= depth:
                    old = tuple(e for e in self._exchanges(at, shape) if self.first[e[0]] < at)
                    index.setdefault((old, shape.loops[:depth]), []).append(shape)
            self.indexes[at, depth] = index
        return self.indexes[at, depth]

    def _exchanges(self, at: int, shape: ExchangeShape) -> tuple[Exchange, ...]:
        info = self.infos[at]
        return tuple(
            (tensor, memory, tuple(index_of(info, tensor, v) for v in shape.variables[:above]))
            for tensor, memory, above in shape.backings
        )

    def _after(self, at: int, shape: ExchangeShape, before: Open) -> Open:
        """Drop tensors that nobody uses any more, and the loops that then have no live tensor below."""
        live = {e[0]: e for e in (*before.live, *self._exchanges(at, shape)) if self.last[e[0]] > at}
        depth = max((len(ranks) for _, _, ranks in live.values()), default=0)
        return Open(shape.loops[:depth], tuple(live[t] for t in sorted(live)))
