"""fusiest's own searches, for experiments."""

from __future__ import annotations

from fusiest.base.errors import OutOfMemory
from fusiest.mapper import Options, Result, run
from fusiest.spec import Spec, load


def searched(spec: Spec, options: Options) -> Result:
    """The result of a search. One that was stopped has none here: what it found by then must not be taken for the optimum."""
    result = run(spec, options)
    if result.interrupted:
        raise KeyboardInterrupt
    if result.stopped == "memory":
        raise OutOfMemory("out of memory: what was found by then may not be the optimum")
    return result


def load_compiled() -> None:
    """What the first search of a process loads, or compiles, is not to be measured."""
    run(load("tpu_v4i", "matmuls", N_EINSUMS=1, M=64, KN=64), Options(jobs=1))
