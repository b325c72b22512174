"""Workloads and mappings as programs: `run` computes a workload in NumPy, `code_text` and `c_files` write a mapping as code.

`bodies` are what Einsums compute, in `functions` that have a meaning, on tensors of known `shapes`: `in_numpy` does it.
`programs` lowers a mapping to statements (`lowering`) and writes these in a language (`printing`).
`networks` are imported networks with their weights; `network_parts` are what runs between nodes that are no Einsums.
"""

from typing import TYPE_CHECKING

from fusiest.base.doors import lazy

if TYPE_CHECKING:
    from fusiest.code.bodies import einsum_words
    from fusiest.code.in_numpy import run
    from fusiest.code.networks import network_files
    from fusiest.code.programs import c_files, code_text, pseudocode

__all__ = ["c_files", "code_text", "einsum_words", "network_files", "pseudocode", "run"]

if not TYPE_CHECKING:  # most commands write no code
    __getattr__, __dir__ = lazy(__name__)
