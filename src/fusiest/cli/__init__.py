"""The command line, a module per command. Results go to stdout, everything else to stderr.

Commands only read arguments, call the library and print; they must never compute what the library could not give.
"""

from fusiest.cli.app import app, main

__all__ = ["app", "main"]
