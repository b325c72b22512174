"""Other mappers, in the same mapspace: `run_baseline`, with `BaselineOptions`. Loaded when first used: they need Numba."""

from typing import TYPE_CHECKING

from fusiest.base.doors import lazy

if TYPE_CHECKING:
    from fusiest.experiments.baselines.baseline_options import BaselineOptions
    from fusiest.experiments.baselines.genome import Genome, make_genome
    from fusiest.experiments.baselines.kernels import UNKNOWN, VALID, evaluate, sample
    from fusiest.experiments.baselines.running import make_work_for, our_evaluations, run_baseline, search

__all__ = [
    "UNKNOWN", "VALID", "BaselineOptions", "Genome", "evaluate", "make_genome", "make_work_for", "our_evaluations",
    "run_baseline", "sample", "search",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
