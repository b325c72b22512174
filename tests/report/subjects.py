"""Results that the report's tests share, each found once per test process."""

from __future__ import annotations

import functools
from pathlib import Path

import fusiest
from fusiest.mapper.options import Options
from fusiest.mapper.results.result import Result
from fusiest.report import Subject, report_html, subject_of
from fusiest.report.data.unfused import unfused_optimum
from fusiest.spec.reading.loading import load_texts

HOSTILE = "</script><img src=x onerror=document.title='hit'>&amp;%{x}"
TRADEOFF = Path(__file__).parent / "tradeoff.yaml"


@functools.cache
def tradeoff() -> Subject:
    """A front of several points, whose spec, title and note try to break out of the page."""
    text = TRADEOFF.read_text(encoding="utf-8").replace("name: X,", f'name: "{HOSTILE}",')
    spec = load_texts({str(TRADEOFF): text}, {})
    return subject_of(fusiest.map(spec, jobs=1), f"tradeoff {HOSTILE}", HOSTILE)


@functools.cache
def slope() -> Subject:
    """Energy against the capacity of a memory."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=2, M=32, KN=32)
    return subject_of(fusiest.map(spec, "energy", usage="GlobalBuffer", jobs=1), "two matmuls")


@functools.cache
def page() -> str:
    return report_html(tradeoff())


@functools.cache
def gpt3() -> Result:
    """The unfused optimum of GPT-3 6.7B, which takes a moment: as many Einsums, tensors and components as any."""
    spec = fusiest.load("tpu_v4i", "gpt3_6.7B", BATCH_SIZE=64, N_TOKENS=4096)
    found = unfused_optimum(spec, Options(jobs=1))
    assert isinstance(found, Result)
    return found


@functools.cache
def chain_page() -> str:
    """64 matmuls on a machine that takes no time and has far more space than it needs."""
    spec = fusiest.load("snowcat", "matmuls", N_EINSUMS=64, M=128, KN=128)
    found = unfused_optimum(spec, Options(jobs=1))
    assert isinstance(found, Result)
    return report_html(Subject(found, found, "64 matmuls", ""))


@functools.cache
def gpt3_page() -> str:
    return report_html(Subject(gpt3(), gpt3(), "GPT-3 6.7B", "64 x 4096 tokens"))
