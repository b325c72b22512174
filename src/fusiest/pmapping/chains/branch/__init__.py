"""Branch and bound over the tile chains of all variables at once, where there is a cost to beat.

In: chains as `inputs` states them, boxes of similar chains. Out: the combinations that may beat that cost.
`branch_and_bound` drives the compiled `kernels`; `bounds` says what a box costs at least; `compounds` takes variables that share
a rank as one; `symmetry` skips variables that change places; `trades` proves that some terms cannot both be small.
"""
