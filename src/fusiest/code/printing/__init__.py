"""Statements as text, in several languages.

`texts` has what they have in common, `reserved` the names that are taken. `pseudocode` is for people, `c` is C.
`network_script` runs the parts of a network, and what is no Einsum between them.
"""
