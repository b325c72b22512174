"""The program `fusiest`: its commands, and how it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from fusiest.base import interrupt
from fusiest.base.errors import FusiestError, OutOfMemory
from fusiest.cli.checked import CheckedCommand
from fusiest.cli.commands.advise import advise_command
from fusiest.cli.commands.code import code_command
from fusiest.cli.commands.compare import compare_command
from fusiest.cli.commands.components import components_command
from fusiest.cli.commands.evaluate import evaluate_command
from fusiest.cli.commands.import_network import import_command
from fusiest.cli.commands.map import map_command
from fusiest.cli.commands.new import new_command
from fusiest.cli.commands.report import report_command
from fusiest.cli.commands.reproduce import reproduce_command
from fusiest.cli.commands.show import list_command, show_command
from fusiest.cli.commands.store import store_command
from fusiest.cli.commands.sweep import sweep_command
from fusiest.cli.output import complain, echo, interruptible, warnings_as_lines, writing_to_stdout
from fusiest.terminal import silence

_HELP = """Finds the provably best way to run a tensor workload on an accelerator.

An architecture (ARCH), a workload and a mapping are each a YAML file or the name of a bundled one. Results go to stdout,
progress to stderr. Exit status: 0; 2 bad input; 3 no valid mapping; 4 out of memory; 130 interrupted.
"""

_EXAMPLES = """Start here:

\b
  # what comes with fusiest
  fusiest list
  # look at an accelerator and a layer of GPT-3
  fusiest show tpu_v4i gpt3_6.7B -D BATCH_SIZE=1 -D N_TOKENS=256
  # find the mapping of least energy; keep it, all figures, and a report to open in a browser
  fusiest map tpu_v4i gpt3_6.7B -D BATCH_SIZE=1 -D N_TOKENS=256 \\
      --objective energy --mapping best.yaml --json result.json --report report.html
  # what that mapping costs, by Einsum and memory
  fusiest evaluate tpu_v4i gpt3_6.7B best.yaml -D BATCH_SIZE=1 -D N_TOKENS=256
  # a chip of your own (or: fusiest new chip.yaml): edit it, map again, and compare
  fusiest show tpu_v4i --yaml chip.yaml
  fusiest map chip.yaml gpt3_6.7B -D BATCH_SIZE=1 -D N_TOKENS=256 \\
      --objective energy --json other.json
  fusiest compare result.json other.json

