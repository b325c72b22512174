"""What every package may use: errors, units, files, processes, compiled loops. No module here knows of specs or mappings.

Modules are imported one by one: `from fusiest.base.errors import SpecError`.
"""
