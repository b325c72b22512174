"""The paper's experiments: `reproduce` runs those in `EXPERIMENTS`. Loaded when first used."""

from typing import TYPE_CHECKING

from fusiest.base.doors import lazy

if TYPE_CHECKING:
    from fusiest.experiments.reproduce.cim.cim import TITLE, cim_output, compare
    from fusiest.experiments.reproduce.cim.published import bundled_values, values_of_file
    from fusiest.experiments.reproduce.experiment_names import ALL, CIM, EXPERIMENTS
    from fusiest.experiments.reproduce.experiment_output import write
    from fusiest.experiments.reproduce.pieces import Study
    from fusiest.experiments.reproduce.run import reproduce

__all__ = [
    "ALL", "CIM", "EXPERIMENTS", "TITLE", "Study", "bundled_values", "cim_output", "compare", "reproduce",
    "values_of_file", "write",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
