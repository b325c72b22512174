"""A folder of finished runs.

`store` keeps a table in SQLite and a compressed file per result; `upkeep` checks, collects garbage, merges and exports.
Both believe no file: `verify` compares a row with the result that it sums up, `unpacking` bounds what a result may unpack to.
"""
