"""`fusiest code`: a mapping as a program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fusiest.base.errors import SpecError
from fusiest.base.files import check_folder, make_folder, write_atomically
from fusiest.cli import arguments as args
from fusiest.cli.output import command_line, echo, note, write_output


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
) -> None:
    """Write a mapping as a program that computes its workload."""
    from fusiest.code import c_files, code_text
    from fusiest.mapper import GIVEN, evaluation_json, made_now
    from fusiest.model import evaluate
    from fusiest.spec import load, size_notes

    files = args.given_files(arch, workload, mapping)
    if output is not None:
        check_folder(output)
    elif count or trace is not None:
        raise SpecError("--count and --trace want a folder for several files: -o DIR")
    if language != "c" and (count or trace is not None):
        raise SpecError(f"--count and --trace are for C, not for {language}")
    spec = load(*files, defines=args.read_defines(define))
    args.require(
        spec, files, *(("workload", "mapping") if language == "pseudocode" else ("arch", "workload", "mapping"))
    )
    note(size_notes(spec))
    if output is None:
        write_output(args.STDOUT, code_text(spec, language=language))
        return
    if language == "c":
        assert spec.mapping is not None
        document = None
        if count:
            provenance = made_now(spec, GIVEN, command_line())
            document = evaluation_json(spec, spec.mapping, evaluate(spec), provenance)
        texts = c_files(spec, document=document, trace=(trace, trace_format) if trace is not None else None)
    else:
        name = {"tvm": "mapping.py", "pseudocode": "mapping.txt"}[language]
        texts = {name: code_text(spec, language=language)}
    make_folder(output)
    for name, text in texts.items():
        write_atomically(Path(output) / name, text)
    echo(f"{output}: {', '.join(texts)}")
