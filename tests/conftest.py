"""Random tests draw the same cases each time, and how long a case takes is nothing that can fail: only what is proven counts.

`proving.cases` says otherwise where FUSIEST_PROVE=1 asks for new cases.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "suite", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")
