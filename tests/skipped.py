"""The table that ends a run of the tests: how many were skipped, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest


def skip_table(reports: Iterable[Any]) -> list[str]:
    """Lines of a table with one row for each reason, the most frequent first; empty if no test was skipped."""
    reasons: dict[str, Counter[str]] = {}
    for report in reports:
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        kind = "file" if isinstance(report, pytest.CollectReport) else "test"
        reasons.setdefault(reason, Counter())[kind] += 1
    rows = [(_words(counts), reason) for reason, counts in sorted(reasons.items(), key=_most)]
    width = max((len(count) for count, _ in rows), default=0)
    return ["", f"{'skipped':{width}}  why", *(f"{count:>{width}}  {reason}" for count, reason in rows)] if rows else []


def _most(item: tuple[str, Counter[str]]) -> tuple[int, str]:
    return -item[1].total(), item[0]


def _words(counts: Counter[str]) -> str:
    """Counts of tests and of whole files, whose tests are not known.

    >>> _words(Counter(test=3, file=1))
    '1 file, 3 tests'
    """
    return ", ".join(f"{count:,} {kind}{'s' if count != 1 else ''}" for kind, count in sorted(counts.items()))
