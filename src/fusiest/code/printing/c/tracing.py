"""Traces in C: the reads and writes of one memory, line by line of the memory, with addresses."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusiest.base.errors import check_known
from fusiest.code.lowering.statements import Array, Program

FORMATS = {"ramulator": ("LD 0x%llx\\n", "ST 0x%llx\\n"), "dramsim": ("0x%llx READ %llu\\n", "0x%llx WRITE %llu\\n")}
"""Lines for reads and for writes: as the LoadStoreTrace of Ramulator 2 has them, and DRAMsim3, which counts them, too."""
LINE = 64
"""Bytes that are read or written together, and to which tensors are aligned."""
MOST_LINES = 100_000_000

_RUNTIME = """\
#include <stdio.h>
#define TRACE(write, room, element, first) trace(write, room, (const value *)(element) - (const value *)(first))
static void trace(int write, int room, long long index) {{
  static unsigned long long last = -1, lines = 0;
  unsigned long long line = (base_of[room] + (unsigned long long)(index * bits_of[room] / 8)) / {line};
  unsigned long long access = 2 * line + write;
  if (access == last || lines >= {most}) return;
  last = access;
  printf(write ? "{write}" : "{read}", line * {line}{count});
  if (++lines == {most}) fputs("the trace ends here: it is as long as it may be\\n", stderr);
}}
"""


@dataclass(frozen=True)
class Trace:
    """What is traced: a memory of a program."""

    program: Program
    memory: str
    style: str = "ramulator"

    def __post_init__(self) -> None:
        memories = dict.fromkeys(array.memory for array in self._all())
        check_known(self.memory, memories, f"the mapping holds nothing in a memory {self.memory}")
        check_known(self.style, FORMATS, f"there is no format {self.style} of traces")

    def _all(self) -> tuple[Array, ...]:
        return (*self.program.arrays, *self.program.inputs, *self.program.outputs)

    @property
    def arrays(self) -> list[Array]:
        """What the memory holds."""
        return [array for array in self._all() if array.memory == self.memory]

    def number(self, array: Array) -> int:
        return self.arrays.index(array)

    def runtime(self) -> str:
        """Where tensors are in the memory, one behind the other, and the function that prints."""
        bases: list[int] = []
        end = 0
        widths = [array.width for array in self.arrays]
        for array, width in zip(self.arrays, widths, strict=True):
            bases.append(end)
            end += math.ceil(array.elements * width / (8 * LINE)) * LINE
        read, write = FORMATS[self.style]
        return (
            f"static const unsigned long long base_of[] = {{{', '.join(f'{int(base)}u' for base in bases)}}};\n"
            f"static const double bits_of[] = {{{', '.join(map(repr, map(float, widths)))}}};\n"
        ) + _RUNTIME.format(
            line=LINE, most=MOST_LINES, read=read, write=write, count=", lines" if self.style == "dramsim" else ""
        )
