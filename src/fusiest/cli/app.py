"""The program `fusiest`: its commands, and how it ends."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from fusiest.cli.evaluate import evaluate_command
from fusiest.cli.map import map_command
from fusiest.cli.output import complain, echo, silence_stdout
from fusiest.cli.show import list_command, show_command
from fusiest.errors import FusiestError

app = typer.Typer(
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Finds the provably best way to run a tensor workload on an accelerator.",
    epilog="Example: fusiest map tpu_v4i gpt3_6.7B -D BATCH_SIZE=1 -D N_TOKENS=1024 --objective edp",
)

# Click's own class, which newer typers bring with them under another name.
_USAGE_ERROR: Any = typer.BadParameter.__base__

app.command(
    "map",
    epilog="Example: fusiest map tpu_v4i gpt3_6.7B -D BATCH_SIZE=64 -D N_TOKENS=4096 --objective edp --mapping best.yaml",
)(map_command)
app.command(
    "evaluate",
    epilog="Example: fusiest evaluate tpu_v4i gpt3_6.7B my_mapping.yaml -D N_TOKENS=1024 --json result.json",
)(evaluate_command)
app.command(
    "show", epilog="Example: fusiest show simple matmuls fused_matmuls_to_simple -D N_EINSUMS=3 --svg mapping.svg"
)(show_command)
app.command("list")(list_command)


def _version(wanted: bool) -> None:
    if wanted:
        from fusiest import __version__

        echo(f"fusiest {__version__}")
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
        complain(str(error), error.exit_status)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        silence_stdout()
        sys.exit(1)
    except _USAGE_ERROR as error:
        complain(f"fusiest: {error.format_message().rstrip('.')}; see fusiest --help", 2)
