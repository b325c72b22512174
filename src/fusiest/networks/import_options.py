"""What can be asked of an import, and whether it makes sense."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from fusiest.base.errors import SpecError, check_known

SOFTMAXES = ("cascade", "deferred", "online")
ELEMENTWISE = ("fold", "keep")
MAX_SIZE = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How a network becomes a workload."""

    dims: Mapping[str, int] = field(default_factory=dict)
    """Sizes of dimensions that the file leaves open, by name."""
    batch: int | None = None
    """How many samples at once, where the network takes one or leaves it open."""
    bits: int | Mapping[str, int] = 8
    """Bits of a value, for all tensors or by set (`input`, `weight`, `output`, `Other`)."""
    softmax: str = "cascade"
    elementwise: str = "fold"
    first: str | None = None
    """Import from this node on."""
    last: str | None = None
    """Import up to this node."""

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("softmax", self.softmax, SOFTMAXES),
            ("elementwise", self.elementwise, ELEMENTWISE),
        ):
            check_known(str(value), choices, f"{name} cannot be '{value}'")
        sizes = {f"dim {name}": size for name, size in self.dims.items()}
        if self.batch is not None:
            sizes["batch"] = self.batch
        for name, size in sizes.items():
            if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_SIZE:
                raise SpecError(f"{name} must be a whole number of at least 1, but is {size}")
        for bits in self.bits.values() if isinstance(self.bits, Mapping) else [self.bits]:
            if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits <= 1024:
                raise SpecError(f"bits must be a whole number from 1 to 1024, but is {bits}")


def import_options(**options: Any) -> ImportOptions:
    """Options by name; a misspelled one is an error that says what was meant."""
    names = [field.name for field in fields(ImportOptions)]
    for name in options:
        check_known(name, names, f"there is no option {name} of an import")
    if "bits" in options:
        options["bits"] = bits_by_set(options["bits"])
    return ImportOptions(**options)


def bits_by_set(text: Any) -> Any:
    """Bits of a value as they are, or from a text: `8`, or `weight=4,Other=8`."""
    if not isinstance(text, str):
        return text
    if text.strip().isdigit():
        return int(text)
    bits: dict[str, int] = {}
    for pair in text.split(","):
        name, _, number = pair.partition("=")
        if not name.strip() or not number.strip().isdigit():
            raise SpecError(f"bits {text}: expected a number, or sets such as weight=4,Other=8")
        bits[name.strip()] = int(number)
    return bits
