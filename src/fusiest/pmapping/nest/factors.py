"""Prime factors and divisors of numbers below 2^64, also of those without small factors."""

from __future__ import annotations

import math
from functools import cache

SMALL = 1_000
_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
"""No composite number below 2^64 passes the test of Miller and Rabin for all of these."""


def primes(n: int) -> list[int]:
    """Prime factors in ascending order, with repetition.

    >>> primes(12), primes(999_999_929 * 999_999_937)
    ([2, 2, 3], [999999929, 999999937])
    """
    factors = []
    p = 2
    while p * p <= n and p < SMALL:
        while n % p == 0:
            factors.append(p)
            n //= p
        p += 1
    return factors + (sorted(_large(n)) if n > 1 else [])


@cache
def divisors(n: int) -> list[int]:
    """All divisors in ascending order.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    result = {1}
    for p in primes(n):
        result |= {d * p for d in result}
    return sorted(result)


def _large(n: int) -> list[int]:
    """Prime factors of a number that has none below SMALL."""
    if n < SMALL * SMALL or _is_prime(n):
        return [n]
    factor = _factor(n)
    return _large(factor) + _large(n // factor)


def _is_prime(n: int) -> bool:
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for witness in _WITNESSES:
        power = pow(witness, odd, n)
        if power not in (1, n - 1) and all((power := power * power % n) != n - 1 for _ in range(twos - 1)):
            return False
    return True


def _factor(n: int) -> int:
    """A proper factor of an odd composite number: Pollard's rho, about the fourth root of n steps."""
    for start in range(1, n):
        slow = fast = start
        factor = 1
        while factor == 1:
            slow = (slow * slow + start) % n
            fast = (fast * fast + start) % n
            fast = (fast * fast + start) % n
            factor = math.gcd(slow - fast, n)
        if factor != n:
            return factor
    raise AssertionError(f"{n} is prime")
