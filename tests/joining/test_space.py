"""What shared tensors are charged in a join, and how accounts of spread holders are kept; numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fusiest
from fusiest.joining.meeting.joints import PERSISTENT, Exchanged
from fusiest.joining.meeting.shared_nodes import (
    HolderPlace,
    HolderUser,
    SharedHolder,
    SpreadHolder,
    ledger,
    merge_accounts,
    orders,
)
from fusiest.joining.rows.consolidation import fold
from fusiest.joining.rows.shared_space import make_charges, memory_sizes
from fusiest.pmapping.table import Holding, Rows
from fusiest.spec.workload.analysis import Stepping

SPEC = fusiest.load("simple", "matmuls", N_EINSUMS=2, M=8, KN=4)
"""Matmul0: T0[m, n0] W0[n0, n1] -> T1[m, n1]; Matmul1: T1[m, n1] W1[n1, n2] -> T2[m, n2]. 8 x 4 elements of 8 bits each."""
BUFFER = "GlobalBuffer"
FOUND = Path(__file__).parents[1] / "mapper" / "found_cases"
CHARGES = make_charges(SPEC, (BUFFER,))


def rows(*tiles: int) -> Rows:
    count = len(tiles)
    zeros = np.zeros(count)
    return Rows(
        np.array(tiles, np.int64)[:, None], zeros, zeros, np.zeros((count, 1, 2)), np.zeros(count, np.int64),
        np.arange(count), np.zeros((count, 1)),
    )  # fmt: skip


def charged(
    joint: dict[str, Any], spread: tuple[SpreadHolder, ...], *tiles: int
) -> list[tuple[list[int], int, list[float]]]:
    given: Any = SimpleNamespace(**({"exchanged": (), "copies": (), "shared_holders": ()} | joint))
    found = CHARGES.of(given, ledger(spread, (BUFFER,)), rows(*tiles))
    return [(list(c.accounts), c.zones, c.bits.tolist()) for c in found]


def test_sizes_of_memories() -> None:
    assert {name: sizes.tolist() for name, sizes in memory_sizes(SPEC, (BUFFER,)).items()} == {
        "Matmul0": [8 * 1024 * 1024], "Matmul1": [8 * 1024 * 1024]
    }  # fmt: skip


def test_an_exchanged_tensor_takes_its_tile() -> None:
    """T1 below a loop over m with tiles of 2 or 8: 2 x 4 or 8 x 4 elements of 8 bits."""
    m = Stepping("M", 1, 0)
    exchanged = Exchanged("T1", BUFFER, 1, ((m, 0),))
    assert charged({"exchanged": (exchanged,)}, (), 2, 8) == [([0], 1, [64.0, 256.0])]
    whole = Exchanged("T1", BUFFER, 0, ())
    assert charged({"exchanged": (whole,)}, (), 1) == [([0], 0, [256.0])]
    assert charged({"exchanged": (Exchanged("T1", BUFFER, PERSISTENT, ()),)}, (), 1) == [([0], PERSISTENT, [256.0])]
    assert charged({"exchanged": (Exchanged("T1", "MainMemory", 0, ()),)}, (), 1) == []


def test_bits_per_value_are_those_of_each_user() -> None:
    """Buffer gives results 2 bits and the rest 8. T is 16 results where it is made, and 4 of them are read: 32 bits are the most."""
    charges = make_charges(fusiest.load(FOUND / "results_narrower_than_inputs.yaml"), ("Buffer",))
    given: Any = SimpleNamespace(exchanged=(Exchanged("T", "Buffer", 0, ()),), copies=(), shared_holders=())
    (charge,) = charges.of(given, ledger((), ("Buffer",)), rows(1))
    assert charge.bits.tolist() == [32.0]
    place = HolderPlace("T", "Buffer", 0)
    made, read = HolderUser("T", (("n", 0),)), HolderUser("O", (("q", 0),))
    given = SimpleNamespace(exchanged=(), copies=(), shared_holders=(SharedHolder(place, 0, read, (made,)),))
    (charge,) = charges.of(given, ledger((), ("Buffer",)), rows(1, 4))
    assert charge.bits.tolist() == [1 * 8 - 1 * 2, 4 * 8 - 4 * 2]


def test_of_copies_only_what_is_more_is_charged() -> None:
    """T0 is charged whole, 256 bits; T1, its copy below a loop over m, needs 64 of them; the other way round 192 more."""
    m = Stepping("M", 1, 0)
    pair = frozenset({"T0", "T1"})
    whole, part = Exchanged("T0", BUFFER, 0, (), charged=True), Exchanged("T1", BUFFER, 1, ((m, 0),))
    assert charged({"exchanged": (whole, part), "copies": (pair,)}, (), 2) == [([0], 1, [0.0])]
    whole, part = Exchanged("T0", BUFFER, 0, ()), Exchanged("T1", BUFFER, 1, ((m, 0),), charged=True)
    assert charged({"exchanged": (whole, part), "copies": (pair,)}, (), 2) == [([0], 0, [192.0])]


def test_a_shared_holder_is_charged_what_the_next_user_needs_more() -> None:
    """W1 is 4 x 4; Matmul1 steps n2 above it with tiles of 1 or 4: 4 or 16 elements; before it, 8 bits x 4 were there."""
    place = HolderPlace("W1", BUFFER, 0)
    user, other = HolderUser("Matmul1", (("n2", 0),)), HolderUser("Matmul1", (("n1", 0), ("n2", 0)))
    holder = SharedHolder(place, 0, user, (other,))
    assert charged({"shared_holders": (holder,)}, (), 1, 4) == [([0], 0, [4 * 8 - 1 * 8.0, 0.0])]
    first = SharedHolder(place, 0, user, ())
    assert charged({"shared_holders": (first,)}, (), 1, 4) == [([0], 0, [32.0, 128.0])]


def test_the_account_of_a_new_depth_begins_without_those_that_did_not_sink() -> None:
    """W1 was held right below its holder, 4 x 4 of 8 bits; now somebody holds it at depth 1: there, the old space is not."""
    place = HolderPlace("W1", BUFFER, 0)
    spread = SpreadHolder(place, (0, 1), (0,), (0, 1), (HolderUser("Matmul1", ()),))
    found = charged({}, (spread,), 1)
    accounts = ledger((spread,), (BUFFER,))
    assert [account.depths for account in accounts.accounts] == [(0,), (1,)]
    assert found == [([1], 0, [-128.0])]
    assert (accounts.before, accounts.after, accounts.memory) == ([0, 0], [0, 1], [0, 0])
    assert accounts.counting(place, 1) == [1] == accounts.opened(spread)


def test_accounts_that_become_one_keep_the_larger_at_every_depth() -> None:
    reserved = np.array([[[3.0], [5.0]]])
    beside = np.array([[[4.0, 4.0], [1.0, 0.0]]])
    above, needed = merge_accounts(reserved, beside, [0, 0])
    assert above.tolist() == [[[5.0]]]
    assert needed.tolist() == [[[4.0, 2.0]]]  # max(3 + 4, 5 + 0) - 5


def test_closed_zones_are_summed_along_a_branch() -> None:
    """Below the inner zone 6, and 3 above it: 9, more than the 4 beside; 2 more above the outer zone."""
    reserved, beside = np.array([[[2.0, 3.0]]]), np.array([[[1.0, 4.0, 6.0]]])
    assert [part.tolist() for part in fold(reserved, beside, 1)] == [[[[2.0]]], [[[1.0, 9.0]]]]
    assert [part.tolist() for part in fold(reserved, beside, 0)] == [[[[]]], [[[11.0]]]]


@pytest.mark.parametrize(("over", "fits"), [((("B", "X"),), True), ((("B", "X"), ("A", "X")), False)])
def test_holders_that_must_stand_above_each_other(over: tuple[tuple[str, str], ...], fits: bool) -> None:
    found = orders([Holding("A", "X", 0, 1, over), Holding("B", "X", 0, 0, ())])
    assert (found is not None) == fits
