"""`fusiest new`: a chip to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fusiest.base.errors import FusiestError
from fusiest.cli.arguments import STDOUT
from fusiest.cli.output import echo, write_output


def new_command(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="where to write it; - is stdout", show_default=True)
    ] = "chip.yaml",
) -> None:
    """Write a commented architecture to start from: memories, a vector unit, an array, and names of tensors."""
    from fusiest.spec import library_text

    if file != STDOUT and Path(file).exists():
        raise FusiestError(f"{file} exists; name another file")
    write_output(file, library_text("scaffold/chip.yaml"))
    if file != STDOUT:
        echo(f"{file} is written; try: fusiest map {file} resnet18_block --objective edp --report report.html")
