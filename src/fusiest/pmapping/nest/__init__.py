"""The rules of a nest: which storage nodes and loops may stand where. Both solvers, `lattice` and `chains`, ask here.

`rules` orders storage nodes and the loops between them; `constraints` is a table of what constraints are about. `spatial` lists
the choices of Spatial loops, with divisors from `factors`.
`uneven` lists the variables that windows cut into tiles of any length. `shared_memories` and `alignment` say where Einsums share
memories and loops and must agree; `memory_sizes` gives a memory one size for all Einsums; `no_fusion_needed` proves where everything
has room, so that no order of Einsums matters.
"""
