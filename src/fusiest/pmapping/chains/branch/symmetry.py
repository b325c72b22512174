"""Mirror images: variables that change places, as height and width of a square convolution.

Of two nests that are each other's image, one is searched. Where only energy and latency matter, images cost the same.
So do combinations of chains of one nest that is its own image.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from fusiest.pmapping.chains.terms import Terms

Swapping = tuple[tuple[int, int], ...]
"""Pairs of variables, by number, that change places."""
_MOST_PAIRS = 2
_ROUNDING = 1e-12


def swappings(count: int, alike: Callable[[int, int], bool]) -> list[Swapping]:
    """Some pairs of alike variables that change places at once.

    >>> swappings(3, lambda a, b: True)
    [((0, 1),), ((0, 2),), ((1, 2),)]
    """
    pairs = [(a, b) for a, b in itertools.combinations(range(count), 2) if alike(a, b)]
    return [
        swapping
        for number in range(1, _MOST_PAIRS + 1)
        for swapping in itertools.combinations(pairs, number)
        if len({v for pair in swapping for v in pair}) == 2 * number
    ]


def images(one: Terms, other: Terms, options: Sequence[Swapping]) -> Iterator[Swapping]:
    """Swappings that turn one nest's sums into the other's: every product, with its weight in every criterion."""
    return (swapping for swapping in options if _is_image(one, other, swapping))


def _is_image(one: Terms, other: Terms, swapping: Swapping) -> bool:
    order = list(range(len(one.variables)))
    for a, b in swapping:
        order[a], order[b] = b, a
    if len(one.weights) != len(other.weights) or one.criteria.keys() != other.criteria.keys():
        return False
    numbers = {number: other.criteria[name] for name, number in one.criteria.items()}
    for key, weights in one.weights.items():
        image = other.weights.get(tuple(key[i] for i in order))
        if image is None or len(image) != len(weights):
            return False
        if not all(math.isclose(image.get(numbers[i], math.nan), w, rel_tol=_ROUNDING) for i, w in weights.items()):
            return False
    return True
