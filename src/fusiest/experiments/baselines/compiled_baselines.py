"""How the baselines' inner loops are compiled, and a hash table for them.

A space has some forty arrays. Counting references to each at every call costs several times what a move does, so these
functions neither count nor allocate: what they write to is handed in. To hand over all arrays costs as much as a small
function does, so LLVM puts each where it is called.
"""

# mypy: disallow-untyped-defs=False
# Numba finds the types of compiled code.

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fusiest.base.compiled import compiled

kernel: Any = compiled(_nrt=False, forceinline=True)
inlined: Any = compiled(_nrt=False, inline="always")
"""For the smallest: Numba does so itself, before it looks at types."""

Keys = npt.NDArray[np.uint64]


def make_lookup(keys: Keys, ranges: npt.NDArray[np.int64]) -> Keys:
    """A table for `find`: per slot a key and the range that belongs to it, at least half of the slots empty.

    >>> table = make_lookup(np.array([7, 9], np.uint64), np.array([[0, 3], [3, 5]]))
    >>> find(table, np.uint64(9)), find(table, np.uint64(8))
    ((3, 5), (0, 0))
    """
    table = np.zeros((1 << (2 * len(keys)).bit_length(), 3), np.uint64)
    _fill(table, keys, ranges.astype(np.uint64))
    return table


@compiled()
def _fill(table, keys, ranges):
    mask = np.uint64(len(table) - 1)
    for k in range(len(keys)):
        slot = keys[k] & mask
        while table[slot, 2]:
            slot = (slot + np.uint64(1)) & mask
        table[slot, 0] = keys[k]
        table[slot, 1:] = ranges[k]


@inlined
def find(table, key):
    """The range that belongs to a key; an empty one if none does."""
    mask = np.uint64(len(table) - 1)
    slot = key & mask
    while table[slot, 2] and table[slot, 0] != key:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(table[slot, 1]), np.int64(table[slot, 2])


@inlined
def copy(target, source):
    """Copy without allocating, which target[:] = source would do."""
    for i in range(len(target)):
        target[i] = source[i]
