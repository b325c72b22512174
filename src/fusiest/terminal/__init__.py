"""Results and progress as text. Each part is loaded when it is first used: the program must start at once."""

from typing import TYPE_CHECKING

from fusiest.base.doors import lazy

if TYPE_CHECKING:
    from fusiest.terminal.advice_text import advice_parts
    from fusiest.terminal.comparison_text import comparison_parts
    from fusiest.terminal.component_table import class_text, classes_text, costs_text, estimate_text
    from fusiest.terminal.console import fitting, printable, render, silence
    from fusiest.terminal.grid import Part
    from fusiest.terminal.progress_line import ProgressLine
    from fusiest.terminal.summary import evaluation_parts, result_parts
    from fusiest.terminal.sweep_text import status_parts, sweep_parts

__all__ = [
    "Part", "ProgressLine", "advice_parts", "class_text", "classes_text", "comparison_parts", "costs_text",
    "estimate_text", "evaluation_parts", "fitting", "printable", "render", "result_parts", "silence", "status_parts",
    "sweep_parts",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
