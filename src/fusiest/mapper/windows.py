"""Better bounds for long workloads: the exact least energy and latency of stretches of Einsums.

A window ends where one tensor alone is live. Taken by itself, with that tensor offered in every form for free, its
optimum bounds what its Einsums cost in any mapping. Equal layers have equal windows, which are searched once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fusiest.joining.bounds import Incumbents, Least, LowerBounds, WindowedBounds
from fusiest.joining.forms import OpenForm, OpenLoop
from fusiest.joining.rows import PartialRows, start_rows
from fusiest.mapper.joiner import Joiner, State
from fusiest.mapper.result import FunnelStep
from fusiest.pmapping.table import Backing

WORTHWHILE_EINSUMS = 12
_LEAST_EINSUMS = 4
_MOST_ROWS = 3_000_000
_BEAM = 4_000


class _TooLarge(Exception):
    """A window is not worth its own search."""


def windowed_bounds(joiner: Joiner, check: Callable[[], None]) -> None:
    """Replace the joiner's bounds by better ones."""
    assert isinstance(joiner.bounds, LowerBounds)
    whole = joiner.bounds
    known: dict[object, Least] = {}
    windows = []
    done: frozenset[str] = frozenset()
    for einsums in _windows(joiner):
        own = _own_bounds(joiner, done, einsums)
        key = _key(joiner, done, einsums)
        if key not in known:
            known[key] = _least(joiner, own, done, einsums, check)
        windows.append((frozenset(einsums), own, known[key]))
        done = done | frozenset(einsums)
    joiner.bounds = WindowedBounds(whole, windows)
    joiner.exact = False


def _windows(joiner: Joiner) -> list[list[str]]:
    found: list[list[str]] = [[]]
    done: frozenset[str] = frozenset()
    for einsum in joiner.order:
        found[-1].append(einsum)
        done = done | {einsum}
        if len(found[-1]) >= _LEAST_EINSUMS and len(joiner.live(done)) <= 1:
            found.append([])
    return [window for window in found if window]


def _own_bounds(joiner: Joiner, done: frozenset[str], einsums: list[str]) -> LowerBounds:
    inside = done | frozenset(einsums)
    users = {t: [u for u in names if u in inside] for t, names in joiner.spec.info.users.items()}
    return LowerBounds({e: joiner.options[e] for e in einsums}, users, einsums)


def _key(joiner: Joiner, done: frozenset[str], einsums: list[str]) -> object:
    """Equal for windows that differ only by names."""
    number: dict[str, int] = {}
    parts = []
    for einsum in einsums:
        tensors = tuple(number.setdefault(t, len(number)) for t in joiner.spec.info.einsums[einsum].accesses)
        table = joiner.tables[einsum]
        parts.append((tensors, id(next(iter(table.forms.values())))))
    live = joiner.live(done), joiner.live(done | frozenset(einsums))
    return tuple(parts), tuple(frozenset(number[t] for t in side if t in number) for side in live)


def _least(
    joiner: Joiner, own: LowerBounds, done: frozenset[str], einsums: list[str], check: Callable[[], None]
) -> Least:
    """Least energy and least latency of a window, each by a search of its own; a relaxation where that is too large."""
    energy, latency = own.least_of_all(done)
    start = _start(joiner, done, einsums)
    if start is None:
        return energy, latency
    before = joiner.bounds
    joiner.bounds, joiner.window = own, frozenset(einsums)
    try:
        energy = max(energy, _optimum(joiner, "energy", start, check))
        latency = max(latency, _optimum(joiner, "latency", start, check))
    except _TooLarge:
        pass
    finally:
        joiner.bounds, joiner.window = before, None
    return energy, latency


def _optimum(joiner: Joiner, objective: str, start: State, check: Callable[[], None]) -> float:
    assert joiner.window is not None
    incumbents = Incumbents((objective,))
    best = np.inf

    def report(step: FunnelStep) -> None:
        if step.kept > _MOST_ROWS:
            raise _TooLarge

    for beam in (_BEAM, None):
        states = joiner.run(incumbents, beam, report, check, start)
        state = states.get(start.done | joiner.window)
        for rows in state.rows if state is not None else ():
            if len(rows):
                best = min(best, float(getattr(rows, objective).min()))
                i = int(np.argmin(getattr(rows, objective)))
                incumbents.add(float(rows.energy[i]), float(rows.latency[i]))
        if joiner.exact:
            break
    if np.isinf(best):
        raise _TooLarge
    return best * (1 - 2e-9)


def _start(joiner: Joiner, done: frozenset[str], einsums: list[str]) -> State | None:
    """Before the window: nothing, or its one live tensor in every form that its user knows."""
    live = joiner.live(done)
    if not live:
        return State(done, [OpenForm((), ())], [start_rows(len(joiner.memories))])
    if len(live) > 1:
        return None
    (tensor,) = live
    users = [e for e in einsums if tensor in joiner.spec.info.einsums[e].accesses]
    if len(users) != 1:
        return None
    view = joiner.views[users[0]]
    tiles: dict[OpenForm, list[np.ndarray]] = {}
    for form, rows in joiner.right[users[0]]:
        backing = next(b for b in form.backings if b.tensor == tensor)
        zones, columns = [], []
        for zone in form.zones[: backing.zones]:
            loops = []
            for v in zone:
                rank = view.rank_of(tensor, v.variable)
                if rank is None:
                    return None
                loop = OpenLoop(frozenset({(tensor, rank)}), view.info.bounds[v.variable], place=v.place)
                loops.append((loop, form.loops.index(v)))
            loops.sort(key=lambda item: sorted(item[0].ranks))
            zones.append(tuple(loop for loop, _ in loops))
            columns += [column for _, column in loops]
        open_form = OpenForm(tuple(zones), (Backing(tensor, backing.memory, len(zones)),))
        tiles.setdefault(open_form, []).append(rows.tiles[:, columns])
    forms = list(tiles)
    return State(done, forms, [_free_rows(np.unique(np.concatenate(tiles[f]), axis=0), f, joiner) for f in forms])


def _free_rows(tiles: np.ndarray, form: OpenForm, joiner: Joiner) -> PartialRows:
    """Rows that cost nothing and take no space."""
    one = start_rows(len(joiner.memories))
    rows = one.take(np.zeros(len(tiles), np.int64))
    rows.tiles = tiles
    rows.own = np.zeros((len(tiles), len(joiner.memories), len(form.zones)))
    rows.done = np.zeros((len(tiles), len(joiner.memories), len(form.zones) + 1))
    return rows
