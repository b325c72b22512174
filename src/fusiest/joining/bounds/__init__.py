"""Lower bounds on the cost of the remaining Einsums.

In: a join problem. Out: per group, the least energy and latency of the rest. `relaxed` eliminates Einsums backwards,
ignoring capacity and tiles; `cuts` holds bounds where a long workload comes apart, `segments` finds them: the exact
least cost between two cuts; `reduced` drops pmappings that these bounds exclude before anything is joined.
"""
