"""fusiest finds the provably best way to run a tensor workload on an accelerator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fusiest.errors import FusiestError, InvalidMapping, SpecError
from fusiest.looptree.nodes import LoopTree
from fusiest.model.evaluate import Evaluation, evaluate
from fusiest.spec.load import load
from fusiest.spec.spec import Spec

if TYPE_CHECKING:
    from fusiest.mapper.mapper import map
    from fusiest.mapper.result import Result
    from fusiest.pmapping.diagnose import NoMapping
    from fusiest.pmapping.remembered import pmappings

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
    "load",
    "map",
    "pmappings",
]

_LATER = {
    "map": "fusiest.mapper.mapper",
    "Result": "fusiest.mapper.result",
    "NoMapping": "fusiest.pmapping.diagnose",
    "pmappings": "fusiest.pmapping.remembered",
}


def __getattr__(name: str) -> Any:
    """The mapper needs Numba, which loads when it is first used."""
    if name not in _LATER:
        raise AttributeError(f"module 'fusiest' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_LATER[name]), name)
