"""Counters in C: one for each Einsum, component, tensor and action, and the most bits that each memory holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fusiest.code.lowering.statements import Array, Program
from fusiest.model import AccessKey, Anatomy, Evaluation

_RUNTIME = """\
#define COUNT(number, amount, here) (total[number] += (amount), unit[number] += (here) ? (amount) : 0)
#define ONCE(number, seen, here) (total[number] += !((seen) & 1), unit[number] += (here) && !((seen) & 2), (seen) |= (here) ? 3 : 1)
#define HOLD(room) hold(room, 1)
#define RELEASE(room) hold(room, 0)
static void hold(int room, int held) {
  double bits = 0, most = 0;
  int memory = memory_of[slot_of[room]];
  alive[room] = held;
  for (int i = first_room[memory]; i < first_room[memory + 1]; i++) {
    if (alive[i] && room_bits[i] > most) most = room_bits[i];
    if (i + 1 == first_room[memory + 1] || slot_of[i + 1] != slot_of[i]) bits += most, most = 0;
  }
  if (bits > peak[memory]) peak[memory] = bits;
}
"""
"""Rooms are sorted by memory and slot. In one slot, arrays of a tensor share their room."""


@dataclass(frozen=True)
class Counters:
    """What is counted in a program, by numbers from `first` on, so that several programs may stand in one file."""

    program: Program
    parts: Anatomy
    evaluation: Evaluation
    first: int = 0
    first_room: int = 0
    first_slot: int = 0
    first_memory: int = 0
    numbers: Mapping[tuple[str, AccessKey], int] = field(init=False)
    rooms: Mapping[int, int] = field(init=False)
    """Of each array, by its identity."""
    memories: tuple[str, ...] = field(init=False)
    slots: tuple[tuple[str, str], ...] = field(init=False)
    ordered: tuple[Array, ...] = field(init=False)

    def __post_init__(self) -> None:
        keys = [(name, key) for name, e in self.evaluation.einsums.items() for key in e.actions]
        arrays = (*self.program.arrays, *self.program.inputs, *self.program.outputs)
        memories = tuple(dict.fromkeys(array.memory for array in arrays))
        ordered = sorted(arrays, key=lambda array: (memories.index(array.memory), self._slot(array)))
        values = {
            "numbers": {key: self.first + i for i, key in enumerate(keys)},
            "rooms": {id(array): self.first_room + i for i, array in enumerate(ordered)},
            "memories": memories,
            "slots": tuple(dict.fromkeys((array.memory, self._slot(array)) for array in ordered)),
            "ordered": tuple(ordered),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _slot(self, array: Array) -> str:
        """Copies in one memory are one there; a tensor has one room there, whoever keeps it."""
        return self.parts.common.root.get(array.tensor, array.tensor) if array.backing else array.tensor


def runtime(counters: Sequence[Counters]) -> str:
    """The tables and the functions that counting needs, for several programs."""
    return "".join(f"{line}\n" for line in _tables(counters)) + _RUNTIME


def _tables(counters: Sequence[Counters]) -> Iterator[str]:
    arrays = [(c, array) for c in counters for array in c.ordered]
    slots = [(c, slot) for c in counters for slot in c.slots]
    memories = [(c, memory) for c in counters for memory in c.memories]
    count = sum(len(c.numbers) for c in counters)
    yield f"static unsigned long long total[{count or 1}], unit[{count or 1}];"
    yield f"static double peak[{len(memories)}];"
    yield f"static char alive[{len(arrays)}];"
    bits = ", ".join(repr(float(array.bits)) for _, array in arrays)
    yield f"static const double room_bits[] = {{{bits}}};"
    own = {(id(c), slot): i for i, (c, slot) in enumerate(slots)}
    yield f"static const int slot_of[] = {{{', '.join(str(own[id(c), (a.memory, c._slot(a))]) for c, a in arrays)}}};"
    places = {(id(c), memory): i for i, (c, memory) in enumerate(memories)}
    yield f"static const int memory_of[] = {{{', '.join(str(places[id(c), slot[0]]) for c, slot in slots)}}};"
    ends = [0]
    for c, memory in memories:
        ends.append(ends[-1] + sum(array.memory == memory for array in c.ordered))
    yield f"static const int first_room[] = {{{', '.join(map(str, ends))}}};"
