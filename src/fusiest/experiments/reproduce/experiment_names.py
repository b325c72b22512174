"""The experiments by name, apart from what they need, so that the command line can list them at once."""

from __future__ import annotations

EXPERIMENTS = {
    "convergence": "how fast baselines come near the optimum",
    "scaling": "time per Einsum for chains of 1 to 64 matrix products",
    "mapping": "what the optimal mapping of GPT-3 6.7B does",
    "edge-transformer": "the edge accelerator against TransFusion, FLAT and no fusion",
    "energy-breakdown": "its energy by component and by kind of tensor",
    "fusion-sets": "which Einsums it fuses, and their computational intensity",
    "ablation": "what each part of the search is good for",
    "fused-cnn": "CNNs with fused layers: Fused-Layer CNN, DeFiNES, and MobileNetV2 with and without windows",
    "cim": "nine compute-in-memory chips against what was published of them",
}
MODULES = {
    "convergence": "convergence", "scaling": "time_per_einsum", "mapping": "gpt3_mapping", "edge-transformer": "edge.transformer",
    "energy-breakdown": "edge.energy_breakdown", "fusion-sets": "edge.fusion_sets", "ablation": "ablation",
    "fused-cnn": "cnn.fused_cnn", "cim": "cim.cim",
}  # fmt: skip
"""The module of each, which is imported when the experiment runs."""
ALL, CIM = "all", "cim"
