"""What mappings compute: each that a random proof returns is executed, and compared with the Einsums themselves."""

from __future__ import annotations

from collections.abc import Iterable

from fusiest.looptree.nodes import LoopTree
from fusiest.mapper.results.result import Mapping
from fusiest.spec.spec import Spec
from tests.model.test_model_vs_simulator import check_costs
from tests.reference.simulator import simulate


def check_values(spec: Spec, mappings: Iterable[Mapping]) -> None:
    """Every value is right, unless the model warns; every count is that of the model."""
    for mapping in mappings:
        simulation = simulate(spec, mapping.looptree)
        check_costs(mapping.evaluation, simulation)
        assert mapping.evaluation.warnings or simulation.wrong_tensors == ()


def check_tree(spec: Spec, tree: LoopTree) -> None:
    """The values of a tree of some or all of the Einsums, given that what it reads is there."""
    assert simulate(spec, tree).wrong_tensors == ()
