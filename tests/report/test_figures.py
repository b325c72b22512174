"""Charts as files: every kind in every format, readable, and the same every time."""

from __future__ import annotations

import builtins
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from fusiest.base.errors import FusiestError
from fusiest.report.charts.chart import Bars, Cloud, Line, Points, Series
from fusiest.report.charts.figures import _STYLE, drawn, picture, write_charts
from fusiest.report.charts.placing import placed
from fusiest.report.data.whole import all_charts
from tests.report.subjects import tradeoff


def charts() -> dict[str, Any]:
    subject = tradeoff()
    return dict(all_charts(subject, subject.result.mappings[0]))


def test_every_chart_in_every_format(tmp_path: Path) -> None:
    wanted = charts()
    assert {chart.kind for chart in wanted.values()} == {"bars", "points", "heat", "graph"}
    few = {name: wanted[name] for name in ("front", "fusion", "energy-tensor", "busy", "memory-Buffer", "intensity")}
    written = write_charts(few, tmp_path, ("svg", "png", "pdf"))
    assert len(written) == 18
    for path in written:
        content = path.read_bytes()
        start = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}[path.suffix]
        assert content.startswith(start), path
    texts = {t.text for t in ET.parse(tmp_path / "memory-Buffer.svg").iter("{http://www.w3.org/2000/svg}text")}
    assert {"Buffer", "size 1.562 KiB", "B", "C"} <= texts


def test_same_chart_same_file() -> None:
    chart = charts()["energy-einsum"]
    assert picture(chart, "svg") == picture(chart, "svg")


HOSTILE = """
import sys
from fusiest.report.charts.chart import Bars, Series
from fusiest.report.charts.figures import write_charts
bars = Series(name="a", color="weight:9", values=[1, 2])
write_charts({"x": Bars(title="t", axis="a", unit="J", categories=["c", "d"], series=[bars])}, sys.argv[1], ("svg",))
"""


@pytest.mark.parametrize("settings", ["lines.linewidth: 40\nfont.size: 40\ntext.usetex: True", "\udcff", None])
def test_settings_in_the_working_folder_change_no_chart(settings: str | None, tmp_path: Path) -> None:
    """Matplotlib reads a matplotlibrc of the working folder, which may be anybody's: `usetex` starts LaTeX."""
    if settings is not None:
        (tmp_path / "matplotlibrc").write_text(settings, "utf-8", "surrogateescape")
    folder, command = tmp_path / "charts", [sys.executable, "-c", HOSTILE]
    subprocess.run([*command, str(folder)], cwd=tmp_path.parent, check=True)
    plain = (folder / "x.svg").read_bytes()
    done = subprocess.run([*command, str(folder)], cwd=tmp_path, capture_output=True, text=True, check=False)
    if settings == "\udcff":
        assert "FusiestError: matplotlibrc: Matplotlib cannot read its settings" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
    assert (folder / "x.svg").read_bytes() == plain


def test_names_are_only_text(tmp_path: Path) -> None:
    """No name is taken for mathematics, markup or a path."""
    series = [
        Series(name="$x^{", color="weight:9", values=[1, 2]),
        Series(name="<b>&", color="found", values=[3, None]),
    ]
    chart = Bars(title="$\\frac", axis="a", unit="J", categories=["$", "<i>"], series=series)
    (path,) = write_charts({"../../etc/x": chart}, tmp_path, ("svg",))
    assert path.parent == tmp_path
    texts = {t.text for t in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")}
    assert {"$x^{", "<b>&", "$\\frac", "$", "<i>"} <= texts


def test_wrong_format(tmp_path: Path) -> None:
    with pytest.raises(FusiestError, match="none of svg, png, pdf"):
        write_charts({}, tmp_path, ("gif",))


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(FusiestError, match="fusiest\\[charts\\]"):
        write_charts({}, tmp_path)


def test_nothing_in_a_file_is_cut_off_or_covers_another() -> None:
    """Names of ticks, points and series are inside the picture; those of an axis, and those of points, do not meet."""
    mpl, agg = pytest.importorskip("matplotlib"), pytest.importorskip("matplotlib.backends.backend_agg")
    points = {f"Einsum{i}": (2.0 ** (3 * i), 1e14) for i in range(5)}
    lines = [
        Line(name=f"peak of a rather long compute {i}", color="found", xs=[1e-3, 1e5], ys=[10.0**i] * 2)
        for i in (11, 14)
    ]
    clouds = [Cloud(name=f"by MainMemory{i} traffic, 614 GB/s", color="found", labels=list(points), xs=[x for x, _ in points.values()],
                    ys=[1e14] * 5) for i in range(2)]  # fmt: skip
    spans = [((o.xs[0], o.ys[0]), (o.xs[1], o.ys[1])) for o in lines]
    chart = Points(title="R", x_axis="x", x_unit="op/B", y_axis="y", y_unit="op/s", clouds=clouds, lines=lines, log_x=True,
                   log_y=True, notes=placed(points, list(points.values()), spans))  # fmt: skip
    with mpl.rc_context(_STYLE):
        figure = drawn(chart)
        agg.FigureCanvasAgg(figure).draw()
    axes = figure.axes[0]
    (legend,) = figure.legends
    inside = figure.bbox.padded(1)
    for texts in (axes.get_xticklabels(), axes.texts, legend.get_texts()):
        boxes = [text.get_window_extent() for text in texts if text.get_text()]
        assert len(boxes) > 1
        assert all(inside.contains(box.x0, box.y0) and inside.contains(box.x1, box.y1) for box in boxes)
        for i, one in enumerate(boxes):
            assert not any(one.overlaps(other) for other in boxes[:i])
