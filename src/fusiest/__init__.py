"""fusiest finds the provably best way to run a tensor workload on an accelerator."""

# Importing `typing` for this takes longer than all else here; to type checkers the name alone is true.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from fusiest.errors import FusiestError, InvalidMapping, SpecError
    from fusiest.looptree.nodes import LoopTree
    from fusiest.mapper.mapper import map
    from fusiest.mapper.result import Result
    from fusiest.model.evaluate import Evaluation, evaluate
    from fusiest.networks import from_onnx, from_torch
    from fusiest.pmapping.diagnose import NoMapping
    from fusiest.pmapping.remembered import pmappings
    from fusiest.spec.load import load
    from fusiest.spec.spec import Spec
del TYPE_CHECKING

__version__ = "0.1.0"
__all__ = [
    "Evaluation",
    "FusiestError",
    "InvalidMapping",
    "LoopTree",
    "NoMapping",
    "Result",
    "Spec",
    "SpecError",
    "evaluate",
    "from_onnx",
    "from_torch",
    "load",
    "map",
    "pmappings",
]

_HOMES = {
    "Evaluation": "fusiest.model.evaluate",
    "FusiestError": "fusiest.errors",
    "InvalidMapping": "fusiest.errors",
    "LoopTree": "fusiest.looptree.nodes",
    "NoMapping": "fusiest.pmapping.diagnose",
    "Result": "fusiest.mapper.result",
    "Spec": "fusiest.spec.spec",
    "SpecError": "fusiest.errors",
    "evaluate": "fusiest.model.evaluate",
    "load": "fusiest.spec.load",
    "from_onnx": "fusiest.networks",
    "from_torch": "fusiest.networks",
    "map": "fusiest.mapper.mapper",
    "pmappings": "fusiest.pmapping.remembered",
}


def __getattr__(name: str) -> object:
    """Everything is loaded when it is first used: the program must start at once, and the mapper needs Numba."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fusiest' has no attribute '{name}'")
    import importlib

    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__", "__doc__", "__file__", "__name__", "__path__"]
