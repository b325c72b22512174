"""Imported Einsums compute what the network computes."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest

from fusiest.base.errors import SpecError
from tests.networks.imports import check_values
from tests.networks.random_graphs import DRAWS, random_graph
from tests.proving import PROVE

CHUNK = 25
CHUNKS = 80 if PROVE else 5
OPTIONS = [{}, {}, {"softmax": "online"}, {"softmax": "deferred"}, {"elementwise": "keep"}]


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.filterwarnings("ignore")
def test_random_graphs(chunk: int) -> None:
    compared, used = 0, Counter[str]()
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        drawn = random_graph(seed)
        if not drawn.nodes:
            continue
        try:
            check_values(drawn.model(), drawn.inputs, **OPTIONS[seed % len(OPTIONS)])
        except SpecError as error:
            if "no node became an Einsum" not in str(error):
                raise
            continue  # nothing but views and cuts
        compared += 1
        used += drawn.used
    assert compared >= 0.7 * CHUNK
    assert len(used) > 15


def test_every_operator_is_drawn() -> None:
    """In the graphs above, each kind of node stands several times."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        used = sum((random_graph(seed).used for seed in range(CHUNK * 13)), Counter[str]())
    assert len(DRAWS) > 30
    assert len(used) > 70
    assert (
        min(
            used[kind]
            for kind in ("Conv", "MatMul", "Attention", "Softmax", "LayerNormalization", "Reshape", "Slice", "Concat")
        )
        > 8
    )
