"""Sweeps: which chip? Designs, one after the other, each with the best mapping of every workload; nothing is computed twice."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fusiest.sweeps.designs import Design
    from fusiest.sweeps.driver import Answer, Counts, Reuse
    from fusiest.sweeps.figures import DesignFigures
    from fusiest.sweeps.session import Running, Sweep, sweep
    from fusiest.sweeps.store import RunRow, Store
    from fusiest.sweeps.sweepfile import SweepFile, Wanted, load_sweep, make_sweep

__all__ = [
    "Answer",
    "Counts",
    "Design",
    "DesignFigures",
    "Reuse",
    "RunRow",
    "Running",
    "Store",
    "Sweep",
    "SweepFile",
    "Wanted",
    "load_sweep",
    "make_sweep",
    "sweep",
]

_HOMES = {
    "designs": ("Design",),
    "driver": ("Answer", "Counts", "Reuse"),
    "figures": ("DesignFigures",),
    "session": ("Running", "Sweep", "sweep"),
    "store": ("RunRow", "Store"),
    "sweepfile": ("SweepFile", "Wanted", "load_sweep", "make_sweep"),
}


def __getattr__(name: str) -> object:
    """Loaded when first used: a child process needs little of it."""
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'fusiest.sweeps' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(f"fusiest.sweeps.{home}"), name)
