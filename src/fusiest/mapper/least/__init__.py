"""Least first: bounds and mappings from each Einsum's least costs, then only the tables that something better can need.

In: an explorer of Einsums and what is asked. Out: mappings, bounds on all others, and tables of what is between.
`directions` says where in the plane of energy and latency a mapping could still be better; `least_first` is the search.
"""
