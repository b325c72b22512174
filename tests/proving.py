"""How many random cases a test tries: some dozens, always the same; with FUSIEST_PROVE=1 many more, new ones each time."""

from __future__ import annotations

import collections
import functools
import math
import os
import time
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.errors import Flaky, HypothesisException

PROVE = os.environ.get("FUSIEST_PROVE") == "1"
SECONDS = float(os.environ.get("FUSIEST_PROVE_SECONDS", "35"))
"""How long a test goes on to prove. 35: all end within 25 minutes on two cores; 600 is for a night."""

TALLY: collections.Counter[str] = collections.Counter()
"""What the cases of the random test that runs came to."""
TRIED = "tried"
AnyTest = Callable[..., Any]
Decorator = Callable[[AnyTest], AnyTest]


class _EnoughTried(BaseException):
    """The time is over. Hypothesis passes on what is no Exception."""


def cases(examples: int, proving: int) -> Decorator:
    """A decorator for a random test: `examples` in the test suite; to prove, `proving` (or FUSIEST_PROVE_EXAMPLES) or as many as
    can be tried in some time."""
    wanted = int(os.environ.get("FUSIEST_PROVE_EXAMPLES", str(proving))) if PROVE else examples
    chosen = settings(
        max_examples=wanted,
        derandomize=not PROVE,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=PROVE,
    )
    return lambda test: _timed(chosen(test)) if PROVE else chosen(test)


def _timed(test: AnyTest) -> AnyTest:
    """A test that is over after some time, unless a case has failed: then Hypothesis looks for a smaller one."""
    handle: Any = test.hypothesis
    tried, clock = handle.inner_test, {"end": math.inf, "failed": 0.0}

    @functools.wraps(tried)
    def try_one(*arguments: Any, **given: Any) -> None:
        if time.monotonic() > clock["end"]:
            raise _EnoughTried
        try:
            tried(*arguments, **given)
        except HypothesisException:
            raise
        except Exception:
            clock.update(end=math.inf, failed=1.0)
            raise
        TALLY[TRIED] += 1

    handle.inner_test = try_one

    @functools.wraps(test)
    def whole(*arguments: Any, **given: Any) -> None:
        clock.update(end=time.monotonic() + SECONDS, failed=0.0)
        TALLY.clear()
        try:
            test(*arguments, **given)
        except (_EnoughTried, Flaky):  # a case that ended before it drew its data is flaky to Hypothesis
            if clock["failed"] or time.monotonic() <= clock["end"]:
                raise
        assert TALLY[TRIED]

    return whole


def floors(examples: int, **shares: float) -> Decorator:
    """A decorator for a random test: at least 90% of the cases asked for must have been compared, and of these such shares
    must have been of a kind that TALLY has. To prove, half of these shares: cases may be larger there, and fewer of them are
    fused. New cases may miss it by what chance does, three standard deviations."""

    def decorate(test: AnyTest) -> AnyTest:
        @functools.wraps(test)
        def counted(*arguments: Any, **given: Any) -> None:
            TALLY.clear()
            test(*arguments, **given)
            compared = TALLY["compared"]
            assert compared >= _least(0.9, TALLY[TRIED] if PROVE else examples), dict(TALLY)
            for kind, share in shares.items():
                assert TALLY[kind] >= _least(share / 2 if PROVE else share, compared), dict(TALLY)

        return counted

    return decorate


def _least(share: float, count: int) -> float:
    """So many of these must have been met. A share above 1 is a number per case, which chance spreads more."""
    spread = share if share > 1 else share * (1 - share)
    return share * count - (3 * math.sqrt(spread * count) if PROVE else 0)
