"""Compute-in-memory chips: published values, and layers that use an array as the chip does."""

from __future__ import annotations

import functools
import json
import statistics
from pathlib import Path

import pytest

import fusiest
from fusiest.experiments.reproduce.cim.chips import CHIPS, EXCEPTIONS
from fusiest.experiments.reproduce.cim.cim import Compared, cim_output, compare
from fusiest.experiments.reproduce.cim.published import ChipCondition, Published, bundled_values, values_of_file
from fusiest.mapper.mapper import run as search
from fusiest.mapper.options import Options
from fusiest.spec import find_file, load_texts
from tests.command_line import run

ROOT = Path(__file__).parents[2]
TOGETHER = pytest.mark.xdist_group("published chips")
"""Tests of one comparison, which one process makes once."""
SHARED = ROOT.parent / "shared" / "components" / "published"


@functools.cache
def compared() -> list[Compared]:
    """Every published value beside the model's."""
    return compare(bundled_values())


@TOGETHER
def test_every_published_value_is_within_a_tenth() -> None:
    """But for the exceptions, of which there are at most three, each with its reason; and so are those that set no constant."""
    found = compared()
    far = [one for one in found if abs(one.error) > 0.1]
    assert len(found) == 265
    assert {one.published.chip for one in found} == set(CHIPS)
    assert all(one.exception for one in far)
    assert len(far) == len(EXCEPTIONS) <= 3
    errors = sorted(abs(one.error) for one in found if not one.published.sets)
    assert len(errors) > len(found) / 2
    assert errors[len(errors) // 2] < 0.03
    text = cim_output(found).summary
    assert "264 of 265 published values are within 10%" in text
    assert "no law of the supply gives both" in text
    assert text.count("sets a constant") == sum(one.published.sets for one in found)


def model(chip: str, quantity: str, unit: str, component: str = "", **conditions: ChipCondition) -> float:
    return compare([Published(chip, "", quantity, component, conditions, 1.0, unit)])[0].model


def test_colonnade_unused_columns_cost_energy() -> None:
    """So that energy falls from 6 to 7, 8 to 9 and 12 to 14 bits of a weight, where fewer columns are left over."""
    energy = {
        bits: model("colonnade_jssc_2021", "energy_per_mac", "fJ/MAC", input_bits=1, weight_bits=bits, voltage=0.8)
        for bits in range(1, 17)
    }
    falls = {bits for bits in range(1, 16) if energy[bits + 1] < energy[bits]}
    assert {6, 8, 12, 13} <= falls
    assert energy[16] > 3 * energy[1]


def test_neurram_where_the_breakdown_sums_up() -> None:
    """The two-phase breakdown of 6-bit inputs and 8-bit outputs sums up to 9.18 TOPS/W."""
    two = model("neurram_nature_2022", "ops_per_joule", "TOPS/W", input_bits=6, output_bits=8, phases=2)
    assert two == pytest.approx(9.18, rel=0.05)


@pytest.mark.parametrize(
    ("chip", "low", "high"),
    [("wang_vlsi_2022", 0.6, 1.3), ("sinangil_jssc_2021", 0.55, 1.1), ("jia_jssc_2020", 0.7, 1.3), ("colonnade_jssc_2021", 0.55, 1.0)],
)  # fmt: skip
def test_a_higher_supply_takes_more_energy_and_less_time(chip: str, low: float, high: float) -> None:
    volts = [low + (high - low) * i / 3 for i in range(4)]
    energy = [model(chip, "ops_per_joule", "TOPS/W", voltage=v) for v in volts]
    speed = [model(chip, "throughput", "TOPS", voltage=v) for v in volts]
    assert energy == sorted(energy, reverse=True)
    assert speed == sorted(speed)


def test_albireo_moderate_devices() -> None:
    """6.19 W of the whole chip, 1215 products every 0.2 ns."""
    assert model("albireo_isca_2021", "power", "W", scaling="moderate") == pytest.approx(6.19, rel=0.02)


@pytest.mark.parametrize(
    ("chip", "converts"),
    [("isaac_isca_2016", 8 * 4 / 128), ("jia_jssc_2020", 8 * 8 / 2304), ("sinangil_jssc_2021", 4 / 64), ("wang_vlsi_2022", 1 / 64)],
)  # fmt: skip
def test_slices_are_converted_one_by_one(chip: str, converts: float) -> None:
    """Each slice of an input with each slice of a weight, once for all rows; 0.25 of ISAAC is what RAELLA compares with."""
    fewer: dict[str, ChipCondition] = {"tiles": 2} if chip.startswith("isaac") else {}
    found = model(chip, "converts_per_mac", "converts/MAC", input_bits=8, weight_bits=8, **fewer)
    assert found == pytest.approx(converts)


@pytest.mark.parametrize(
    ("chip", "component", "define", "square_millimetres"),
    [("isaac_isca_2016", "1 tile total", "tiles", 0.372), ("neurram_nature_2022", "Neurons", "cores", 0.32512)],
)
def test_a_tile_is_as_large_in_a_smaller_chip(
    chip: str, component: str, define: str, square_millimetres: float
) -> None:
    for count in (1, 4):
        area = model(chip, "area", "mm^2", component, **{define: count})
        assert area == pytest.approx(square_millimetres, rel=0.01)


CONVOLUTION = """
workload:
  iteration_space_shape:
    {{p: 0 <= p < 14, q: 0 <= q < 14, r: 0 <= r < 3, s: 0 <= s < 3, c: 0 <= c < 64, k: 0 <= k < 64}}
  bits_per_value: {{All: {bits}}}
  einsums: [{{name: Layer, einsum: "output[p, q, k] = input[H: p + r, W: q + s, c] * weight[k, c, r, s]"}}]
"""
PROJECTION = """
workload:
  rank_sizes: {{M: 64, K: 768, N: 768}}
  bits_per_value: {{All: {bits}}}
  einsums: [{{name: Layer, einsum: "output[m, n] = input[m, k] * weight[k, n]"}}]
"""
ARRAY = {
    "albireo_isca_2021": ("Group", "Column", "Unit", "Row"),
    "lightning_sigcomm_2023": ("Wavelength", "Output"),
}
SMALLER: dict[str, dict[str, object]] = {"isaac_isca_2016": {"tiles": 1}, "neurram_nature_2022": {"cores": 4}}


@pytest.mark.parametrize("layer", [CONVOLUTION, PROJECTION], ids=["convolution", "projection"])
@pytest.mark.parametrize("chip", CHIPS)
def test_layers_use_the_array_as_the_chip_does(chip: str, layer: str) -> None:
    """Rows add up, columns share inputs, and weights stay where they are until all inputs have passed."""
    file, text = find_file(f"cim/{chip}")
    spec = load_texts({file: text, "<layer>": layer.format(bits=8)}, SMALLER.get(chip, {}))
    best = search(spec, Options(objective=("edp",), jobs=1)).best("edp")
    (evaluation,) = best.evaluation.einsums.values()
    used: dict[str, int] = {}
    for (component, _), instances in evaluation.used_fanout.items():
        used[component] = used.get(component, 1) * instances
    for component in ARRAY.get(chip, ("Column", "Row")):
        assert used[component] > 1
    cells = [c for c in ("Cells", "Ladder") if (c, "weight", "write") in evaluation.actions]
    for component in cells:
        writes = evaluation.actions[component, "weight", "write"]
        bits = spec.info.einsums["Layer"].bits_per_value["weight"]
        products = evaluation.points
        # A weight is used many times for each time that it is written.
        assert products >= 8 * writes / max(1, bits)


def test_published_values_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("""
chip: wang_vlsi_2022
paper: other conditions
values:
- {figure: own, quantity: ops_per_joule, component: ADC, conditions: {voltage: 0.8}, value: 72, unit: TOPS/W}
""")
    status, out, _ = run(capsys, "reproduce", "cim", "--published", str(file), "--json", "--quiet")
    (one,) = json.loads(out)
    assert status == 0
    assert {"chip", "figure", "quantity", "component", "conditions", "published", "model", "error"} <= one.keys()
    assert one["error"] == pytest.approx(one["model"] / 72 - 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("values: []", "needs 'chip:'"),
        ("chip: wang_vlsi_2022", "needs 'values:'"),
        ("chip: wong\nvalues: [{quantity: area, value: 1, unit: mm^2}]", "chip 'wong' is not known"),
        ("chip: wang_vlsi_2022\nvalues: [{quantity: aera, value: 1, unit: mm^2}]", "did you mean 'area'"),
        ("chip: wang_vlsi_2022\nvalues: [{quantity: area, value: 1, unit: mm}]", "unit 'mm' is none of area"),
        ("chip: wang_vlsi_2022\nvalues: [{quantity: area, value: no, unit: mm^2}]", "must be a positive number"),
        ("chip: wang_vlsi_2022\nvalues: [{quantity: area, component: ADCs, value: 1, unit: mm^2}]", "has no part 'ADCs'"),
        ("chip: wang_vlsi_2022\nvalues: [{quantity: area, conditions: {volts: 1}, value: 1, unit: mm^2}]", "no condition 'volts'"),
        ("chip: wang_vlsi_2022\nvalues: [{quantity: area, conditions: [1], value: 1, unit: mm^2}]", "must be a table"),
        ("chip: wang_vlsi_2022\nvalues: [{quantity: area, conditions: {voltage: 9}, value: 1, unit: mm^2}]", "voltage"),
        ("chip: wang_vlsi_2022\nvalues: [{quantity: area, conditions: {voltage: 0}, value: 1, unit: m^2}]", "bad.yaml:2: wang_vlsi_2022"),
        ("chip: wang_vlsi_2022\nvalues: [{quantity: area, value: 1, unit: 5}]", "bad.yaml:2: unit must be text"),
        ("chip: isaac_isca_2016\nvalues: [{quantity: area, conditions: {weight_bits: 1.5}, value: 1, unit: m^2}]", "must be a whole"),
        ("chip: neurram_nature_2022\nvalues: [{quantity: area, conditions: {phases: 3}, value: 1, unit: m^2}]", "≤ 2, but is 3"),
    ],
)  # fmt: skip
def test_bad_files_are_one_line(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    status, out, err = run(capsys, "reproduce", "cim", "--published", str(tmp_path / "bad.yaml"), "--json", "--quiet")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_options_of_cim_alone(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "reproduce", "ablation", "--json", "--quiet")
    assert status == 2
    assert "are options of cim" in err


@pytest.mark.skipif(not SHARED.is_dir(), reason="no data beside the project: ../shared")
def test_bundled_values_are_those_of_the_files() -> None:
    def values(given: list[Published]) -> dict[tuple[object, ...], float]:
        return {(*one.key, one.value if one.value < 1 else round(one.value)): one.value for one in given}

    files = [one for path in sorted(SHARED.glob("*.yaml")) for one in values_of_file(str(path))]
    ours = [one for one in bundled_values() if one.chip != "raella_isca_2023"]
    assert len(files) == len(ours) == 264
    for mine, theirs in zip(sorted(ours, key=_order), sorted(files, key=_order), strict=True):
        assert (mine.key, mine.unit) == (theirs.key, theirs.unit)
        assert mine.value == pytest.approx(theirs.value, rel=1e-6)


def _order(one: Published) -> tuple[str, float]:
    return str(one.key), one.value


def test_costs_of_all_chips() -> None:
    for chip in CHIPS:
        assert fusiest.load(f"cim/{chip}").area


@TOGETHER
def test_the_recorded_table_is_what_the_command_finds() -> None:
    """Chip by chip: values, those that set constants, those within 10%, and errors; the page sums it up."""
    found, rows = compared(), []
    for chip in sorted(CHIPS):
        own = [one for one in found if one.published.chip == chip]
        errors = [abs(one.error) for one in own]
        near, sets = sum(error <= 0.1 for error in errors), sum(one.published.sets for one in own)
        rows.append(f"{chip},{len(own)},{sets},{near},{statistics.median(errors):.1%},{max(errors):.1%}")
    recorded = (ROOT / "bench" / "results" / "reproduce-cim.csv").read_text(encoding="utf-8").splitlines()
    assert recorded[1:] == ["chip,values,set constants,within 10%,median error,largest", *rows]
    page = (ROOT / "docs" / "cim.md").read_text(encoding="utf-8")
    sets = sum(one.sets for one in bundled_values())
    assert f"{sets} of them set constants" in page
    assert f"the other {len(found) - sets} were predicted" in page
