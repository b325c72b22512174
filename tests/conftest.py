"""Random tests draw the same cases each time, and how long a case takes is nothing that can fail: only what is proven counts.

`proving.cases` says otherwise where FUSIEST_PROVE=1 asks for new cases.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.proving import PROVE, TALLY, TRIED
from tests.skipped import skip_table

settings.register_profile(
    "suite", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """What a random proof came to goes with its report, also from another process."""
    if PROVE and call.when == "call" and hasattr(getattr(item, "obj", None), "hypothesis"):
        item.user_properties.append((TRIED, dict(TALLY)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Each random proof, and all together; then why tests were skipped."""
    found = {
        r.nodeid: tally for r in terminalreporter.getreports("") for name, tally in r.user_properties if name == TRIED
    }
    for test, tally in found.items():
        terminalreporter.write_line(f"{test}: {', '.join(f'{count:,} {kind}' for kind, count in tally.items())}")
    if found:
        total: Counter[str] = sum((Counter(tally) for tally in found.values()), Counter())
        terminalreporter.write_line(f"{len(found)} random proofs, {total[TRIED]:,} cases tried")
    for line in skip_table(terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(line)
