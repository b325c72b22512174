"""What a component of the architecture does: one action, as the user wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fusiest.spec.language import fields as f
from fusiest.spec.language.fields import FieldError, Number
from fusiest.spec.language.ranges import Limits

BITS = Limits(positive=True, finite=False, units=("bit",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a component does for energy and time."""

    name: Annotated[str, "`read`, `write` or `compute`."]
    energy: Annotated[
        Number | None, Limits(units=("J", "J/bit")), "Joules per action; or per bit that it moves: `4 pJ/bit`."
    ] = None
    throughput: Annotated[
        f.PositiveAmount | None,
        Limits(positive=True, finite=False, units=("Hz", "bit/s")),
        "Actions per second, per instance; or the bits that they move: `51.2 GB/s`; `inf` for no limit.",
    ] = None
    latency: Annotated[
        f.Amount | None, Limits(finite=False, units=("s",)), "Seconds of one action: 1 / throughput, in place of it."
    ] = None
    bits_per_action: Annotated[f.PerTensor | None, BITS, "Bits that this action moves. Default: the component's."] = (
        None
    )
    values_per_action: Annotated[f.PerTensor | None, "Values that this action moves. Default: the component's."] = None
    energy_scale: Annotated[Number, "Multiplies energy, on top of the component's."] = 1
    throughput_scale: Annotated[f.PositiveAmount, "Multiplies throughput, on top of the component's."] = 1
    latency_scale: Annotated[Number, "Divides throughput, on top of the component's."] = 1
    actions_scale: Annotated[Number, "Multiplies the count, on top of the component's."] = 1

    def __post_init__(self) -> None:
        f.check_fields(self)
        if self.throughput is not None and self.latency is not None:
            raise FieldError("latency", "give either 'throughput' or 'latency', not both")
