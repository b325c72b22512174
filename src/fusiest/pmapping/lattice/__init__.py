"""The fast solver: tile shapes on a lattice of divisors, from the compute outwards, one storage node at a time.

In: one placement (or many that agree). Out: pruned rows, each a tile shape with its costs and reservations.
`applies` says where this solver is exact; `tile_problem`, `states` and `move_costs` state an Einsum in numbers; `tile_search` drives:
`growth` adds loops and a storage node, `fanout` adds Spatial loops, `layers` keeps the rows, with the compiled `kernels` and
`pair_kernels`. `remaining` and `cost_to_go` bound what a row can still cost, compiled in `bound_kernels`, and
`pruning` drops rows by it. `traceback` turns a row back into LoopTree nodes.
"""
