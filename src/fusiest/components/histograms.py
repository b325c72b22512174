"""Value statistics: what encodings make of a histogram of codes, bit by bit and slice by slice.

A histogram has 2^n − 1 bins, the (not normalized) probabilities of the codes −max … max. Bits are listed from the most
significant one. Encodings:

- `offset`: code + max, in n bits;
- `magnitude`: the absolute value, in n − 1 bits;
- `two_part`: positive and negative values in parts of their own, the other part 0;
- `xnor`: bits stand for +1 and −1, with weights 2^(n−1) … 1, ½, ½;
- `zero_gated_xnor`: the same, but zeros switch nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

ENCODINGS = ("offset", "magnitude", "two_part", "xnor", "zero_gated_xnor")
MAX_BINS = 4_095
MAX_BITS = 64


def is_signed(histogram: Sequence[float]) -> bool:
    """Whether negative codes occur.

    >>> is_signed([0, 0, 0, 3, 2, 1, 0])
    False
    """
    return any(p > 0 for p in _bins(histogram)[: len(histogram) // 2])


def magnitude(histogram: Sequence[float]) -> tuple[float, ...]:
    """Probabilities of the absolute values 0 … max.

    >>> magnitude([1, 2, 4])
    (2, 5)
    """
    bins = _bins(histogram)
    middle = len(bins) // 2
    return (bins[middle], *(bins[middle + i] + bins[middle - i] for i in range(1, middle + 1)))


def bit_probabilities(histogram: Sequence[float], encoding: str, bits: int) -> tuple[float, ...]:
    """How often each of the first `bits` bits of the code is 1; bits beyond the histogram's are 1 half of the time.

    >>> bit_probabilities([1, 0, 1], "offset", 2)
    (0.5, 0.0)
    """
    if not 1 <= bits <= MAX_BITS or bits != int(bits):
        raise ValueError(f"bits must be a whole number from 1 to {MAX_BITS}")
    if encoding not in ENCODINGS:
        raise ValueError(f"encoding '{encoding}' is none of {', '.join(ENCODINGS)}")
    probabilities = _probabilities(_bins(histogram), encoding)
    count = int(bits)
    return (*probabilities[:count], *([0.5] * (count - len(probabilities))))


def average(histogram: Sequence[float], encoding: str, bits: int, bits_per_slice: int) -> float:
    """Mean value of a slice of the encoded code, as a share of the largest value of a slice.

    The last slice has what bits are left; it is driven in the same steps as the others.

    >>> average([0, 0, 1], "magnitude", 1, 1)
    1.0
    """
    if not 1 <= bits_per_slice <= bits or bits_per_slice != int(bits_per_slice):
        raise ValueError("bits_per_slice must be a whole number from 1 to bits")
    step, ones = int(bits_per_slice), bit_probabilities(histogram, encoding, bits)
    slices = [ones[i : i + step] for i in range(0, len(ones), step)]
    largest = (1 << step) - 1
    return math.fsum(p * (1 << (len(s) - 1 - i)) for s in slices for i, p in enumerate(s)) / largest / len(slices)


def _bins(histogram: Sequence[float]) -> tuple[float, ...]:
    bins = tuple(histogram)
    if not bins or len(bins) & (len(bins) + 1) or len(bins) > MAX_BINS:
        raise ValueError(f"a histogram has 2^n - 1 bins, at most {MAX_BINS}, but this one has {len(bins)}")
    if not all(0 <= p < math.inf for p in bins) or not sum(bins) > 0:
        raise ValueError("a histogram has bins of at least 0, not all of them 0")
    return bins


@lru_cache(maxsize=256)
def _probabilities(bins: tuple[float, ...], encoding: str) -> tuple[float, ...]:
    most, total = len(bins) // 2, math.fsum(bins)
    codes = [(_encoded(code, most, encoding), p / total) for code, p in zip(range(-most, most + 1), bins, strict=True)]
    return tuple(math.fsum(p * bits[i] for bits, p in codes) for i in range(len(codes[0][0])))


def _encoded(code: int, most: int, encoding: str) -> list[float]:
    """The bits of a code; a value that is in one of two parts counts half."""
    n = (2 * most + 1).bit_length()
    if encoding == "offset":
        return _binary(code + most, n)
    if encoding in ("magnitude", "two_part"):
        share = 0.5 if encoding == "two_part" else 1.0
        return [share * bit for bit in _binary(abs(code), max(n - 1, 1))]
    if encoding == "zero_gated_xnor" and code == 0:
        return [0.0] * (n + 2)
    bits: list[float] = []
    remainder = float(code)
    for weight in [*(2.0**i for i in range(n - 1, -1, -1)), 0.5, 0.5]:
        bits.append(1.0 if remainder > 0 else 0.0)
        remainder -= weight if remainder > 0 else -weight
    return bits


def _binary(value: int, bits: int) -> list[float]:
    return [float(value >> i & 1) for i in reversed(range(bits))]
