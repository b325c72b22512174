"""Networks as people have them, as workloads: ONNX files and PyTorch programs become Einsums.

`import_network` reads a file; `from_onnx` and `from_torch` give a spec. onnx and torch are imported when they are needed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusiest.base.errors import SpecError
from fusiest.networks.import_options import ImportOptions, bits_by_set, import_options
from fusiest.networks.importing import NetworkImport, import_graph
from fusiest.networks.output.import_report import ImportReport, NodeFate
from fusiest.networks.values.meaning import CutNode, NetFormula, NetworkMeaning, Picked
from fusiest.spec import Spec, load_texts

if TYPE_CHECKING:
    import onnx
    import torch

__all__ = [
    "NETWORK_OPTIONS", "CutNode", "ImportOptions", "ImportReport", "NetFormula", "NetworkImport", "NetworkMeaning",
    "NetworkSpec", "NodeFate", "Picked", "bits_by_set", "from_onnx", "from_torch", "import_network", "network_meaning",
    "network_options", "network_text", "open_dimensions",
]  # fmt: skip

NETWORK_OPTIONS = ("batch", "bits", "softmax", "elementwise")
"""Options of an import that defines can give."""


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

    def meaning(self, random: bool = False) -> NetworkMeaning:
        """What the network computes, with the weights of its file, or with random ones."""
        source, options = self.imported.source, self.imported.options
        if source is None:
            raise SpecError("values are known of ONNX files alone")
        return network_meaning(source, options, random)


def import_network(path: str | Path, options: ImportOptions | None = None) -> NetworkImport:
    """A network from a file: `.onnx` or `.pt2`."""
    name, options = os.fspath(path), options or ImportOptions()
    if name.endswith(".pt2"):
        from fusiest.networks.torch.programs import load_program
        from fusiest.networks.torch.torch_graph import read_program

        return import_graph(read_program(load_program(name, options.dims)), options)
    from fusiest.networks.onnx.onnx_graph import load_onnx, read_onnx

    return import_graph(read_onnx(load_onnx(name), name, options), options)


def network_text(path: str, defines: Mapping[str, object]) -> tuple[str, frozenset[str]]:
    """A network's workload as YAML, with the defines as options, and which of them it took.

    `batch`, `bits`, `softmax` and `elementwise` are options by name; any other define that the file knows is the size of
    an open dimension.
    """
    taken = frozenset(NETWORK_OPTIONS) | open_dimensions(path)
    return import_network(path, network_options(path, defines)).yaml, taken & defines.keys()


def network_options(path: str, defines: Mapping[str, object]) -> ImportOptions:
    """The options of an import that defines say."""
    settings: dict[str, Any] = {name: defines[name] for name in NETWORK_OPTIONS if name in defines}
    sizes: dict[str, Any] = {name: value for name, value in defines.items() if name in open_dimensions(path)}
    return import_options(dims=sizes, **settings)


def network_meaning(
    source: str | onnx.ModelProto, options: ImportOptions | None = None, random: bool = False
) -> NetworkMeaning:
    """What a network of an ONNX file computes, by the Einsums of its import, with the file's weights.

    `random`: with random ones, the same every time; so are those that the file does not have.
    """
    from fusiest.networks.importing import lowered_graph
    from fusiest.networks.onnx.onnx_graph import load_onnx, read_onnx
    from fusiest.networks.output.readable_names import named
    from fusiest.networks.values.meaning import meaning_of
    from fusiest.networks.values.weights import constant_values

    if isinstance(source, str) and not source.endswith(".onnx"):
        raise SpecError(f"{source}: values are known of ONNX files alone")
    options = options or ImportOptions()
    model = load_onnx(source) if isinstance(source, str) else source
    name = source if isinstance(source, str) else source.graph.name or "network"
    lowered = lowered_graph(read_onnx(model, name, options), options)
    constants = constant_values(model, source if isinstance(source, str) else None, random)
    return meaning_of(model, lowered, named(lowered), constants)


def open_dimensions(path: str) -> frozenset[str]:
    """Names of dimensions whose size a network's file leaves open."""
    if path.endswith(".pt2"):
        from fusiest.networks.torch.programs import open_symbols

        return open_symbols(path)
    from fusiest.networks.onnx.onnx_graph import load_onnx, open_names

    return open_names(load_onnx(path))


def from_onnx(source: str | Path | onnx.ModelProto, **options: Any) -> NetworkSpec:
    """The workload of an ONNX model, a file or a `ModelProto`. Weights may be missing; none is read.

    Options are the fields of `ImportOptions`: `dims` (sizes of open dimensions by name), `batch`, `bits`, `softmax`, `elementwise`,
    `first` and `last` (the nodes between which to import). Combine the result with an architecture by
    `fusiest.load("tpu_v4i", spec)`.
    """
    chosen = import_options(**options)
    if isinstance(source, (str, Path)):
        path = os.fspath(source)
        known = path if path.endswith(".onnx") else None
        return network_spec(replace(import_network(path, chosen), source=known, options=chosen))
    from fusiest.networks.onnx.onnx_graph import read_onnx

    imported = import_graph(read_onnx(source, source.graph.name or "network", chosen), chosen)
    return network_spec(replace(imported, source=source, options=chosen))


def from_torch(
    module: torch.nn.Module | torch.export.ExportedProgram,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> NetworkSpec:
    """The workload of a PyTorch module, with arguments as for a call, or of a program that torch.export made.

    Options are those of `from_onnx`. The module is exported as it is for inference. Its weights are not read; they may be
    on the device "meta".
    """
    chosen = import_options(**options)
    try:
        import torch
    except ImportError:
        raise SpecError("importing PyTorch modules needs the package torch: pip install 'fusiest[torch]'") from None
    from fusiest.networks.torch.programs import program_of
    from fusiest.networks.torch.torch_graph import read_program

    if isinstance(module, torch.export.ExportedProgram):
        return network_spec(import_graph(read_program(program_of(module, "program", chosen.dims)), chosen))
    training = module.training
    try:
        module.eval()
        with torch.no_grad():
            exported = torch.export.export(module, tuple(args or ()), dict(kwargs or {}))
    finally:
        module.train(training)
    name = type(module).__name__
    return network_spec(import_graph(read_program(program_of(exported, name, chosen.dims)), chosen))


def network_spec(imported: NetworkImport) -> NetworkSpec:
    """The workload of an import, loaded from its YAML: the file that it is written to says the same."""
    spec = load_texts({f"<{imported.report.network}>": imported.yaml}, {})
    sections: dict[str, Any] = {"workload": spec.workload, "renames": spec.renames, "variables": spec.variables}
    return NetworkSpec(imported=imported, **sections)
