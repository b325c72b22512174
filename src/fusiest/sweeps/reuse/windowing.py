"""Windows in sweeps: which runs look for them, and what then still holds of what takes a search's place.

Mappings with windows are found, not always proven: what other designs have found may lead a search to a better one than `fusiest map` has.
So where they are looked for, a search begins with nothing but tables, of pmappings and of what Einsums can do below loops that make
windows. Those change no answer.
"""

from __future__ import annotations

import dataclasses
import functools

from fusiest.mapper import Options, can_be_bounded, has_halos, usual_windows, worth_windows
from fusiest.spec import Spec
from fusiest.sweeps.reuse.canonical import Forms
from fusiest.sweeps.reuse.design_bounds import NO_BOUNDS, LeastCosts, least_costs


def run_options(spec: Spec, options: Options, usual: bool) -> Options:
    """The options of one run. `usual`: windows are looked for as `fusiest map` does if nothing is said."""
    if not usual or not _reads_through_halos(spec):
        return options
    return _with_windows(options, usual_windows(options.usage, options.exchange))


def windows_of(spec: Spec, options: Options) -> str:
    """What a table says of a run's windows: nothing where none are possible."""
    return options.windows if _reads_through_halos(spec) else ""


def least_of_run(spec: Spec, options: Options) -> LeastCosts:
    """What a run takes at least. Windows leave out rows that nobody reads: then nothing is known before a search."""
    is_open = _reads_through_halos(spec) and worth_windows(spec, options) and not can_be_bounded(spec)
    return NO_BOUNDS if is_open else least_costs(spec)


@functools.lru_cache(64)
def _with_windows(options: Options, windows: str) -> Options:
    return dataclasses.replace(options, windows=windows)


_HALOS = Forms(64)


def _reads_through_halos(spec: Spec) -> bool:
    """`has_halos`, known by workload: designs share theirs, and a spec's hash takes longer than all else."""
    return bool(_HALOS.find((spec.info,), lambda: has_halos(spec)))
