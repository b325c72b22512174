"""Compilation ahead of use: another process compiles the kernels of fanouts, while this one goes on."""

from __future__ import annotations

import numpy as np

from fusiest.base.compiled import compile_elsewhere
from fusiest.pmapping.lattice import pair_kernels
from fusiest.pmapping.lattice.bound_kernels import NOTHING_ACROSS, Bar, ToBeat


def compile_ahead() -> None:
    """Begin to compile, if that is not done yet. The search waits for it when it gets there."""
    compile_elsewhere([pair_kernels.pair, pair_kernels.cross], cross_little)


def cross_little() -> None:
    """Run the kernels of fanouts on one row and one Spatial choice, with arrays as a search has them."""
    zero = np.zeros((1, 1), np.int64)
    shapes, start, below, choice = pair_kernels.pair(zero, zero, 1)
    pairs = pair_kernels.Pairs(shapes, start, below, choice, np.arange(2))
    bar = Bar(
        np.zeros((1, 1), np.float32),
        ToBeat(np.ones(0, np.bool_), np.ones(2), np.zeros((0, 2)), np.zeros((0, 3)), np.ones(1)),
    )
    pair_kernels.cross(pairs, np.ones((1, 1)), np.ones((1, 1, 2)), bar, NOTHING_ACROSS)
