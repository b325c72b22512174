"""What every package may use: errors, units, files, processes, compiled loops. No module here knows of specs or mappings.

`errors`, `doors` (`__init__`s that load late), `frozen`, `frames` (tables), `files` (written whole or not at all), `jsontext` (JSON of
unknown origin), `interrupt` (Ctrl-C: a search calls `check` between its steps, since compiled code must not be interrupted),
`collector` (Python's garbage collector, paused), `workers` (processes), `units`, `objective`, `compiled` (Numba).
Modules are imported one by one: `from fusiest.base.errors import SpecError`.
"""
