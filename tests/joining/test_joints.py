"""How a partial mapping and the next Einsum meet, by hand: E0 makes T[m] and S[m], of 4 values each, and U uses them."""

from __future__ import annotations

import pytest

from fusiest.joining.meeting.compatibility import APART, EMPTY, EinsumView, OpenCompatibility, OpenLoop
from fusiest.joining.meeting.fits import Fit, JoinRules, matches
from fusiest.joining.meeting.joints import Joint, Meeting
from fusiest.pmapping.table import Backing, Compatibility, FusedLoop
from fusiest.spec.workload.analysis import Stepping
from tests.load_text import load_text

WORKLOAD = """
workload:
  rank_sizes: {M: 4, N: 2}
  bits_per_value: {All: 8}
  einsums:
  - "T[m] = A[m]"
  - "S[m] = B[m]"
  - "U[m] = T[%s] * S[m]"
"""
M0, M1 = FusedLoop("m", 0), FusedLoop("m", 1)
STEP = Stepping("M", 1, 0)


def view(einsum: str, index: str = "m") -> EinsumView:
    return EinsumView(load_text(WORKLOAD % index).info.einsums[einsum])


def joined(
    before: OpenCompatibility, own: Compatibility, user: EinsumView, shared: str, after: str = ""
) -> list[Joint]:
    """All ways to join. `shared`: the Einsum's tensors that were live before; `after`: those that live on."""
    fits = (Fit(before, own, user, match, JoinRules()) for match in matches(before, own, user, frozenset(shared)))
    return [Meeting(fit, before, frozenset(after)).joint() for fit in fits if fit.fits()]


def meet(before: OpenCompatibility, own: Compatibility, index: str = "m") -> list[Joint]:
    """U is the last to use T and S."""
    return joined(before, own, view("U", index), "TS")


def one_loop(produced: Stepping | None) -> OpenCompatibility:
    """A loop over m above S; T is exchanged above it, and made inside it as `produced` says."""
    loop = OpenLoop(frozenset({("S", STEP)}), 4, frozenset({("T", produced)}))
    return OpenCompatibility(((loop,),), (Backing("S", "GLB", 1), Backing("T", "GLB", 0)))


INSIDE = Compatibility(((M0,),), (Backing("S", "GLB", 1), Backing("T", "GLB", 0)))


def test_a_first_einsum_opens_the_loops_above_what_lives_on() -> None:
    """T is backed below m, the loop over a second tile of m below T is closed at once."""
    own = Compatibility(((M0,), (M1,)), (Backing("T", "GLB", 1),))
    (joint,) = joined(EMPTY, own, view("T"), "", "T")
    assert (joint.zones, joint.open_zones) == (2, 1)
    assert joint.matched == ()
    assert joint.tiles == (0,)  # of the Einsum's two columns of tiles, the one of M0
    assert [loop.ranks for loop in joint.compatibility.loops] == [frozenset({("T", STEP)})]
    assert joint.compatibility.backings == (Backing("T", "GLB", 1),)
    (exchanged,) = joint.exchanged
    assert (exchanged.tensor, exchanged.zones, exchanged.columns) == ("T", 1, ((STEP, 0),))


def test_a_consumer_runs_in_the_loops_that_are_open() -> None:
    (joint,) = meet(one_loop(STEP), INSIDE)
    assert joint.matched == ((0, 0),)
    assert joint.compatibility == EMPTY  # nothing lives on


def test_both_have_the_same_loops_above_a_tensor() -> None:
    """With two loops over m above S, where the partial mapping has one, the Einsum has another tile of S at a time.

    Relaxed, the two agree: the same rank is stepped.
    """
    before = OpenCompatibility(((OpenLoop(frozenset({("S", STEP)}), 4),),), (Backing("S", "GLB", 1),))
    assert len(meet(before, Compatibility(((M0,), (M1,)), (Backing("S", "GLB", 1),)))) == 1
    assert meet(before, Compatibility(((M0,), (M1,)), (Backing("S", "GLB", 2),))) == []


def test_an_einsum_that_lacks_an_open_loop_does_not_fit() -> None:
    assert meet(one_loop(STEP), Compatibility((), (Backing("S", "GLB", 0), Backing("T", "GLB", 0)))) == []


@pytest.mark.parametrize(
    ("produced", "index", "fits"),
    [
        (STEP, "m", True),  # iteration m makes T[m] and uses it
        (None, "m", False),  # T is finished only with the loop
        (APART, "m", False),  # its producer holds it elsewhere until then
        (STEP, "M: m + 1", False),  # T[m + 1] is made one iteration later
        (Stepping("M", 1, 1), "m", True),  # iteration m makes T[m + 1]
        (Stepping("M", -1, 3), "m", False),  # the last one comes first
    ],
)
def test_a_tensor_is_used_only_when_it_is_finished(produced: Stepping | None, index: str, fits: bool) -> None:
    assert len(meet(one_loop(produced), INSIDE, index)) == fits


def test_loops_that_cannot_be_put_in_one_order_do_not_fit() -> None:
    """m above n here, n above m there, both above S."""
    text = WORKLOAD.replace('"S[m] = B[m]"', '"S[m, n] = B[m, n]"').replace("S[m]", "S[m, n]") % "m"
    own = EinsumView(load_text(text.replace('"U[m]', '"U[m, n]')).info.einsums["U"])
    steps = {v: frozenset({("S", Stepping(v.upper(), 1, 0))}) for v in "mn"}
    before = OpenCompatibility(((OpenLoop(steps["m"], 4),), (OpenLoop(steps["n"], 2),)), (Backing("S", "GLB", 2),))
    for zones, ways in (("mn", 1), ("nm", 0)):
        loops = tuple((FusedLoop(v),) for v in zones)
        compatibility = Compatibility(loops, (Backing("S", "GLB", 2),))
        assert len(joined(before, compatibility, own, "S")) == ways
