"""Component costs: from a class and its attributes to energy, time, area and leakage, with their provenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusiest.components.classes import (
        ActionCost,
        Attribute,
        Attributes,
        AttributeValue,
        ComponentClass,
        Estimate,
        Figures,
        key,
    )
    from fusiest.components.histograms import average, bit_probabilities, is_signed, magnitude
    from fusiest.components.registry import all_classes, built_in, estimate, find_class
    from fusiest.components.scaling import area_scale, energy_scale

__all__ = ["ActionCost", "Attribute", "AttributeValue", "Attributes", "ComponentClass", "Estimate", "Figures",
           "all_classes", "area_scale", "average", "bit_probabilities", "built_in", "energy_scale", "estimate",
           "find_class", "is_signed", "key", "magnitude"]  # fmt: skip

_MODULES = {
    "classes": (
        "ActionCost",
        "Attribute",
        "AttributeValue",
        "Attributes",
        "ComponentClass",
        "Estimate",
        "Figures",
        "key",
    ),
    "histograms": ("average", "bit_probabilities", "is_signed", "magnitude"),
    "registry": ("all_classes", "built_in", "estimate", "find_class"),
    "scaling": ("area_scale", "energy_scale"),
}
_LATER = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Classes load when one is first asked for: most specs and `fusiest --help` do without them."""
    if name not in _LATER:
        raise AttributeError(f"module 'fusiest.components' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(f"fusiest.components.{_LATER[name]}"), name)
