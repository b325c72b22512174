"""Whether partial mappings and an Einsum's pmappings fit together, by compatibilities alone, without costs.

In: compatibilities of both sides. Out: a joint, which says which rows are joined and what they then share.
`compatibility` is the open part of partial mappings; `fits` decides loop by loop; `joints` does so for groups;
`shared_nodes` finds storage nodes that serve several Einsums at once.
"""
