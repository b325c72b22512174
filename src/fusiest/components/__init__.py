"""Component costs: from a class and its attributes to energy, time, area and leakage, with their provenance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusiest.base.doors import lazy

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

if not TYPE_CHECKING:  # classes load when one is first asked for: most specs and `fusiest --help` do without them
    __getattr__, __dir__ = lazy(__name__)
