"""Numbers on axes and names in legends of chart files: round, with their units, and no more than there is room for."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fusiest.show import bits, si


def words(value: float, unit: str) -> str:
    """A number for a label.

    >>> words(0.0021, "J"), words(2048, "B"), words(64, "B"), words(12.5, "%"), words(14232, ""), words(12345.6, "op/B")
    ('2.1 mJ', '2 KiB', '64 B', '12.5%', '14.23k', '12,350 op/B')
    >>> words(0.1, "op/B")
    '0.1 op/B'
    """
    if unit == "B":
        return bits(value * 8) if value >= 1024 else f"{value:.4g} B"
    if unit == "%":
        return f"{value:.3g}%"
    if unit == "":
        return si(value, "").replace(" ", "")
    if unit == "op/B" and 1e-3 <= value < 1e6:
        return f"{float(f'{value:.4g}'):,.10g} {unit}"
    return si(value, unit)


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers on a logarithmic axis: at least two and at most eight of them.

    Powers of ten, with their halves and fifths where there is room, or evenly spaced numbers where the range is too small.

    >>> [f"{tick:g}" for tick in log_ticks(0.5, 2e6)]
    ['1', '10', '100', '1000', '10000', '100000', '1e+06']
    >>> log_ticks(3, 70), [f"{tick:.3g}" for tick in log_ticks(4.1e11, 6.3e11)]
    ([5.0, 10.0, 20.0, 50.0], ['4.5e+11', '5e+11', '5.5e+11', '6e+11'])
    """
    span = math.log10(high / low)
    if span < 1:
        step = _round_up((high - low) / 5)
        return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
    stride = math.ceil(span / 7)
    factors = (1, 2, 5) if span < 2.5 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [f * 10.0**k for k in powers if k % stride == 0 for f in factors if low <= f * 10.0**k <= high]


def binary_ticks(low: float, high: float) -> list[float]:
    """Powers of two on a logarithmic axis, at most eight.

    >>> binary_ticks(1000, 70000), binary_ticks(1, 1e6)
    ([1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0], [1.0, 8.0, 64.0, 512.0, 4096.0, 32768.0, 262144.0])
    """
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    return [2.0**k for k in range(first, last + 1) if k % math.ceil((last - first + 1) / 8) == 0]


def with_room(ticks: Sequence[float], unit: str, width: float) -> list[float]:
    """Every tick of an axis, or every second, third, …: so that their words, on one line, do not meet in these inches.

    >>> with_room([0.1, 1, 10, 100, 1000, 10000], "op/B", 3.5), with_room([1, 2, 5], "s", 3.5)
    ([0.1, 10, 1000], [1, 2, 5])
    """
    letter = 0.08
    room = width / max(len(ticks), 1)
    step = math.ceil((1 + max((len(words(tick, unit)) for tick in ticks), default=0)) * letter / room)
    return list(ticks[:: max(step, 1)])


def _round_up(value: float) -> float:
    """1, 2 or 5 times a power of ten."""
    size = 10.0 ** math.floor(math.log10(value))
    return next(factor * size for factor in (1, 2, 5, 10) if factor * size >= value * (1 - 1e-9))


def legend_columns(labels: Sequence[str], width: float) -> int:
    """Number of columns that fit in these inches; a legend is filled column by column, the first ones with one more.

    >>> legend_columns(["a"] * 9, 5), legend_columns(["a rather long name of a series"] * 4, 5), legend_columns(["x" * 200], 5)
    (6, 2, 1)
    """
    letter, handle = 0.055, 0.42
    for count in range(min(len(labels), 6), 1, -1):
        rows, longer = divmod(len(labels), count)
        ends = [(i + 1) * rows + min(i + 1, longer) for i in range(count)]
        columns = [labels[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        if sum(max(map(len, column)) * letter + handle for column in columns) <= width:
            return count
    return 1
