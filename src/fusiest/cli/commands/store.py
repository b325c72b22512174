"""`fusiest store`: check, collect garbage, merge and export stores of runs."""

from __future__ import annotations

from typing import Annotated

import typer

from fusiest.base.errors import FusiestError, SpecError, check_known
from fusiest.cli.completion import one_of
from fusiest.cli.output import echo

WORDS = ("check", "gc", "merge", "export")


def store_command(
    task: Annotated[
        str,
        typer.Argument(metavar="|".join(WORDS), help="what to do", autocompletion=one_of(*WORDS), show_default=False),
    ],
    store: Annotated[str, typer.Argument(metavar="DIR", help="the store", show_default=False)],
    others: Annotated[
        list[str] | None,
        typer.Argument(metavar="OTHER…", help="merge: stores to take over; export: the folder to write into"),
    ] = None,
) -> None:
    """Look after a store of runs: check it, remove garbage, take over other stores, write it out as CSV and JSON."""
    from fusiest.sweeps import Store, check_store, collect_garbage, export_store, merge_stores

    check_known(task, WORDS, f"store {task}: none of {', '.join(WORDS)}")
    arguments = {"merge": 1, "export": 1}.get(task, 0)
    if len(others or []) < arguments or (task != "merge" and len(others or []) > arguments):
        raise SpecError(f"store {task} DIR needs {['no further argument', 'one further argument'][arguments]}")
    with Store(store, create=task == "merge") as target:
        if task == "check":
            wrong = check_store(target)
            for line in wrong:
                echo(line)
            if wrong:
                raise FusiestError(
                    f"{store}: {len(wrong):,} things are wrong; 'fusiest store gc' removes what is damaged"
                )
            echo(f"{store}: {len(target):,} runs, all in order")
        elif task == "gc":
            runs, files = collect_garbage(target)
            echo(f"{store}: {runs:,} runs and {files:,} files removed")
        elif task == "merge":
            for other in others or []:
                with Store(other, create=False) as origin:
                    count, refused = merge_stores(target, origin)
                for line in refused:
                    echo(f"{other}: {line}")
                echo(f"{other}: {count:,} runs taken over" + (f", {len(refused):,} left out" if refused else ""))
        else:
            folder = (others or [""])[0]
            echo(f"{folder}: {export_store(target, folder):,} runs")
