"""Analog-to-digital converters: the architecture-level model of a survey of published converters.

Andrulis, Chen, Lee, Emer, Sze, "Modeling Analog-Digital-Converter Energy and Area for Compute-In-Memory Accelerator
Design" (arXiv:2404.06553), fitted to Murmann's survey. Best-in-class converters; a fifth of their power is static.
"""

from __future__ import annotations

import math

from fusiest.components.classes import ActionCost, Attribute, Attributes, ComponentClass, Figures
from fusiest.components.parts import TECH_NODE, number

MIN_BITS = 4
STATIC_SHARE = 0.2


def adc(attributes: Attributes) -> Figures:
    bits, count = number(attributes, "n_bits"), number(attributes, "n_adcs")
    resolution = max(bits, MIN_BITS)
    nanometres = number(attributes, "tech_node") * 1e9
    throughput = number(attributes, "throughput")
    rate = throughput / count
    merit = min(
        213.7806687348118 - 2.8719030399529957 * math.log(rate),
        128.3068287398817 + 3.22051151097755 * math.ceil(resolution),
    )
    decibels = 20 * math.log10(2) * resolution + 10 * math.log10(1.5)
    exponent = 26.0496215686518 + 1.8800369206815004 * math.log(nanometres) - 2.8291256050594527 * math.log(resolution)
    picojoules = 0.5 * 10 ** ((decibels - merit) / 10) * math.exp(exponent - 1.4702022133784405)
    area = math.exp(
        1.3461916439910742
        + 0.9932794744745022 * math.log(nanometres)
        + 0.18071538424508238 * math.log(rate)
        + 0.29912426192653485 * math.log(picojoules)
    )
    energy = picojoules * 1e-12
    notes = (f"extrapolated: costs of {MIN_BITS} bits, the fewest of the survey",) if bits < MIN_BITS else ()
    return Figures(
        {"convert": ActionCost((1 - STATIC_SHARE) * energy, throughput, 1 / throughput)},
        count * area * 1e-12,
        STATIC_SHARE * energy * throughput,
        notes,
    )


CLASSES = (
    ComponentClass(
        "ADC", "Converters", "analog-to-digital converter",
        (
            Attribute("n_bits", "resolution", "bits", 0, 20, required=True),
            Attribute(
                "throughput", "conversions per second, of all converters together", "1/s", 0, 1e15, required=True
            ),
            Attribute("n_adcs", "converters that share the throughput", low=0, high=1e9, default=1, whole=True),
            TECH_NODE,
        ),
        ("convert",), "Andrulis et al., arXiv:2404.06553, fitted to Murmann's ADC survey", adc,
        formula="f = throughput / n_adcs, T = node in nm; FOM = min(213.78 − 2.872 ln f, 128.31 + 3.2205 ⌈b⌉) dB; "
        "e = 0.5·10^((6.0206 b + 1.7609 − FOM)/10)·exp(24.579 + 1.880 ln T − 2.829 ln b) pJ; a conversion 0.8 e, "
        "leakage 0.2 e·throughput; area = n_adcs·exp(1.346 + 0.9933 ln T + 0.1807 ln f + 0.2991 ln e) µm²",
        error="equal to its source; published converters scatter by a factor of 3 around it", aliases=("SARADC",),
    ),
)  # fmt: skip
