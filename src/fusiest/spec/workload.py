"""The workload as the user wrote it: Einsums, their accesses, and what is known of their sizes.

`analysis` derives bounds, relevance and sharing from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fusiest.frozen import FrozenDict
from fusiest.spec.affine import Affine, Constraint
from fusiest.spec.architecture import FieldError, PerTensor, Value, check_numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """A name for a set of an Einsum's tensors, for use in architecture constraints."""

    name: str
    source: str
    expected_count: Value | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EinsumRenames:
    """Renames for one Einsum, or for all (`default`)."""

    name: str
    tensor_accesses: tuple[Rename, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorAccess:
    """How an Einsum indexes a tensor: one affine expression per rank."""

    name: str
    projection: FrozenDict[str, Affine]
    output: bool = False
    bits_per_value: Value | None = None

    def __post_init__(self) -> None:
        check_numbers(self, "bits_per_value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Einsum:
    name: str
    tensor_accesses: tuple[TensorAccess, ...]
    renames: tuple[Rename, ...] = ()
    iteration_space_shape: tuple[Constraint, ...] = ()
    n_instances: int = 1
    is_copy_operation: bool = False
    operation: str | None = None

    def __post_init__(self) -> None:
        if self.n_instances < 1:
            raise FieldError("n_instances", f"n_instances must be at least 1, but is {self.n_instances}")
        if self.operation is not None and (self.operation == "copy") != self.is_copy_operation:
            raise FieldError("operation", "the operation 'copy' and is_copy_operation: true go together")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    einsums: tuple[Einsum, ...]
    rank_sizes: FrozenDict[str, int] = field(default_factory=FrozenDict)
    iteration_space_shape: tuple[Constraint, ...] = ()
    bits_per_value: PerTensor | None = None
    persistent_tensors: str = "Nothing"
    n_instances: int = 1

    def __post_init__(self) -> None:
        if not self.einsums:
            raise FieldError("einsums", "the workload has no Einsums")
        check_numbers(self, "bits_per_value")
        if self.n_instances < 1:
            raise FieldError("n_instances", f"n_instances must be at least 1, but is {self.n_instances}")
