"""A folder of finished runs.

`store` keeps a table in SQLite and a compressed file per result; `upkeep` checks, collects garbage, merges and exports.
"""
