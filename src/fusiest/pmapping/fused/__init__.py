"""The fused part of a nest, above its innermost shared tensor: fused loops, and storage nodes between them.

In: rows of `lattice` below that tensor. Out: rows of the Einsum's table, by compatibility. `structures` lists orders of
storage nodes and loops; `fused_tiles` their tile shapes; `structure_plans` holds what a structure needs without its
rows; `grow` puts rows into structures, with the compiled `kernels`. `seen_by_neighbours` is the part that other Einsums
see; `by_compatibility` gathers and prunes rows of one compatibility; `results` hands them on as pieces of a table.
"""
