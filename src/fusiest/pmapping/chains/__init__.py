"""The general solver: chains of tiles per variable, for imperfect tiles and any order of storage nodes.

In: one placement. Out: the same rows as `lattice` gives, where that does not apply. `chain_search` drives: `orders` and
`skeleton` make nests without tiles; `tile_chains` and `singles` all chains of one variable; `terms` writes costs as
sums of products; `space` and `tied_variables` hold the limits on several variables at once; `combine` joins the
variables one by one, `branch` all at once; `nest_tiles` gives rows, `rows_to_nests` leads back. `copy_einsum` maps an
Einsum that only copies.
"""
