"""How many random cases a test tries: some dozens, always the same; with FUSIEST_PROVE=1 many more, new ones each time."""

from __future__ import annotations

import collections
import functools
import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

PROVE = os.environ.get("FUSIEST_PROVE") == "1"
SHARE = float(os.environ.get("FUSIEST_PROVE_SHARE", "0.4"))
"""Of the cases that tests ask for to prove: 0.4 should end in about an hour on two cores, 1 is for a night."""


def cases(examples: int, proving: int) -> settings:
    """`examples` in the test suite, a share of `proving` (or FUSIEST_PROVE_EXAMPLES) to prove."""
    wanted = os.environ.get("FUSIEST_PROVE_EXAMPLES", str(max(examples, round(SHARE * proving))))
    return settings(
        max_examples=int(wanted) if PROVE else examples,
        derandomize=not PROVE,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=PROVE,
    )


TALLY: collections.Counter[str] = collections.Counter()
"""What the cases of the random test that runs came to."""


def floors(examples: int, **shares: float) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator for a random test: at least 90% as many cases as asked for must have been compared, and of these such shares
    must have been of a kind that TALLY has."""

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def counted(*arguments: Any, **given: Any) -> None:
            TALLY.clear()
            test(*arguments, **given)
            wanted = test._hypothesis_internal_use_settings.max_examples if PROVE else examples  # type: ignore[attr-defined]
            assert TALLY["compared"] >= 0.9 * wanted, dict(TALLY)
            for kind, share in shares.items():
                assert TALLY[kind] >= share * TALLY["compared"], dict(TALLY)

        return counted

    return decorate
