"""Statements as text, in several languages.

`texts` has what they have in common; `pseudocode` is for people, `c_text` is a function in C, with the counters of `c_counts`.
"""
