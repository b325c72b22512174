"""How little a holder can get by with: every element is fetched as late, and given up as early, as its user allows.

The model charges a lowered reservation less than the holder's whole tile. This is the proof that it is enough: what
must be there at some moment is counted element by element, and may never exceed the reservation.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from tests.reference.nest import Instance, SimulatedNest, Station, element

Moment: TypeAlias = int
Use: TypeAlias = tuple[Moment, Moment, Instance, tuple[int, ...]]
"""From when to when an instance below has an element of its parent in hand."""


def most_held(nest: SimulatedNest, tensor: str) -> dict[str, int]:
    """Per memory that holds a tensor, the most elements that one instance must keep at one moment."""
    stations = [s for s in nest.stations[tensor] if not s.toll]
    moments = {time: moment for moment, time in enumerate(sorted({point.time for point in nest.points}))}
    visits = {moment: time for time, moment in moments.items()}
    access = nest.info.accesses[tensor]
    uses: list[Use] = [(moments[p.time],) * 2 + (p.place, element(access, p.values)) for p in nest.points]
    most: dict[str, int] = {}
    for station in reversed(stations[:-1]):
        uses = _spans(station, uses, visits, access.output)
        most[station.component.name] = _busiest(uses)
    return most


def _spans(station: Station, uses: list[Use], visits: dict[Moment, tuple[int, ...]], output: bool) -> list[Use]:
    """Per visit, from the first time that an element is asked for to the last time that it is asked for or returned."""
    spans: dict[tuple[tuple[int, ...], Instance, tuple[int, ...]], tuple[Moment, Moment]] = {}
    for first, last, place, touched in uses:
        key = visits[first][: station.times], station.instance(place), touched
        end = last if output else first
        low, high = spans.get(key, (first, end))
        spans[key] = min(low, first), max(high, end)
    return [(low, high, instance, touched) for (_, instance, touched), (low, high) in spans.items()]


def _busiest(uses: list[Use]) -> int:
    held: Counter[tuple[Instance, Moment]] = Counter()
    for first, last, instance, _ in uses:
        held.update((instance, moment) for moment in range(first, last + 1))
    return max(held.values())