Complete names and options with Tab: fusiest --install-completion
"""

app = typer.Typer(
    add_completion=True, pretty_exceptions_enable=False, rich_markup_mode=None, help=_HELP, epilog=_EXAMPLES
)

# Click's own class, which newer typers bring with them under another name.
_USAGE_ERROR: Any = typer.BadParameter.__base__


def _command(name: str, run: Callable[..., None], *examples: str) -> None:
    """Add a command, with examples below its help: lines that click does not rearrange."""
    epilog = "Examples:\n\n\b\n" + "\n".join(f"  {line}" for line in examples) if examples else None
    first = " ".join((run.__doc__ or "").split("\n\n")[0].split())  # whole: click would cut it at the width of a line
    app.command(name, epilog=epilog, short_help=first, cls=CheckedCommand)(interruptible(run))


_GPT = "gpt3_6.7B -D BATCH_SIZE=64 -D N_TOKENS=4096"

_command(
    "map",
    map_command,
    "# the whole energy-latency front",
    "fusiest map simple matmuls -D N_EINSUMS=2 -D M=64 -D KN=64",
    "# one mapping, the best by energy-delay product",
    f"fusiest map tpu_v4i {_GPT} --objective edp --mapping best.yaml",
    "# your own accelerator; after a minute, or once a mapping is known, the best so far and what it may miss",
    "fusiest map chip.yaml mobilenet --time-limit 60 --json result.json",
)
_command(
    "new",
    new_command,
    "# a chip to change, and its first mapping",
    "fusiest new chip.yaml",
    "fusiest map chip.yaml resnet18_block --objective edp",
)
_command(
    "evaluate",
    evaluate_command,
    "fusiest evaluate simple matmuls fused_matmuls_to_simple",
    f"fusiest evaluate tpu_v4i {_GPT} best.yaml --json evaluation.json",
    "# the same mapping on another chip: what a saved result has, and the chip instead of its own",
    "fusiest evaluate chip.yaml result.json",
)
_command(
    "show",
    show_command,
    "fusiest show tpu_v4i",
    "# a bundled architecture as a file of your own, to change it",
    "fusiest show tpu_v4i --yaml chip.yaml",
    "fusiest show matmuls fused_matmuls_to_simple --pseudocode",
    "fusiest show simple matmuls fused_matmuls_to_simple -D N_EINSUMS=3 --svg mapping.svg",
)
_command(
    "code",
    code_command,
    "# a function in C; or a folder with a main and a Makefile, which counts what the model counts",
    "fusiest code simple matmuls fused_matmuls_to_simple",
    "fusiest code simple matmuls fused_matmuls_to_simple -o matmuls --count",
    "make -C matmuls run count",
    "# the mapping of a saved result; what its main memory sees, for a simulator of DRAM",
    "fusiest code result.json -o dram --trace MainMemory --trace-format dramsim",
)
_command(
    "compare",
    compare_command,
    "fusiest map simple matmuls --json large.json",
    "fusiest map simple matmuls -D GlobalBufferSize=65536 --json small.json",
    "fusiest compare large.json small.json --report comparison.html",
    "# any number of results, and evaluations of given mappings",
    "fusiest compare large.json small.json given.json",
)
_command(
    "import",
    import_command,
    "# what becomes of every node; the workload as a file to edit",
    "fusiest import resnet18.onnx -o resnet18.yaml --report nodes.txt",
    "# open dimensions, another batch, FlashAttention's traffic",
    "fusiest import bert.onnx --dim sequence=128 --batch 8 --softmax online -o bert.yaml",
    "# or map it as it is",
    "fusiest map tpu_v4i resnet18.onnx --objective edp",
    "# a Timeloop description as a spec; its statistics are compared",
    "fusiest import --from timeloop outputs/*.yaml outputs/timeloop-model.stats.txt -o spec.yaml",
)
_command(
    "report",
    report_command,
    "fusiest map tpu_v4i mobilenet --json result.json",
    "fusiest report result.json --out report.html",
)
_command("reproduce", reproduce_command, "fusiest reproduce edge-transformer --quick --out reproduced")
_command(
    "components",
    components_command,
    "# every class in a line; one in full; what a memory of that class costs",
    "fusiest components",
    "fusiest components SRAM",
    "fusiest components SRAM size=64KiB width=64 tech_node=22nm --json",
)
_command(
    "sweep",
    sweep_command,
    "# which buffer, which bandwidth? 6 designs, each with its best mapping",
    "fusiest sweep simple matmuls -D GlobalBufferSize=65536,131072,262144 -D M=64,128",
    "# a sweep file; what was done is kept in edge.runs, and the same command goes on",
    "fusiest sweep edge.yaml --jobs 2 --time-limit 600 --table edge.csv",
    "fusiest sweep edge.yaml --status",
)
_command("advise", advise_command, "fusiest advise simple matmuls -D M=64 -D KN=64")
_command("store", store_command, "fusiest store check edge.runs", "fusiest store merge all.runs edge.runs cloud.runs")
_command("list", list_command)


def _version(requested: bool) -> None:
    if requested:
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
    with interrupt.program(), warnings_as_lines():
        _main()


def _main() -> None:
    try:
        status = app(sys.argv[1:] or ["--help"], prog_name="fusiest", standalone_mode=False)
        with writing_to_stdout():
            if sys.stdout is not None:
                sys.stdout.flush()
        if status == interrupt.EXIT_STATUS:  # before any command began
            raise KeyboardInterrupt
        if isinstance(status, int) and status:
            sys.exit(status)
    except FusiestError as error:
        complain(str(error), error.exit_status)
    except (typer.Abort, KeyboardInterrupt):
        complain("fusiest: interrupted", interrupt.EXIT_STATUS)
    except MemoryError:
        complain("fusiest: out of memory", OutOfMemory.exit_status)
    except BrokenPipeError:
        silence(sys.stdout)
        sys.exit(1)
    except OSError as error:
        silence(sys.stdout)
        complain(f"fusiest: {error.strerror or error}", 2)
    except _USAGE_ERROR as error:
        commands = {command.name for command in app.registered_commands}
        words = " ".join(["fusiest", *(word for word in sys.argv[1:2] if word in commands)])
        complain(f"fusiest: {error.format_message().rstrip('.')}; see {words} --help", 2)
