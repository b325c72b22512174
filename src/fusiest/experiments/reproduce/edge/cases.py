"""The edge accelerator, mapped freely and under fixed dataflows: what the experiments about it have in common."""

from __future__ import annotations

from fusiest.experiments.reproduce.pieces import Data, Settings, Study
from fusiest.experiments.reproduce.searching import searched
from fusiest.mapper import Options, Step
from fusiest.model import fused_sets
from fusiest.pmapping import NoMapping
from fusiest.spec import load

OURS = "fusiest"
DATAFLOWS = {OURS: "fusiest", "transfusion": "TransFusion", "flat": "FLAT", "unfused": "unfused"}
LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768, 65536)
QUICK_LENGTHS = (1024, 16384)
MEMORY = "MainMemory"
PER_BIT = "8 * 0.08e-12"
"""Joules; the table in the paper says "0.08 pJ/b", which the bundled architecture reads as 0.08 pJ per MAC of 8 bits."""


def lengths(study: Study) -> tuple[int, ...]:
    return QUICK_LENGTHS if study.quick else LENGTHS


def thousands(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens % 1024 == 0 else str(tokens)


def best_mapping(study: Study, tokens: int, dataflow: str, per_bit: bool = False) -> Data:
    """The mapping of least EDP of a layer for this many tokens under a dataflow; None if there is none.

    `per_bit`: the MAC's 0.08 pJ are read as per bit, not per MAC.
    """
    settings = {"tokens": tokens, "dataflow": dataflow, "defines": {"MACEnergy": PER_BIT} if per_bit else {}}
    name = f"edge/{tokens}-{dataflow}{'-per-bit' if per_bit else ''}"
    study.say(Step(f"{DATAFLOWS[dataflow]}, {thousands(tokens)} tokens"))
    return study.piece(name, settings, lambda: _map(settings))["mapping"]


def _map(settings: Settings) -> Data:
    dataflow = [] if settings["dataflow"] == OURS else [settings["dataflow"]]
    defines = {"N_TOKENS": settings["tokens"], "BATCH_SIZE": 1, **settings["defines"]}
    spec = load("edge_transformer", "gpt3_6.7B", *dataflow, defines=defines)
    try:
        best = searched(spec, Options(objective=("edp",))).best("edp")
    except NoMapping:
        return {"mapping": None}
    energies: dict[str, float] = {}
    for einsum in best.evaluation.einsums.values():
        for (component, tensor, _), joules in einsum.energies.items():
            key = f"{component}/{tensor}"
            energies[key] = energies.get(key, 0.0) + joules
    return {
        "mapping": {
            "energy": best.energy,
            "latency": best.latency,
            "energies": energies,
            "latencies": {name: e.latency_per_component for name, e in best.evaluation.einsums.items()},
            "fused": [list(fused.einsums) for fused in fused_sets(spec, best.looptree)],
        }
    }
