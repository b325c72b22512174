"""fusiest finds the provably best way to run a tensor workload on an accelerator."""

from fusiest.errors import FusiestError, InvalidMapping, SpecError
from fusiest.looptree.nodes import LoopTree
from fusiest.model.evaluate import Evaluation, evaluate
from fusiest.spec.load import load
from fusiest.spec.spec import Spec

__version__ = "0.1.0"
__all__ = ["Evaluation", "FusiestError", "InvalidMapping", "LoopTree", "Spec", "SpecError", "evaluate", "load"]
