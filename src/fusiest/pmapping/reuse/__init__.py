"""Reuse of tables: each is made once and used again.

`identical` finds Einsums that are equal but for names, and renames a table; `throughputs` reads latencies as rates per
action; `symbolic_throughput` keeps a table valid for all throughputs of some memories; `cache` remembers tables for
`fusiest.pmappings`.
"""
