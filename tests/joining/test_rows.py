"""Joining rows, with numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fusiest.joining.rows import matching_pairs, merge_partial, start_rows, tile_keys


@pytest.mark.parametrize(
    ("taken", "energy", "kept"),
    [([3, 3, 1], [5.0, 5.0, 2.0], [1, 3]), ([3, 3, 1], [5.0, 6.0, 2.0], [1, 3]), ([3, 1, 1], [5.0, 6.0, 5.0], [3])],
)
def test_equal_space_taken_keeps_no_dominated_row(taken: list[int], energy: list[float], kept: list[int]) -> None:
    """Of rows with the same beginning, one is kept for each amount of space taken, and none if more costs no more."""
    rows = replace(start_rows(1, 3), taken=np.array(taken), energy=np.array(energy))
    assert sorted(merge_partial([rows]).taken.tolist()) == kept


def test_tile_keys_of_any_tiles() -> None:
    left = np.array([[3, 1 << 40], [4, 7]], np.int64)
    right = np.array([[4, 7], [3, 1 << 40], [3, 5]], np.int64)
    for bounds in ([4, 1 << 41], [1 << 40, 1 << 41]):
        i, j = matching_pairs(*tile_keys(left, right, bounds))
        assert sorted(zip(i.tolist(), j.tolist(), strict=True)) == [(0, 1), (1, 0)]
