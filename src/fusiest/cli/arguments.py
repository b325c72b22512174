"""Arguments that several commands share, and how they are read."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from fusiest.base.errors import Source, SpecError
from fusiest.base.files import check_writable, is_replaceable
from fusiest.cli.completion import complete, json_files, one_of

if TYPE_CHECKING:  # `fusiest --help` needs no specs
    from fusiest.spec import Spec


def option(metavar: str, help: str, *names: str) -> Any:
    """An option with a value; its name is that of the parameter, unless others are given."""
    return typer.Option(*names, metavar=metavar, help=help)


def flag(name: str, help: str) -> Any:
    """An option without a value."""
    return typer.Option(name, help=help)


def choice(words: str, help: str, metavar: str = "") -> Any:
    """An option that is one of these words, which the shell completes."""
    return typer.Option(metavar=metavar or words.replace(" ", "|"), help=help, autocompletion=one_of(*words.split()))


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: in place of its parameter `chosen` it takes the options of a search, by name."""
    from fusiest.mapper import Options, told

    defaults = Options()
    parameters = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if parameter.name != "chosen":
            parameters.append(parameter)
            continue
        for name, said in told().items():
            default, kind = getattr(defaults, name), get_type_hints(Options)[name]
            if isinstance(default, tuple) or name in _AS_TEXT:
                default, kind = (
                    ",".join(default) if isinstance(default, tuple) else None,
                    str if default else str | None,
                )
            taken = flag(f"--{name}", said.text) if kind is bool else _valued(said.value, said.words, said.text)
            parameters.append(parameter.replace(name=name, default=default, annotation=Annotated[kind, taken]))

    @functools.wraps(command)
    def taking(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in told()}
        command(chosen=chosen, **given)

    signature: Any = taking
    signature.__signature__ = inspect.Signature(parameters)
    signature.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return taking


_AS_TEXT = ("windows", "memory_limit")
"""Options that a command reads itself, and that may be left out."""


def _valued(metavar: str, words: str, help: str) -> Any:
    return choice(words, help, metavar) if words else option(metavar, help)


def saved_results(metavar: str, help: str) -> Any:
    """Saved results, as many as are named."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=json_files, show_default=False)


ArchArgument = Annotated[
    str,
    typer.Argument(
        metavar="ARCH",
        help="architecture: a file, or a bundled name (see `fusiest list`); or a saved result, which has all",
        autocompletion=complete("arches"),
        show_default=False,
    ),
]
WorkloadArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="WORKLOAD", help="workload: a file, or a bundled name", autocompletion=complete("workloads")
    ),
]
MappingArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MAPPING",
        help="mapping: a file, a bundled name, or a saved result",
        autocompletion=complete("mappings"),
    ),
]
DefineOption = Annotated[list[str] | None, option("NAME=VALUE", "a define for the templates; may be repeated", "-D")]
JsonOption = Annotated[str | None, option("FILE", "also write the result as JSON; - is stdout", "--json")]
CsvOption = Annotated[
    str | None,
    option(
        "FILE",
        "also write every action as CSV, by Einsum, component and tensor: its count and energy; - is stdout",
        "--csv",
    ),
]
CsvLayersOption = Annotated[
    str | None,
    option(
        "FILE",
        "also write a row per layer (Einsum) as CSV: sizes, MACs, share of the peak, traffic of each memory, energy of "
        "each component, bottleneck, fused set; - is stdout",
        "--csv-layers",
    ),
]
ReportOption = Annotated[
    str | None, option("FILE.html", "write a page with all figures and charts; - is stdout", "--report")
]
ChartsOption = Annotated[str | None, option("FOLDER", "write every chart as SVG and PNG", "--charts")]
NoUnfusedOption = Annotated[
    bool, flag("--no-unfused", "report and charts without the best unfused mapping, which is a second search")
]
JobsOption = Annotated[int | None, option("N", "processes; default: one per core")]
QuietOption = Annotated[bool, flag("--quiet", "no progress")]
STDOUT = "-"


def read_defines(pairs: list[str] | None) -> dict[str, object]:
    """`NAME=VALUE` pairs, each value a YAML scalar."""
    from fusiest.spec import ScalarNode, parse_nodes

    defines: dict[str, object] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise SpecError(f"-D {pair}: expected NAME=VALUE")
        node = parse_nodes(value, [Source(f"-D {name}", 1)]) if value.strip() else None
        if node is not None and not isinstance(node, ScalarNode):
            raise SpecError(f"-D {pair}: the value must be a number, true, false or text")
        defines[name] = node.value if node is not None else ""
    return defines


def check_outputs(inputs: Iterable[str], **outputs: str | None) -> None:
    """Raise if a file cannot be written, would take the place of one that is read, or is to be written twice.

    `outputs`: the file of each option.
    """
    uses = {os.path.realpath(name): "it is read here" for name in inputs if os.path.isfile(name)}
    for name, file in outputs.items():
        if file is None:
            continue
        option = name.replace("_", "-")
        target = file if file == STDOUT else os.path.realpath(file)
        if file != STDOUT:
            check_writable(file)
        elif target in uses:
            raise SpecError(f"--{option} {file}: {uses[target]}; only one can go to stdout")
        if target in uses and is_replaceable(file):
            raise SpecError(f"{file}: --{option} would overwrite it, and {uses[target]}; name another file")
        uses[target] = f"--{option} writes it, too"


def given_files(*files: str | None) -> tuple[str, ...]:
    """Those that were given."""
    return tuple(file for file in files if file is not None)


def require(spec: Spec, files: tuple[str, ...], *sections: str) -> None:
    """Every one of these sections must be in one of the files."""
    for section in sections:
        if getattr(spec, section) is None:
            raise SpecError(f"{', '.join(dict.fromkeys(files))}: no section '{section}:'")


def read_size(text: str) -> float:
    """Bytes, with a unit or without.

    >>> read_size("1.5G"), read_size("500 MB"), read_size("4096")
    (1610612736.0, 524288000.0, 4096.0)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    if match is None or not float(match[1]):
        raise SpecError(f"'{text}' is no size; give a number of bytes, or such as 8G or 500M")
    return float(match[1]) * 1024.0 ** ("kmgt".index(match[2].lower()) + 1 if match[2] else 0)
