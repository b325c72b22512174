"""`fusiest store`: check, collect garbage, merge and export stores of runs."""

from __future__ import annotations

from typing import Annotated

import typer

from fusiest.cli.completion import one_of
from fusiest.cli.output import echo
from fusiest.errors import FusiestError, SpecError, did_you_mean

WORDS = ("check", "gc", "merge", "export")


def store_command(
    what: Annotated[
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

    if what not in WORDS:
        raise SpecError(f"store {what}: none of {', '.join(WORDS)}{did_you_mean(what, WORDS)}")
    needed = {"merge": 1, "export": 1}.get(what, 0)
    if len(others or []) < needed or (what != "merge" and len(others or []) > needed):
        raise SpecError(f"store {what} DIR needs {['no further argument', 'one further argument'][needed]}")
    with Store(store, create=what == "merge") as own:
        if what == "check":
            wrong = check_store(own)
            for line in wrong:
                echo(line)
            if wrong:
                raise FusiestError(
                    f"{store}: {len(wrong):,} things are wrong; 'fusiest store gc' removes what is damaged"
                )
            echo(f"{store}: {len(own):,} runs, all in order")
        elif what == "gc":
            runs, files = collect_garbage(own)
            echo(f"{store}: {runs:,} runs and {files:,} files removed")
        elif what == "merge":
            for other in others or []:
                with Store(other, create=False) as given:
                    echo(f"{other}: {merge_stores(own, given):,} runs taken over")
        else:
            folder = (others or [""])[0]
            echo(f"{folder}: {export_store(own, folder):,} runs")
