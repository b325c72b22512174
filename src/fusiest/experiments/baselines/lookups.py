"""Rows found by some of their values: one table of hashed keys for all kinds of lookups."""

from __future__ import annotations

import numpy as np

from fusiest.experiments.baselines.compiled_baselines import Keys, make_lookup
from fusiest.experiments.baselines.kernels import mix
from fusiest.pmapping import Ints


class Lookups:
    """Rows by keys: a key stands for the kind of lookup and the values that are given."""

    def __init__(self) -> None:
        self.keys: list[Keys] = []
        self.ranges: list[Ints] = []
        self.rows: list[Ints] = []
        self.end = 0

    def add(self, kind: int, columns: list[Ints], begin: int, count: int) -> None:
        """Rows from `begin`, so many, by these values of each."""
        if not count:
            return
        key = hashed([np.full(count, kind), *columns])
        order = np.argsort(key, kind="stable")
        distinct, first = np.unique(key[order], return_index=True)
        self.keys.append(distinct)
        self.ranges.append(self.end + np.column_stack([first, np.append(first[1:], count)]).reshape(-1, 2))
        self.rows.append(begin + order)
        self.end += count

    def arrays(self) -> dict[str, np.ndarray]:
        keys = np.concatenate([np.empty(0, np.uint64), *self.keys])
        table = make_lookup(keys, np.concatenate([np.empty((0, 2), np.int64), *self.ranges]))
        return {"lookup": table, "by_key": np.concatenate([np.empty(0, np.int64), *self.rows])}


def hashed(columns: list[Ints]) -> Keys:
    """One number per row for the values of some columns, as `kernels.mix` computes it value by value."""
    key = np.zeros(len(columns[0]), np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            key = getattr(mix, "py_func", mix)(key, column.astype(np.uint64))
    return key
