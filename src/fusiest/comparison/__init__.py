"""Saved results and evaluations side by side, and what differs between them."""

from fusiest.comparison.compare import Comparison, DifferenceLine, Row
from fusiest.comparison.compared_result import Saved, read_result

__all__ = ["Comparison", "DifferenceLine", "Row", "Saved", "read_result"]
