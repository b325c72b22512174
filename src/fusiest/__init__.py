"""fusiest finds the provably best way to run a tensor workload on an accelerator."""

# Importing `typing` for this takes longer than all else here; to type checkers the name alone is true.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from fusiest.base.errors import FusiestError, InvalidMapping, OutOfMemory, SpecError
    from fusiest.code import run
    from fusiest.looptree import LoopTree
    from fusiest.mapper import Mapping, Options, Result, map
    from fusiest.model.evaluate import Evaluation, evaluate
    from fusiest.networks import from_onnx, from_torch
    from fusiest.pmapping import NoMapping, pmappings
    from fusiest.spec import Spec, dump, dump_mapping, load
    from fusiest.sweeps import Sweep, sweep
del TYPE_CHECKING

__version__ = "0.2.0"
__all__ = [
    "Evaluation", "FusiestError", "InvalidMapping", "LoopTree", "Mapping", "NoMapping", "Options", "OutOfMemory",
    "Result", "Spec", "SpecError", "Sweep", "dump", "dump_mapping", "evaluate", "from_onnx", "from_torch", "load",
    "map", "pmappings", "run", "sweep",
]  # fmt: skip

_HOMES = {
    "base.errors": ("FusiestError", "InvalidMapping", "OutOfMemory", "SpecError"),
    "code": ("run",),
    "looptree": ("LoopTree",),
    "mapper": ("Mapping", "Options", "Result", "map"),
    "model": ("Evaluation", "evaluate"),
    "networks": ("from_onnx", "from_torch"),
    "pmapping": ("NoMapping", "pmappings"),
    "spec": ("Spec", "dump", "dump_mapping", "load"),
    "sweeps": ("Sweep", "sweep"),
}


def __getattr__(name: str) -> object:
    """Everything is loaded when it is first used: the program must start at once, and the mapper needs Numba."""
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'fusiest' has no attribute '{name}'")
    import importlib

    value = globals()[name] = getattr(importlib.import_module(f"fusiest.{home}"), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__", "__doc__", "__file__", "__name__", "__path__"]
