"""Saved results and evaluations side by side, and what differs between them."""

from fusiest.comparison.compare import Comparison, Line, Row
from fusiest.comparison.saved import Saved, read_result

__all__ = ["Comparison", "Line", "Row", "Saved", "read_result"]
