"""Why a mapping costs more: differences by component and tensor add up, and fetches are counted against once."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusiest.comparison import Comparison, read_result
from fusiest.report.comparison_page import page_data
from fusiest.report.reasons import Fetches, difference, reasons
from tests.command_line import Capture, run

MATMULS = ("simple", "matmuls", "-D", "N_EINSUMS=2", "-D", "M=64", "-D", "KN=64", "--objective", "edp", "--jobs", "1")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("saved")
    made = {name: str(folder / f"{name}.json") for name in ("large", "small", "other")}
    defines = {"large": (), "small": ("-D", "GlobalBufferSize=16384"), "other": ("-D", "M=32")}
    from fusiest.cli import app

    for name, file in made.items():
        app(["map", *MATMULS, *defines[name], "--quiet", "--json", file], standalone_mode=False)
    return made


def compared(*files: str) -> Comparison:
    return Comparison(tuple(read_result(file) for file in files))


def test_differences_add_up_and_the_largest_is_first(files: dict[str, str]) -> None:
    comparison = compared(files["large"], files["small"])
    found = reasons(comparison)
    assert found is not None
    a, b = (saved.evaluation for saved in comparison.results)
    assert sum(map(difference, found.energy)) == pytest.approx(b.energy - a.energy)
    for which, evaluation in enumerate((a, b)):
        assert sum(row.values[which] or 0 for row in found.energy) == pytest.approx(evaluation.energy)
        busy = [seconds for einsum in evaluation.einsums.values() for seconds in einsum.latency_per_component.values()]
        assert sum(row.values[which] or 0 for row in found.seconds) == pytest.approx(sum(busy))
    for rows in (found.energy, found.seconds):
        sizes = [abs(difference(row)) for row in rows]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] > 0
        assert rows[0].name == "MainMemory T2"


def test_fetches_by_hand(files: dict[str, str]) -> None:
    """With room for all, each value crosses once. With 16 Kib, inputs and weights come twice, and sums of T2 go and return."""
    found = reasons(compared(files["large"], files["small"]))
    assert found is not None
    main = "MainMemory"
    once, twice = Fetches(main, 1, 0), Fetches(main, 2, 0)
    added_up = Fetches(
        "GlobalBuffer", 63 + 64, 64
    )  # n0 outermost: all but the first of 64 sums are read; then once for each n2
    assert found.fetches.pop("T1") == (added_up, added_up)
    assert found.fetches == {
        "T2": (Fetches(main, 0, 1), Fetches(main, 1, 2)),
        **dict.fromkeys(("T0", "W0", "W1"), (once, twice)),
    }
    assert next(iter(found.fetches)) == "T2"


def test_only_two_mappings_of_one_workload(files: dict[str, str], capsys: Capture) -> None:
    large, small, other = files.values()
    assert reasons(compared(large, small, small)) is None
    assert reasons(compared(large, other)) is None
    assert page_data(compared(large, other), "")["reasons"] is None
    status, out, _ = run(capsys, "compare", large, other)
    assert status == 0
    assert "against once" not in out


def test_text_and_page(files: dict[str, str], tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "page.html"
    status, out, _ = run(capsys, "compare", files["large"], files["small"], "--report", str(page))
    assert status == 0
    lines = out.splitlines()
    energy = lines.index(next(line for line in lines if line.startswith("energy of ")))
    assert lines[energy].split() == ["energy", "of", "A", "B", "B", "-", "A"]
    assert lines[energy + 1].split() == ["MainMemory", "T2", "262.1", "nJ", "786.4", "nJ", "+524.3", "nJ"]
    assert any(line.startswith("busy time of ") for line in lines)
    row = next(line for line in lines if line.startswith("T2   "))
    assert row.split() == ["T2", "MainMemory", "-", "1", "x", "MainMemory", "1", "x", "2", "x"]
    assert "largest difference first" in page.read_text()
    status, out, _ = run(capsys, "compare", files["large"], files["large"])
    assert status == 0
    assert "energy of" not in out
    assert "against once" not in out
