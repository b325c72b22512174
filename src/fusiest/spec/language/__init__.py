"""The language of spec files: fields of nodes, expressions, sets of tensors, Einsums as text.

`fields` reads a dataclass from a node by its annotations, with `ranges` of numbers and `allowed_names`. `grammar` says which
expressions there are, `expressions` evaluates them with `operators` and `functions`; `scope` holds the names of one Einsum:
`variables`, `renames`, `namesets`. `einsum_text` parses Einsums, `affine` their indices,
`formulas` what they compute.
"""
