"""The compute-in-memory chips: what fills each of them, and which of its components a published name means."""

from __future__ import annotations

from dataclasses import dataclass, field

MATRIX = """
workload:
  rank_sizes: {{G: {g}, M: {m}, K: {k}, N: {n}}}
  bits_per_value: {{input: {input_bits}, weight: {weight_bits}, output: {output_bits}}}
  einsums: [{{name: Layer, einsum: "output[g, m, n] = input[g, m, k] * weight[g, k, n]"}}]
"""
"""Vectors times a matrix of its own for each array."""
CONVOLUTION = """
workload:
  iteration_space_shape:
    n: 0 <= n < 9
    c: 0 <= c < 3
    r: 0 <= r < 3
    s: 0 <= s < 3
    q: 0 <= q < 5
    m: 0 <= m < {m}
  bits_per_value: {{input: {input_bits}, weight: {weight_bits}, output: {output_bits}}}
  einsums: [{{name: Layer, einsum: "output[n, m, q] = input[c, H: m + r, W: q + s] * weight[n, c, r, s]"}}]
"""
"""A 3 x 3 convolution of five pixels at a time."""


@dataclass(frozen=True)
class ChipPart:
    """What a published name means: components of the file. A published power or area may be that of one of several."""

    components: tuple[str, ...]
    power_per: int = 1
    area_per: int = 1


@dataclass(frozen=True)
class Chip:
    """What fills a chip, and its parts."""

    parts: dict[str, ChipPart] = field(default_factory=dict)
    bits: tuple[int, int, int] = (8, 8, 8)
    """Widths of input, weight and output, where conditions do not say."""
    workload: str = MATRIX
    area_per: int = 1
    """How many of what is published the file has."""
    copies: tuple[str, int] = ("", 1)
    """The define that says how many tiles or cores there are, and how many `area_per` and `power_per` are for."""


def _parts(power_per: int = 1, area_per: int = 1, **names: str) -> dict[str, ChipPart]:
    """Parts by name (`_` is a space), each with its components, separated by spaces."""
    return {name.replace("_", " "): ChipPart(tuple(text.split()), power_per, area_per) for name, text in names.items()}


_TILE = "Router Sigmoid MaxPool TileShiftAdd TileRegister EDRAM Bus"
_UNIT = "InputRegister OutputRegister DAC ShiftAdd ADC SampleHold Cells"
TILES, UNITS = 168, 168 * 12


def _isaac() -> dict[str, ChipPart]:
    def part(components: str, per: int) -> ChipPart:
        return ChipPart(tuple(components.split()), per, per)

    tile = {
        "edram buffer 64kb 4 banks 256b bus (per tile)": "EDRAM", "edram-to-ima bus 384 wires (per tile)": "Bus",
        "sigmoid x2": "Sigmoid", "shift+add (tile)": "TileShiftAdd", "maxpool": "MaxPool", "output register 3kb": "TileRegister",
        "tile non-ima total": _TILE, "12 imas total": _UNIT, "1 tile total": f"{_TILE} {_UNIT}",
    }  # fmt: skip
    unit = {
        "adc 8b 1.2gsps x8 (per ima)": "ADC", "dac 1b 8x128 (per ima)": "DAC", "sample+hold 8x128": "SampleHold",
        "memristor array x8 128x128 2b (per ima)": "Cells", "shift+add x4 (per ima)": "ShiftAdd",
        "input register 2kb": "InputRegister", "output register 256b": "OutputRegister",
    }  # fmt: skip
    whole = {
        "168 tiles": f"{_TILE} {_UNIT}",
        "hypertransport 4 links 6.4gb/s": "Links",
        "chip total": f"{_TILE} {_UNIT} Links",
    }
    return {
        **{name: part(text, TILES) for name, text in tile.items()},
        **{name: part(text, UNITS) for name, text in unit.items()},
        **{name: part(text, 1) for name, text in whole.items()},
        "router 32 flit 8 port, shared by 4 tiles": part("Router", TILES // 4),
    }


CHIPS: dict[str, Chip] = {
    "albireo_isca_2021": Chip(
        _parts(
            awg="WaveguideGrating", star_coupler="StarCoupler", laser="Laser", mzm="InputModulator WeightModulator", mrr="Rings",
            adc="ADC", cache="Cache", photodiode="Photodiode", tia="TIA", dac="InputDAC WeightDAC",
        ),
        workload=CONVOLUTION,
    ),
    "colonnade_jssc_2021": Chip(
        {**_parts(bitcell_array="Columns Cells", drivers="Drivers", bl_decoder="Decoder"), "ctrl+reg": ChipPart(("Control",))}
    ),
    "isaac_isca_2016": Chip(_isaac(), bits=(16, 16, 16), copies=("tiles", TILES)),
    "jia_jssc_2020": Chip(
        _parts(adc="ADC", cim="Cells", nmc_data_path="DataPath", sparsity_controller="SparsityController"), bits=(1, 1, 8)
    ),
    "lightning_sigcomm_2023": Chip(
        {
            **_parts(24, memory_controller="MemoryController", laser="Laser", photodetector="Photodetector",
                     modulators="InputModulator", input_modulator="InputModulator", adc="ADC", input_dac="InputDAC"),
            **_parts(576, wmus="WavelengthUnit", weight_dacs="WeightDAC", weight_modulator="WeightModulator"),
            **_parts(600, dac="InputDAC WeightDAC"),
            **_parts(packet_io_in="PacketIn", packet_io_out="PacketOut"),
            "packet i/o (each of two)": ChipPart(("PacketIn",)),
        }
    ),
    "neurram_nature_2022": Chip(
        _parts(neurons="Neuron", array_drivers="WordLines InputPulses", rrams="Cells", word_lines="WordLines",
               input_pulses="InputPulses"),
        bits=(4, 4, 6),
        area_per=48,
        copies=("cores", 48),
    ),
    "raella_isca_2023": Chip(_parts(adc="ADC")),
    "sinangil_jssc_2021": Chip(
        _parts(cim_circuitry="ADC Pulses", original_macro="Cells", binary_weighting_capacitors="Capacitors"), bits=(4, 4, 4)
    ),
    "wang_vlsi_2022": Chip(_parts(adc="ADC", dac="DAC", mac="Ladder", misc="Control")),
}  # fmt: skip
"""By the name of the file in `library/arches/cim`; names of parts are in lower case."""

EXCEPTIONS = {
    ("sinangil_jssc_2021", "ops_per_joule", "average_output=6; voltage=1.0"): (
        "Table I has 321 TOPS/W at 1 V and output 6, 8% below its value at 0.8 V, but 28% below at outputs 0 and 15: no law of "
        "the supply gives both."
    ),
}
"""Values that are more than 10% off, and why."""
