"""The rows of joined groups: costs, reservations, and which of them survive.

In: two groups that fit. Out: the joined, pruned rows.
`consolidation` adds costs and consolidates reservations, with the compiled `kernels`; `shared_space` says what shared tensors take in
shared memories; `incumbents` drops rows that no longer beat a known mapping; `coarse` keeps few of nearly equal rows, for first passes.
"""
