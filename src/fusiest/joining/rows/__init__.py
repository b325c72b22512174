"""The rows of joined groups: costs, reservations, and pruning.

In: two groups that fit. Out: the joined, pruned rows. `consolidation` adds costs and consolidates reservations, with
the compiled `kernels`; `shared_space` computes the space of shared tensors in shared memories; `incumbents` drops rows
that cannot beat a known mapping; `coarse` keeps few of nearly equal rows, for first passes.
"""
