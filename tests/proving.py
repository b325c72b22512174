"""How many random cases a test tries: some dozens, always the same; with FUSIEST_PROVE=1 many more, new ones each time."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROVE = os.environ.get("FUSIEST_PROVE") == "1"


def cases(examples: int, proving: int) -> settings:
    """`examples` in the test suite, `proving` (or FUSIEST_PROVE_EXAMPLES) to prove."""
    return settings(
        max_examples=int(os.environ.get("FUSIEST_PROVE_EXAMPLES", str(proving))) if PROVE else examples,
        derandomize=not PROVE,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=PROVE,
    )
