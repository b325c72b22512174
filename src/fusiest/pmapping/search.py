"""The search for one Einsum, one compute, one placement: from compute outwards, one holder at a time.

State: the holders placed, the last of them, and the tile shape there; value: a Pareto set of criteria. Between two
holders any variable may grow that `nest` allows; placing a holder then adds its cost, which depends
on the shape alone. All holder orders share their common inner nests, and nothing is evaluated twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from fusiest.interrupt import check
from fusiest.pmapping import kernels
from fusiest.pmapping.costs import ENERGY, WATTS, Columns, Costs, EdgeCost, finish, spatial_factors
from fusiest.pmapping.layers import Holder, Layer, Seed, all_ways, grow, union
from fusiest.pmapping.nest import Nest
from fusiest.pmapping.pareto import Floats, Ints, pareto_rows
from fusiest.pmapping.spatial import SpatialChoice

_FIRST_LOOK_CROSSINGS = 48


@dataclass
class Search:
    nest: Nest
    columns: Columns
    fixed: SpatialChoice
    crossings: tuple[SpatialChoice, ...]
    """Choices for the outermost fanout; each agrees with `fixed` on all others."""
    watts: tuple[float, ...]
    tracked: frozenset[int] | None = None
    """Memories whose bits stay a criterion to the end; by default all outside every fanout."""
    known: tuple[tuple[float, float], ...] = ()
    """Energy and latency of complete pmappings that others must beat. Only where no memory is tracked."""
    beam: int | None = None
    """Keep only this many rows per state: a quick first look, not exact."""
    layers: list[Layer] = field(default_factory=list)
    seeds: list[Seed] = field(default_factory=list)
    final: int | None = None

    def __post_init__(self) -> None:
        nest, p = self.nest, self.nest.problem
        self.problem, self.placement, self.shared = p, nest.placement, nest.shared
        self.chains, self.nested, self.on_top = nest.chains, nest.nested, nest.on_top
        self.costs = Costs(p, nest.placement, self.columns, self.fixed)
        self.top_bits = sum(
            p.footprints[i, -1] * p.path.components[0].bits_per_value[t.name]
            for i, t in enumerate(p.tensors)
            if self.chains[i][0] == 0 and t.name not in self.shared and not nest.persistent[i]
        )
        self.total = float(math.prod(v.bound for v in p.variables))
        self.skippable = [float(math.prod(p.variables[v].bound for v in t.relevant)) for t in p.tensors]
        self._increments: dict[Holder, Floats] = {}
        self._leasts: dict[Holder, Floats] = {}
        self.limits = self._limits()
        self.edges: dict[Holder, EdgeCost] = {}
        for t, chain in enumerate(self.chains):
            ends = [*chain, len(p.path.components) - 1]
            for parent, child in zip(ends, ends[1:], strict=False):
                self.edges[child, t] = self.costs.edge(t, child, parent)

    def __reduce__(self) -> tuple[object, ...]:
        """Travels between processes without its layers, which `run` makes again."""
        return Search, (
            self.nest, self.columns, self.fixed, self.crossings, self.watts, self.tracked, self.known, self.beam
        )  # fmt: skip

    def forget(self) -> None:
        """Free the layers; `run` makes the same ones again."""
        self.layers, self.seeds, self.final = [], [], None
        self._increments.clear()

    # --- the run ------------------------------------------------------------------------------------------------------

    def run(self, inner: dict[object, tuple[list[Layer], dict[Holder | None, int]]] | None = None) -> None:
        """Fill `layers`, `seeds` and, if the Einsum can be unfused here, `final`.

        `inner` keeps what is the same below the outermost fanout from one placement to the next.
        """
        count, at = len(self.problem.path.components), self.costs.outermost
        key = self._inner_key() if inner is not None and at < count else None
        if inner is not None and key in inner:
            layers, states = inner[key]
            self.layers = list(layers)
        else:
            states = {None: self._begin()}
            if at == count:
                states = self._settle_compute(states)
            states = self._levels(range(count - 1, at - 1, -1), states)
            if inner is not None and key is not None:
                inner[key] = list(self.layers), states
        self.final = self._finish(self._levels(range(min(at, count) - 1, 0, -1), states))

    def _levels(self, indices: range, states: dict[Holder | None, int]) -> dict[Holder | None, int]:
        """Place the holders of these components and cross their fanouts, from the inside out."""
        components = self.problem.path.components
        for index in indices:
            held = [i for i, chain in enumerate(self.nested) if index in chain]
            if components[index].kind == "memory" and held:
                states = self._level(index, held, states)
            if not components[index].dimensions:
                continue
            if index == self.costs.outermost:
                states = self._cross_outermost(states)
            else:
                states = self._cross_fixed(index, states)
        return states

    def _inner_key(self) -> object:
        """What the part inside the outermost fanout depends on."""
        at = self.costs.outermost
        chains = []
        for t, chain in zip(self.problem.tensors, self.chains, strict=True):
            outside = [k for k in chain if k < at]
            tolls = tuple(k for k in self.placement.tolls(t.name, self.problem.path) if k > outside[-1])
            chains.append((tuple(k for k in chain if k >= at), outside[-1], tolls))
        return tuple(chains), self.placement.sets[at:], self.fixed.factors, tuple(c.factors for c in self.crossings)

    def _add(self, layer: Layer) -> int:
        self.layers.append(layer)
        return len(self.layers) - 1

    def _begin(self) -> int:
        """At the compute: one operation, nothing placed."""
        criteria = np.zeros((1, self.columns.count))
        compute = self.problem.path.compute
        action = compute.actions["compute"]
        criteria[0, ENERGY] = self.total * action.actions_scale * action.energy
        units = math.prod(math.prod(self.fixed.total(k)) for k in self.costs.inner_levels)
        steps, at = self.total * action.actions_scale / units, len(self.problem.path.components) - 1
        for column, busy in enumerate(self.columns.busy, start=2):
            criteria[0, column] = busy.amount(at, "compute", steps, action.throughput)
        for t in range(len(self.problem.tensors)):
            criteria[0] += self.total * self.edges[len(self.problem.path.components) - 1, t].inside
        one = np.zeros(1, np.int64)
        return self._add(Layer("begin", None, one, criteria, one - 1, one, one - 1))

    def _settle_compute(self, states: dict[Holder | None, int]) -> dict[Holder | None, int]:
        """Without any fanout, the compute's traffic is paid at once."""
        layer = self.layers[states[None]]
        compute = len(self.problem.path.components) - 1
        layer.criteria[0, WATTS] = self.watts[0]
        for t in range(len(self.problem.tensors)):
            edge = self.edges[compute, t]
            layer.criteria[0] += self.total * edge.outside - self.skippable[t] * edge.skipped_outside
        return states

    # --- one memory ---------------------------------------------------------------------------------------------------

    def _level(self, index: int, held: list[int], states: dict[Holder | None, int]) -> dict[Holder | None, int]:
        """Place all holders of one memory, in every order."""
        options = self.nest.order_options(index)
        frontier: dict[tuple[frozenset[int], Holder | None, frozenset[int]], int] = {
            (frozenset(), last, options): s for last, s in states.items()
        }
        for _ in held:
            reached: dict[tuple[frozenset[int], Holder | None, frozenset[int]], list[Layer]] = {}
            for (placed, last, options), state in frontier.items():
                for t in held:
                    left = self.nest.options_left(index, options, placed, t) if t not in placed else None
                    if not left:
                        continue
                    layers = list(self._place(index, t, placed, last, state, held))
                    if self.nest.is_backing(index, t) and self.problem.tensors[t].name in self.shared:
                        self._seed(index, t, placed, held, layers, left)
                    else:
                        done = len(placed) + 1 == len(held)
                        after = placed | {t}, (index, t), frozenset[int]() if done else left
                        reached.setdefault(after, []).extend(layers)
            frontier = {}
            for key, layers in reached.items():
                merged = self._worthwhile(all_ways(layers), index, key[0])
                if len(merged.shape):
                    frontier[key] = self._add(merged)
        return {last: self._close(index, state) for (_, last, _), state in frontier.items()}

    def _place(
        self, index: int, t: int, placed: frozenset[int], last: Holder | None, state: int, held: list[int]
    ) -> Iterator[Layer]:
        """All ways to grow the tile and then put tensor t in this memory."""
        tensor = self.problem.tensors[t]
        growing = self.nest.growing(index, t, placed, last)
        allowed = self.nest.allowed(index, t, len(placed) + 1 == len(held))
        backing = self.nest.is_backing(index, t)
        lowering = [] if backing else sorted(growing & tensor.partial)
        sinking = frozenset() if backing else growing & tensor.full
        increment = self._increment(index, t)
        if sinking:  # rule 1 is off here: the space sinks below these loops all the same
            reserved = self._reserved(index, t, state, growing - sinking, lowering, increment)
            increment = increment.copy()
            increment[:, self.columns.first_bits :] = 0
            yield self._grown(index, t, reserved, sinking, increment, allowed, self.nest.whole(index, t))
            return
        yield self._grown(index, t, state, growing - set(lowering), increment, allowed, self.nest.whole(index, t))
        for first in lowering:
            yield from self._grown_first(index, t, state, growing, first, increment, allowed)

    def _reserved(
        self, index: int, t: int, state: int, growing: frozenset[int], lowering: list[int], increment: Floats
    ) -> int:
        """Grow below the point where the holder's space is charged, and add that space only."""
        bits = np.zeros_like(increment)
        bits[:, self.columns.first_bits :] = increment[:, self.columns.first_bits :]
        anywhere = np.ones(self.problem.shapes, np.bool_)
        layers = [self._grown(index, t, state, growing - set(lowering), bits, anywhere)]
        for first in lowering:
            layers += self._grown_first(index, t, state, growing, first, bits, anywhere)
        merged = union(layers)
        return self._add(Layer("reserve", None, merged.shape, merged.criteria, merged.source, merged.row, merged.note))

    def _increment(self, index: int, t: int) -> Floats:
        """Per shape, what placing the holder adds to each criterion."""
        if (index, t) not in self._increments:
            self._increments[index, t] = self._make_increment(index, t)
        return self._increments[index, t]

    def _make_increment(self, index: int, t: int) -> Floats:
        p = self.problem
        increment = np.zeros((p.shapes, self.columns.count))
        inside = index >= self.costs.outermost
        if not self.nest.is_backing(index, t):
            edge = self.edges[index, t]
            increment += p.traffic[t][:, None] * edge.inside
            carried = self.columns.carried_column(t) if inside else None
            if inside and carried is not None and self._crosses(index, t):
                increment[:, carried] = p.traffic[t]
            else:
                increment += p.traffic[t][:, None] * edge.outside
            if not inside:
                skipped = p.footprints[t] * np.prod(
                    [p.variables[v].bound / p.extents[v] for v in p.tensors[t].relevant], axis=0
                )
                increment -= np.atleast_1d(skipped)[:, None] * edge.skipped_outside
        column = self.columns.bits_column(index)
        if column is not None:
            increment[:, column] = p.footprints[t] * p.path.components[index].bits_per_value[p.tensors[t].name]
        return increment

    def _crosses(self, index: int, t: int) -> bool:
        """Whether this holder's parent lies outside the outermost fanout."""
        outer = [k for k in self.chains[t] if k < index]
        return bool(outer) and index >= self.costs.outermost > outer[-1]

    def _limits(self) -> Floats:
        limits = np.full(self.columns.count, np.inf)
        for memory in self.columns.bits:
            column = self.columns.bits_column(memory)
            kept = self.nest.persistent_bits(memory, True) + self.nest.persistent_bits(memory, False)
            limits[column] = self.problem.path.components[memory].size - kept
        return limits

    def _grown(
        self,
        index: int,
        t: int,
        state: int,
        growing: frozenset[int],
        increment: Floats,
        allowed: np.ndarray,
        whole: frozenset[int] = frozenset(),
    ) -> Layer:
        check()
        start, rows = grow(self.problem, self.layers[state], growing, whole)
        shape, parent, criteria = kernels.place(
            start, rows, self.layers[state].criteria, increment, allowed, self.limits
        )
        return Layer("hold", (index, t), shape, criteria, np.full(len(shape), state), parent, np.full(len(shape), -1))

    def _grown_first(
        self,
        index: int,
        t: int,
        state: int,
        growing: frozenset[int],
        first: int,
        increment: Floats,
        allowed: np.ndarray,
    ) -> Iterator[Layer]:
        """A partially relevant loop stands right below the holder: its space is that of the tile below that loop."""
        check()
        p = self.problem
        start, rows = grow(p, self.layers[state], growing - {first})
        shape = np.repeat(np.arange(p.shapes), np.diff(start))
        variable, stride = p.variables[first], p.strides[first]
        column = self.columns.bits_column(index)
        bits = p.path.components[index].bits_per_value[p.tensors[t].name]
        for small in range(variable.radix):
            chosen = np.flatnonzero(p.digits[first][shape] == small)
            for large in range(small + 1, variable.radix):
                if variable.divisors[large] % variable.divisors[small] or not len(chosen):
                    continue
                grown = shape[chosen] + (large - small) * stride
                criteria = self.layers[state].criteria[rows[chosen]] + increment[grown]
                if column is not None:
                    extents = [p.extents[v][grown] for v in range(len(p.variables))]
                    extents[first] = p.extents[first][shape[chosen]]
                    criteria[:, column] += p.tensors[t].footprint(extents) * bits - increment[grown, column]
                ok = allowed[grown] & (criteria <= self.limits).all(axis=1)
                count = int(ok.sum())
                yield Layer(
                    "hold",
                    (index, t),
                    grown[ok],
                    criteria[ok],
                    np.full(count, state),
                    rows[chosen][ok],
                    np.full(count, first),
                )

    def _close(self, index: int, state: int) -> int:
        """A memory that no other Einsum's data can share is full or not: once it fits, its bits matter no more."""
        column = self.columns.bits_column(index)
        if column is None or index in self.shared_memories():
            return state
        layer = self.layers[state]
        criteria = layer.criteria.copy()
        criteria[:, column] = 0
        keep = pareto_rows(layer.shape, criteria)
        everything = np.full(len(keep), state)
        return self._add(
            Layer("close", None, layer.shape[keep], criteria[keep], everything, keep, np.full(len(keep), -1))
        )

    def shared_memories(self) -> frozenset[int]:
        """Memories whose bits stay a criterion to the end."""
        if self.tracked is not None:
            return self.tracked
        return frozenset(m for m in self.columns.bits if m < self.costs.outermost)

    # --- bounds -------------------------------------------------------------------------------------------------------

    def _worthwhile(self, layer: Layer, index: int, placed: frozenset[int]) -> Layer:
        """Drop rows that cannot beat a known pmapping even if all holders still to come cost their least."""
        if index >= self.costs.outermost or (not self.known and self.beam is None) or not len(layer.shape):
            return layer
        rest = np.zeros(self.columns.count)
        for t, chain in enumerate(self.nested):
            for k in chain:
                if k < index or (k == index and t not in placed):
                    rest += self._least(k, t)
        energy, latency = finish(self.problem, self.columns, layer.criteria + rest)
        keep = np.ones(len(energy), np.bool_)
        for e, seconds in self.known:
            keep &= (energy < e * (1 - 1e-9)) | (latency < seconds * (1 - 1e-9))
        if self.beam is not None and keep.sum() > self.beam:
            best = np.zeros(len(energy), np.bool_)
            for measure in (energy * latency, energy, latency):
                best[np.argsort(np.where(keep, measure, np.inf))[: self.beam // 3]] = True
            keep &= best
        rows = np.flatnonzero(keep)
        return Layer(
            layer.kind,
            layer.item,
            layer.shape[rows],
            layer.criteria[rows],
            layer.source[rows],
            layer.row[rows],
            layer.note[rows],
        )

    def _least(self, index: int, t: int) -> Floats:
        """The least that a holder adds to energy and busy times."""
        if (index, t) not in self._leasts:
            self._leasts[index, t] = self._increment(index, t).min(axis=0)
            self._leasts[index, t][self.columns.first_carried :] = 0
        return self._leasts[index, t]

    # --- fanouts ------------------------------------------------------------------------------------------------------

    def _cross_fixed(self, index: int, states: dict[Holder | None, int]) -> dict[Holder | None, int]:
        """Spatial loops of an inner fanout: the tile grows by their factors; their costs are in the coefficients."""
        factors = self.fixed.total(index)
        return {last: self._add(self._multiplied(state, index, factors)) for last, state in states.items()}

    def _multiplied(self, state: int, index: int, factors: tuple[int, ...]) -> Layer:
        layer = self.layers[state]
        shape, rows = self._times(layer.shape, factors)
        order = np.argsort(shape, kind="stable")
        rows = rows[order]
        source, note = np.full(len(rows), state), np.full(len(rows), -1)
        return Layer("cross", (index, -1), shape[order], layer.criteria[rows], source, rows, note)

    def _times(self, shape: Ints, factors: tuple[int, ...]) -> tuple[Ints, Ints]:
        """Shapes multiplied by factors, where the result still divides the bounds; and which rows those are."""
        p = self.problem
        result = np.zeros(len(shape), np.int64)
        valid = np.ones(len(shape), np.bool_)
        for v, factor in enumerate(factors):
            table = _multiples(p.variables[v].divisors, factor)
            digit = table[p.digits[v][shape]]
            valid &= digit >= 0
            result += digit * p.strides[v]
        rows = np.flatnonzero(valid)
        return result[rows], rows

    def _cross_outermost(self, states: dict[Holder | None, int]) -> dict[Holder | None, int]:
        """Spatial loops of the outermost fanout, every choice: what lies inside works in parallel, what crosses is paid."""
        crossed = {}
        for last, state in states.items():
            parts = [
                self._worthwhile(part, self.costs.outermost - 1, frozenset())
                for i in self._crossing_order()
                for part in self._crossed(state, i)
            ]
            if parts:
                merged = union(parts)
                if len(merged.shape):
                    crossed[last] = self._add(merged)
        return crossed

    def _crossing_order(self) -> list[int]:
        """All choices; for a first look only those with the most parallelism."""
        order = range(len(self.crossings))
        if self.beam is None:
            return list(order)
        used = [math.prod(c.total(self.costs.outermost)) for c in self.crossings]
        return sorted(order, key=lambda i: -used[i])[:_FIRST_LOOK_CROSSINGS]

    def _crossed(self, state: int, which: int) -> Iterator[Layer]:
        check()
        choice, at = self.crossings[which], self.costs.outermost
        layer = self.layers[state]
        shape, rows = self._times(layer.shape, choice.total(at))
        if not len(rows):
            return
        criteria = layer.criteria[rows]
        compute = len(self.problem.path.components) - 1
        for t in range(len(self.problem.tensors)):
            _, apart, shared = spatial_factors(self.problem, choice, t, at)
            for child in [k for k in [*self.chains[t], compute] if k >= at]:
                edge = self.edges[child, t]
                criteria -= self.skippable[t] * apart * (edge.skipped_inside + edge.skipped_outside / shared)
                column = self.columns.carried_column(t)
                if child == compute:
                    criteria += self.total / shared * edge.outside
                elif column is not None and self._crosses(child, t):
                    criteria += layer.criteria[rows, column][:, None] / shared * edge.outside
        for column, busy in enumerate(self.columns.busy, start=2):
            if busy.component >= at:
                criteria[:, column] /= math.prod(choice.total(at))
        first = self.columns.first_carried
        criteria[:, first : first + len(self.columns.carried)] = 0
        criteria[:, WATTS] = self.watts[which]
        yield Layer("cross", (at, -1), shape, criteria, np.full(len(rows), state), rows, np.full(len(rows), which))

    # --- the ends -----------------------------------------------------------------------------------------------------

    def _seed(
        self, index: int, t: int, placed: frozenset[int], held: list[int], layers: list[Layer], options: frozenset[int]
    ) -> None:
        """The innermost shared backing holder is placed: what stands above it is the fused part."""
        merged = all_ways(layers)
        if not len(merged.shape):
            return
        same = [(index, o) for o in held if o != t and o not in placed]
        outer = [(k, o) for o, chain in enumerate(self.nested) for k in chain if k < index]
        self.seeds.append(Seed(self._add(merged), (index, t), (*same, *sorted(outer, reverse=True)), options))

    def _finish(self, states: dict[Holder | None, int]) -> int | None:
        """Nothing shared is backed on chip: grow to the whole Einsum below the outermost memory."""
        p = self.problem
        if any(t.name in self.shared and not self.on_top[i] for i, t in enumerate(p.tensors)):
            return None
        parts = []
        for last, state in states.items():
            growing = frozenset(v for v, variable in enumerate(p.variables) if variable.radix > 1)
            if (
                self.nest.rules.hoist
                and last is not None
                and not self.nest.fixed_tile(last[0])
                and not self.nest.keeps_loops(last)
            ):
                growing &= p.tensors[last[1]].relevant
            growing = self.nest.constrained(growing, 0, frozenset())
            layer = self.layers[state]
            done = np.ones(len(layer.shape), np.bool_)
            for v in range(len(p.variables)):
                if v not in growing:
                    done &= p.complete[v][layer.shape]
            rows = np.flatnonzero(done)
            full = np.full(len(rows), p.shapes - 1)
            source, note = np.full(len(rows), state), np.full(len(rows), -1)
            parts.append(Layer("finish", None, full, layer.criteria[rows], source, rows, note))
        if not parts:
            return None
        merged = union(parts)
        return self._add(merged) if len(merged.shape) else None


def _multiples(divisors: Ints, factor: int) -> Ints:
    """Per divisor d, the index of d·factor among the divisors, or -1."""
    index = np.searchsorted(divisors, divisors * factor)
    found = np.minimum(index, len(divisors) - 1)
    result: Ints = np.where(divisors[found] == divisors * factor, found, -1)
    return result
