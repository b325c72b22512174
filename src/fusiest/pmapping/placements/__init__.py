"""Which memory holds which tensor.

In: one Einsum on one path of the architecture. Out: its placements, each a list of storage nodes from the outermost in.
`placement` is one such choice; `placement_graph` makes all of them as a graph of states; `open_choices` says, from the inside
out, what is still open, so that placements that agree on the rest are searched together.
"""
