"""Networks as people have them, as workloads: ONNX files and PyTorch programs become Einsums.

`import_network` reads a file; `from_onnx` and `from_torch` give a spec. onnx and torch are imported when they are needed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusiest.errors import SpecError
from fusiest.networks.importing import NetworkImport, import_graph
from fusiest.networks.options import ImportOptions
from fusiest.networks.report import ImportReport, NodeFate
from fusiest.spec.load import load_texts
from fusiest.spec.spec import Spec

if TYPE_CHECKING:
    import onnx

__all__ = [
    "ImportOptions",
    "ImportReport",
    "NetworkImport",
    "NetworkSpec",
    "NodeFate",
    "from_onnx",
    "import_network",
    "network_text",
]


@dataclass(frozen=True, kw_only=True)
class NetworkSpec(Spec):
    """The workload of a network, and how it came about."""

    imported: NetworkImport

    @property
    def report(self) -> ImportReport:
        """What became of every node."""
        return self.imported.report

    def to_yaml(self) -> str:
        """The workload as a file, with a comment for each Einsum."""
        return self.imported.yaml


def import_network(path: str | Path, options: ImportOptions | None = None) -> NetworkImport:
    """A network from a file: `.onnx` or `.pt2`."""
    name, options = os.fspath(path), options or ImportOptions()
    if name.endswith(".pt2"):
        raise SpecError(f"{name}: .pt2 files are not read yet")
    from fusiest.networks.onnx_reader import load_onnx, read_onnx

    return import_graph(read_onnx(load_onnx(name), name, options), options)


def network_text(path: str, defines: Mapping[str, object]) -> tuple[str, frozenset[str]]:
    """A network's workload as YAML, with the defines as options, and which of them it took.

    `batch`, `bits`, `softmax` and `elementwise` are options by name; any other define that the file knows is the size of
    an open dimension.
    """
    known = {name: defines[name] for name in ("batch", "bits", "softmax", "elementwise") if name in defines}
    sizes = {name: value for name, value in defines.items() if name in open_dimensions(path)}
    options = ImportOptions(dims=sizes, **known)  # type: ignore[arg-type]
    return import_network(path, options).yaml, frozenset(known) | frozenset(sizes)


def open_dimensions(path: str) -> frozenset[str]:
    """Names of dimensions whose size a network's file leaves open."""
    if path.endswith(".pt2"):
        return frozenset()
    from fusiest.networks.onnx_reader import load_onnx, open_names

    return open_names(load_onnx(path))


def from_onnx(
    source: str | Path | onnx.ModelProto,
    *,
    dims: Mapping[str, int] | None = None,
    batch: int | None = None,
    bits: int | Mapping[str, int] = 8,
    softmax: str = "cascade",
    elementwise: str = "fold",
    first: str | None = None,
    last: str | None = None,
) -> NetworkSpec:
    """The workload of an ONNX model, a file or a `ModelProto`. Weights may be missing; none is read.

    `dims` are sizes of open dimensions by name, `first` and `last` the nodes between which to import. Combine it with an
    architecture by `fusiest.load("tpu_v4i", spec)`.
    """
    options = ImportOptions(
        dims=dims or {}, batch=batch, bits=bits, softmax=softmax, elementwise=elementwise, first=first, last=last
    )
    if isinstance(source, (str, Path)):
        return network_spec(import_network(source, options))
    from fusiest.networks.onnx_reader import read_onnx

    return network_spec(import_graph(read_onnx(source, source.graph.name or "network", options), options))


def network_spec(imported: NetworkImport) -> NetworkSpec:
    """The workload of an import, loaded from its YAML: the file that it is written to says the same."""
    spec = load_texts({f"<{imported.report.network}>": imported.yaml}, {})
    given: dict[str, Any] = {"workload": spec.workload, "renames": spec.renames, "variables": spec.variables}
    return NetworkSpec(imported=imported, **given)
