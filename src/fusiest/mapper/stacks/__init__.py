"""Depth-first dataflows: stacks of layers, tile by tile.

`stack_plans` lists stacks, tiles and what is kept; `layer_nests` finds the best nest of a layer in one tile; `depth_first` makes
mappings of them.
"""
