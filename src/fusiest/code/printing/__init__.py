"""Statements as text, in several languages.

`texts` has what they have in common, `reserved` the names that are taken. `pseudocode` is for people.
`nest_text` is a function of nested loops: in C by `c`, in TVM's script by `tensor_ir`, whose parallel loops `lanes` finds.
`network_script` runs the parts of a network, and what is no Einsum between them.
"""
