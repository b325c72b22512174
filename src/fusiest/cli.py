"""The command line: `fusiest map`, `evaluate`, `show`, `list`. Results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated, Any, NoReturn, TextIO

import typer

from fusiest.errors import FusiestError, SpecError
from fusiest.files import write_atomically

app = typer.Typer(
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Finds the provably best way to run a tensor workload on an accelerator.",
    epilog="Example: fusiest map tpu_v4i gpt3_6.7B -D BATCH_SIZE=1 -D N_TOKENS=1024 --objective edp",
)

# Click's own class, which newer typers bring with them under another name.
_USAGE_ERROR: Any = typer.BadParameter.__base__

SpecArgument = Annotated[str, typer.Argument(help="a file, or the name of a bundled spec (see `fusiest list`)")]
DefineOption = Annotated[
    list[str] | None, typer.Option("-D", metavar="NAME=VALUE", help="a define for the templates; may be repeated")
]
JsonOption = Annotated[str | None, typer.Option("--json", metavar="FILE", help="also write the result as JSON")]


def _defines(pairs: list[str] | None) -> dict[str, object]:
    from fusiest.spec.yamlfile import ScalarNode, parse_nodes

    defines: dict[str, object] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise SpecError(f"-D {pair}: expected NAME=VALUE")
        node = parse_nodes(value, f"-D {name}", [1] * (value.count("\n") + 1)) if value.strip() else None
        if node is not None and not isinstance(node, ScalarNode):
            raise SpecError(f"-D {pair}: the value must be a number, true, false or text")
        defines[name] = node.value if node is not None else ""
    return defines


@app.command(
    name="map",
    epilog="Example: fusiest map tpu_v4i gpt3_6.7B -D BATCH_SIZE=64 -D N_TOKENS=4096 --objective edp --mapping best.yaml",
)
def map_command(
    arch: SpecArgument,
    workload: SpecArgument,
    define: DefineOption = None,
    objective: Annotated[
        str, typer.Option(help="energy, latency, edp, or energy,latency for the whole front")
    ] = "energy,latency",
    orders: Annotated[
        str, typer.Option(help="all orders of Einsums that respect dependencies, or the given one")
    ] = "all",
    max_fused_loops: Annotated[int | None, typer.Option(help="at most this many fused loops per Einsum")] = None,
    max_fused_loops_per_variable: Annotated[int, typer.Option(help="at most this many per rank variable")] = 1,
    imperfect: Annotated[bool, typer.Option("--imperfect", help="also tiles that do not divide")] = False,
    jobs: Annotated[int | None, typer.Option(help="processes; default: one per core")] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="seconds; then the best mapping so far, with its gap")
    ] = None,
    json_file: JsonOption = None,
    mapping: Annotated[str | None, typer.Option(metavar="FILE", help="write the best mapping as YAML")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
) -> None:
    """Find every energy-latency-optimal fused mapping."""
    from fusiest.mapper.options import Options
    from fusiest.progress import Progress
    from fusiest.show import result_text
    from fusiest.spec.dump import dump_mapping
    from fusiest.spec.load import load

    spec = load(arch, workload, defines=_defines(define))
    _require(spec, (arch, workload), "arch", "workload")
    options = Options(
        objective=tuple(objective.split(",")),
        orders=orders,
        max_fused_loops=max_fused_loops,
        max_fused_loops_per_variable=max_fused_loops_per_variable,
        imperfect=imperfect,
        jobs=jobs,
        time_limit=time_limit,
    )
    with Progress(sys.stderr, quiet) as progress:
        progress.say("loading the compiled search (compiled once, on first use)")
        from fusiest.mapper.mapper import run

        result = run(spec, options, progress.say)
    if json_file is not None:
        write_atomically(json_file, json.dumps(result.to_json(), indent=1, allow_nan=False) + "\n")
    if mapping is not None:
        best = result.best(result.objective[0] if len(result.objective) == 1 else "edp")
        write_atomically(mapping, dump_mapping(best.looptree))
    _echo(result_text(spec, result))
    if result.interrupted:
        raise typer.Exit(130)


def _require(spec: Any, files: tuple[str, ...], *sections: str) -> None:
    for section in sections:
        if getattr(spec, section) is None:
            raise SpecError(f"{', '.join(dict.fromkeys(files))}: no section '{section}:'")


@app.command(epilog="Example: fusiest evaluate tpu_v4i gpt3_6.7B my_mapping.yaml -D N_TOKENS=1024 --json result.json")
def evaluate(
    arch: SpecArgument,
    workload: SpecArgument,
    mapping: SpecArgument,
    define: DefineOption = None,
    json_file: JsonOption = None,
) -> None:
    """Print the exact cost of a given mapping."""
    from fusiest.model.evaluate import evaluate as evaluate_mapping
    from fusiest.show import evaluation_text
    from fusiest.spec.load import load

    spec = load(arch, workload, mapping, defines=_defines(define))
    _require(spec, (arch, workload, mapping), "arch", "workload", "mapping")
    result = evaluate_mapping(spec)
    if json_file is not None:
        write_atomically(json_file, json.dumps(result.to_json(), indent=1, allow_nan=False) + "\n")
    _echo(evaluation_text(spec, result))


@app.command(epilog="Example: fusiest show simple matmuls fused_matmuls_to_simple -D N_EINSUMS=3 --svg mapping.svg")
def show(
    specs: Annotated[list[str], typer.Argument(help="files or bundled names: architecture, workload, mapping")],
    define: DefineOption = None,
    svg: Annotated[str | None, typer.Option("--svg", metavar="FILE", help="draw the mapping as an SVG file")] = None,
    pseudocode: Annotated[bool, typer.Option("--pseudocode", help="show the mapping as a loop nest")] = False,
) -> None:
    """Show an architecture, a workload or a mapping."""
    from fusiest.show import mapping_svg, show_text
    from fusiest.spec.load import load

    spec = load(*specs, defines=_defines(define))
    if svg is not None:
        write_atomically(svg, mapping_svg(spec))
    _echo(show_text(spec, pseudocode=pseudocode))


@app.command(name="list")
def list_bundled() -> None:
    """List the bundled architectures, workloads and mappings."""
    from fusiest.spec.load import bundled

    for kind, names in bundled().items():
        _echo(f"{kind}:")
        width = max(map(len, names), default=0)
        for name, about in names.items():
            _echo(f"  {name:{width}}  {about}")


def _version(wanted: bool) -> None:
    if wanted:
        from fusiest import __version__

        _echo(f"fusiest {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; bad input ends in one line, never in a traceback."""
    try:
        status = app(sys.argv[1:] or ["--help"], prog_name="fusiest", standalone_mode=False)
        if isinstance(status, int) and status:
            sys.exit(status)
    except FusiestError as error:
        _complain(str(error), error.exit_status)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        _silence_stdout()
        sys.exit(1)
    except _USAGE_ERROR as error:
        _complain(f"fusiest: {error.format_message().rstrip('.')}; see fusiest --help", 2)


def _silence_stdout() -> None:
    """What is left in the buffer must not fail once more when the interpreter flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, status: int) -> NoReturn:
    print(_fitting(" ".join(message.split()), sys.stderr), file=sys.stderr)
    sys.exit(status)


def _echo(text: str) -> None:
    try:
        print(_fitting(text, sys.stdout), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence_stdout()
        raise FusiestError(f"the result cannot be written: {error.strerror}") from None


def _fitting(text: str, stream: TextIO | None) -> str:
    """The text in characters that the stream can write: µ becomes u on an ASCII terminal."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text


_ASCII = str.maketrans({"µ": "u", "…": "...", "×": "x", "├": "|", "└": "`", "│": "|", "─": "-", "≤": "<=", "→": "->"})
