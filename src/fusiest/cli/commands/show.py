"""`fusiest show` and `fusiest list`: what is in a file, and which files come with fusiest."""

from __future__ import annotations

from typing import Annotated

import typer

from fusiest.cli.arguments import STDOUT, DefineOption, check_outputs, flag, option, read_defines
from fusiest.cli.completion import complete
from fusiest.cli.output import echo, note, write_output


def show_command(
    specs: Annotated[
        list[str],
        typer.Argument(
            metavar="SPEC",
            help="architecture, workload, mapping: files or bundled names, or a saved result",
            autocompletion=complete("arches", "workloads", "dataflows", "mappings"),
        ),
    ],
    define: DefineOption = None,
    svg: Annotated[str | None, option("FILE", "draw the mapping as an SVG file; - is stdout", "--svg")] = None,
    pseudocode: Annotated[bool, flag("--pseudocode", "show the mapping as a loop nest")] = False,
    costs: Annotated[bool, flag("--costs", "what each component costs, and where the figures come from")] = False,
    yaml: Annotated[
        str | None,
        option(
            "FILE",
            "write it all as one file to edit, templates filled in; with --costs, estimated figures too; - is stdout",
            "--yaml",
        ),
    ] = None,
) -> None:
    """Show an architecture, a workload or a mapping."""
    from fusiest.show import mapping_svg, show_text
    from fusiest.spec import dump, filled, load, size_notes
    from fusiest.terminal import costs_text

    check_outputs(specs, svg=svg, yaml=yaml)
    spec = load(*specs, defines=read_defines(define))
    if svg is not None:
        write_output(svg, mapping_svg(spec))
    if yaml is not None:
        write_output(yaml, dump(filled(spec) if costs else spec))
    note(size_notes(spec))
    if STDOUT not in (svg, yaml):
        echo(costs_text(spec.costs()) if costs else show_text(spec, as_pseudocode=pseudocode))


def list_command() -> None:
    """List the bundled architectures, workloads and mappings."""
    from fusiest.spec import bundled

    for kind, names in bundled().items():
        echo(f"{kind}:")
        width = max(map(len, names), default=0)
        for name, about in names.items():
            echo(f"  {name:{width}}  {about}")
