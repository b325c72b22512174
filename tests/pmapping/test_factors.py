"""Prime factors, by trying them all, and of numbers for which that would take years."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiest.pmapping.nest.factors import divisors, primes


@given(st.integers(1, 200_000))
def test_factors_and_divisors(n: int) -> None:
    assert math.prod(primes(n)) == n
    assert all(p % d for p in primes(n) for d in range(2, math.isqrt(p) + 1))
    assert divisors(n) == [d for d in range(1, n + 1) if n % d == 0]


@pytest.mark.parametrize(
    "factors",
    [
        [999_999_929, 999_999_937],
        [2_147_483_629, 2_147_483_647],
        [2**61 - 1],
        [1009, 1009, 1013],
        [2, 3, 1_000_000_007],
    ],
)
def test_large_factors(factors: list[int]) -> None:
    assert primes(math.prod(factors)) == factors
