"""`fusiest code`: a mapping as a program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fusiest.base.errors import SpecError
from fusiest.base.files import check_folder, make_folder, write_atomically
from fusiest.cli import arguments as args
from fusiest.cli.output import command_line, echo, note, write_output

if TYPE_CHECKING:
    from fusiest.spec import Spec


def code_command(
    arch: args.ArchArgument,
    workload: args.WorkloadArgument = None,
    mapping: args.MappingArgument = None,
    define: args.DefineOption = None,
    output: Annotated[
        str | None, args.option("DIR", "write the program, a main and a Makefile into this folder", "-o", "--output")
    ] = None,
    language: Annotated[str, args.choice("c tvm pseudocode", "what it is written in")] = "c",
    count: Annotated[bool, args.flag("--count", "with 'make count': every action counted, as evaluate --json")] = False,
    trace: Annotated[
        str | None, args.option("MEMORY", "with 'make trace': reads and writes of this memory, compressed", "--trace")
    ] = None,
    trace_format: Annotated[str, args.choice("ramulator dramsim", "how a trace is written")] = "ramulator",
    weights: Annotated[
        bool, args.flag("--weights", "of an ONNX file: its weights, and a script that computes the whole network")
    ] = False,
) -> None:
    """Write a mapping as a program that computes its workload."""
    from fusiest.code import c_files, code_text
    from fusiest.spec import load, size_notes

    files = args.given_files(arch, workload, mapping)
    wanted = {"--count": count, "--trace": trace is not None, "--weights": weights}
    asked = [name for name, is_asked in wanted.items() if is_asked]
    if output is not None:
        check_folder(output)
    elif asked:
        raise SpecError(f"{asked[0]} makes several files: name a folder for them by -o DIR")
    if asked and (language != "c" or (weights and len(asked) > 1)):
        raise SpecError(f"{asked[0]} does not go with {asked[-1] if language == 'c' else f'--language {language}'}")
    defines = args.read_defines(define)
    spec = load(*files, defines=defines)
    args.require(
        spec, files, *(("workload", "mapping") if language == "pseudocode" else ("arch", "workload", "mapping"))
    )
    note(size_notes(spec))
    if output is None:
        write_output(args.STDOUT, code_text(spec, language=language))
        return
    texts: Mapping[str, str | bytes]
    if weights:
        texts = _network(spec, files, defines)
    elif language == "c":
        texts = c_files(
            spec, document=_counted(spec) if count else None, trace=(trace, trace_format) if trace is not None else None
        )
    else:
        name = {"tvm": "mapping.py", "pseudocode": "mapping.txt"}[language]
        texts = {name: code_text(spec, language=language)}
    make_folder(output)
    for name, text in texts.items():
        write_atomically(Path(output) / name, text)
    echo(f"{output}: {', '.join(texts)}")


def _counted(spec: Spec) -> dict[str, object]:
    """What `fusiest evaluate --json` says."""
    from fusiest.mapper import GIVEN, evaluation_json, made_now
    from fusiest.model import evaluate

    assert spec.mapping is not None
    return evaluation_json(spec, spec.mapping, evaluate(spec), made_now(spec, GIVEN, command_line()))


def _network(spec: Spec, files: tuple[str, ...], defines: dict[str, object]) -> dict[str, str | bytes]:
    """The files of a network with its weights."""
    from fusiest.code import network_files
    from fusiest.networks import network_meaning, network_options

    network = next((file for file in files if file.endswith((".onnx", ".pt2"))), None)
    if network is None:
        raise SpecError("--weights wants the network as an ONNX file for its workload")
    meaning = network_meaning(network, network_options(network, defines))
    note([meaning.made_up] if meaning.made_up else [])
    return network_files(spec, meaning)
