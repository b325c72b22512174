"""Lower bounds on what the Einsums that are still to come cost.

In: a join problem. Out: per group, the least energy and latency of the rest.
`relaxed` joins backwards without compatibility; `cuts` finds places where a long workload comes apart, `segments` the exact least
between two cuts; `reduced` drops pmappings that these bounds exclude before anything is joined.
"""
