"""Timeloop's descriptions as specs: architecture, problem, mapping, constraints and energies.

`import_timeloop` reads files as users write them or as Timeloop's front end processed them.
"""

from __future__ import annotations

from fusiest.timeloop.converting import TimeloopImport, import_timeloop

__all__ = ["TimeloopImport", "import_timeloop"]
