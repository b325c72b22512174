"""The README's table of times, written from a file of results between two markers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.cases import README_CASES, BenchCase, find
from fusiest.base.files import write_atomically

BEGIN, END = "<!-- bench table -->", "<!-- /bench table -->"


def table(results: dict[str, Any]) -> str:
    """Markdown: one line per case of the README, then where and with what it was measured."""
    lines = [
        "| case | chip | search | whole process | AccelForge | times faster |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [_line(find(name), results["cases"][name]) for name in README_CASES if name in results["cases"]]
    machine, versions = results["machine"], results["versions"]
    memory = f", {machine['ram_bytes'] / 2**30:.0f} GiB" if machine["ram_bytes"] else ""
    revision = f" ({versions['revision']})" if versions["revision"] else ""
    lines += [
        "",
        f"Measured on {results['date']}: {machine['cpu']}, {machine['cores']} cores{memory}.",
        f"Python {versions['python']}, NumPy {versions['numpy']}, Numba {versions['numba']}, "
        f"fusiest {versions['fusiest']}{revision}.",
    ]
    return "\n".join(lines)


def _line(case: BenchCase, record: dict[str, Any]) -> str:
    whole = record["process_seconds"]
    published = faster = ""
    if case.published_seconds is not None:
        published, faster = f"{case.published_seconds:.0f} s", _two_digits(case.published_seconds / whole)
    return (
        f"| {case.about} | `{case.chip}` | {record['search_seconds']:.2f} s | {whole:.2f} s | {published} | {faster} |"
    )


def update(readme: Path, results: dict[str, Any]) -> None:
    """Put the table after the first marker; a second marker says where an earlier table ends."""
    before, marker, after = readme.read_text(encoding="utf-8").partition(BEGIN)
    if not marker:
        raise SystemExit(f"bench: {readme} has no line {BEGIN}")
    _, end, rest = after.partition(END)
    after = rest if end else after
    write_atomically(readme, f"{before}{BEGIN}\n\n{table(results)}\n\n{END}{after}")


def _two_digits(factor: float) -> str:
    """A factor with two digits, never in powers of ten."""
    return f"{factor:.1f}" if factor < 10 else f"{float(f'{factor:.2g}'):.0f}"
