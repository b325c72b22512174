"""Mappings: node types, and how they are drawn."""

from fusiest.looptree.nodes import Compute, LoopTree, Nested, Sequential, Spatial, Storage, Temporal, Toll

__all__ = ["Compute", "LoopTree", "Nested", "Sequential", "Spatial", "Storage", "Temporal", "Toll"]
