"""The workload: Einsums and what follows from them.

`einsums` holds the Einsums as written, after `checks`; `analysis` derives bounds, relevance and sharing, with `spaces` (iteration spaces)
and `variable_bounds`. `part` cuts a part of a workload out; `made_in_parts` are tensors that several Einsums write; `twice`
mends Einsums that read one tensor twice.
"""
