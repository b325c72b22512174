"""Value statistics, against counting by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiest.components import average, bit_probabilities, is_signed, magnitude

HISTOGRAMS = st.sampled_from([3, 7, 15, 31]).flatmap(
    lambda bins: st.lists(st.integers(0, 9), min_size=bins, max_size=bins).filter(any)
)


@given(HISTOGRAMS)
def test_offset_is_the_code_plus_the_largest(histogram: list[int]) -> None:
    bits = (len(histogram) + 1).bit_length() - 1
    ones = bit_probabilities(histogram, "offset", bits)
    mean = sum(i * p for i, p in enumerate(histogram)) / sum(histogram)
    assert sum(p * 2 ** (bits - 1 - i) for i, p in enumerate(ones)) == pytest.approx(mean)
    assert average(histogram, "offset", bits, bits) == pytest.approx(mean / (2**bits - 1))


@given(HISTOGRAMS)
def test_magnitude_and_two_part(histogram: list[int]) -> None:
    most = len(histogram) // 2
    bits = most.bit_length()
    mean = sum(i * p for i, p in enumerate(magnitude(histogram))) / sum(histogram)
    assert average(histogram, "magnitude", bits, bits) == pytest.approx(mean / (2**bits - 1))
    assert average(histogram, "two_part", bits, bits) == pytest.approx(mean / (2**bits - 1) / 2)


@given(HISTOGRAMS)
def test_xnor_bits_add_up_to_the_value(histogram: list[int]) -> None:
    n = (len(histogram) + 1).bit_length() - 1
    ones = bit_probabilities(histogram, "xnor", n + 2)
    weights = [*(2.0**i for i in reversed(range(n))), 0.5, 0.5]
    mean = sum((i - len(histogram) // 2) * p for i, p in enumerate(histogram)) / sum(histogram)
    assert sum((2 * p - 1) * w for p, w in zip(ones, weights, strict=True)) == pytest.approx(mean)
    gated = bit_probabilities(histogram, "zero_gated_xnor", n + 2)
    zero = histogram[len(histogram) // 2] / sum(histogram)
    assert all(g <= p + 1e-12 and p <= g + zero + 1e-12 for g, p in zip(gated, ones, strict=True))


def test_slices() -> None:
    """Codes 0 … 3 alike, in slices of one bit: each is 1 half of the time."""
    unsigned = [0, 0, 0, 1, 1, 1, 1]
    assert not is_signed(unsigned)
    assert is_signed([0, 1, 0, 1, 1, 1, 1])
    assert average(unsigned, "magnitude", 2, 1) == 0.5
    assert average(unsigned, "magnitude", 2, 2) == 0.5
    # Two more bits than the histogram tells apart are 1 half of the time.
    assert bit_probabilities(unsigned, "magnitude", 4) == (0.5, 0.5, 0.5, 0.5)
    # A last slice of one bit out of two is driven with a third of the range.
    assert average(unsigned, "magnitude", 3, 2) == pytest.approx((0.5 * 2 / 3 + 0.5 / 3 + 0.5 / 3) / 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], "offset", 1, 1), "2\\^n - 1 bins"),
        (([0, 0, 0], "offset", 2, 1), "not all of them 0"),
        (([1, -1, 1], "offset", 2, 1), "at least 0"),
        (([1, 1, 1], "gray", 2, 1), "none of offset"),
        (([1, 1, 1], "offset", 0, 1), "bits"),
        (([1, 1, 1], "offset", 2, 3), "bits_per_slice"),
    ],
)
def test_what_is_no_histogram(arguments: tuple[list[float], str, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        average(*arguments)
