"""Counters in C: one for each Einsum, component, tensor and action, and the most bits that each memory holds.

What they come to is printed as the JSON of `fusiest evaluate`, in which every number that follows from counts is counted.
"""

from __future__ import annotations

import json
import math
import re
import string
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


# --- as JSON --------------------------------------------------------------------------------------------------------


class _Numbers:
    """A document with places for the numbers that the program prints: `number` takes what to print as C."""

    def __init__(self, document: Mapping[str, object]) -> None:
        self.printed: list[str] = []
        self.mark = "@"
        while self.mark in json.dumps(document):  # no text in the document is taken for a place
            self.mark += "@"

    def number(self, expression: str) -> str:
        self.printed.append(expression)
        return f"{self.mark}{len(self.printed) - 1}"

    def program(self, document: Mapping[str, object]) -> Iterator[str]:
        """The statements that print a document."""
        pieces = re.split(rf'"{self.mark}(\d+)"', json.dumps(document, indent=1, allow_nan=False))
        for i, piece in enumerate(pieces):
            if i % 2:
                yield f'  printf("%.17g", {self.printed[int(piece)]});'
            else:
                yield from (f'  fputs("{_quoted(line)}", stdout);' for line in piece.splitlines(keepends=True))


def _quoted(text: str) -> str:
    """Text within a string of C: whatever it is, it stays text."""
    plain = {*string.ascii_letters, *string.digits, *" _-+*/=<>()[]{}.,:;|&!@#~^$'"}
    return "".join(c if c in plain else "".join(f"\\{byte:03o}" for byte in c.encode()) for c in text)


def json_function(counters: Counters, document: Mapping[str, object]) -> str:
    """`print_counts`: the JSON of an evaluation, made of what was counted.

    `document` is that of the evaluation; what does not follow from counts is taken from it, such as seconds of a component whose
    `total_latency` is an expression.
    """
    numbers = _Numbers(document)
    einsums = {name: _einsum(counters, name, numbers) for name in counters.evaluation.einsums}
    names = list(einsums)
    peaks = {memory: numbers.number(f"peak[{i}]") for i, memory in enumerate(counters.memories)}
    given = counters.evaluation.to_json()["einsums"]
    assert isinstance(given, dict)
    found = {
        **document,
        "energy": numbers.number("dynamic + leaked"),
        "dynamic_energy": numbers.number("dynamic"),
        "leak_energy": numbers.number("leaked"),
        "latency": numbers.number("seconds"),
        "edp": numbers.number("(dynamic + leaked) * seconds"),
        "peak_occupancy_bits": peaks,
        "einsums": {name: {**given[name], **fields} for name, (fields, _) in einsums.items()},
    }
    lines = [line for name in names for line in einsums[name][1]]
    head = [
        "#include <stdio.h>",
        "void print_counts(void) {",
        f"  double dynamic = 0, leaked = 0, seconds = 0, energy[{len(names)}], latency[{len(names)}];",
    ]
    return "\n".join([*head, *lines, *numbers.program(found), '  fputs("\\n", stdout);', "}"]) + "\n"


def _einsum(counters: Counters, name: str, numbers: _Numbers) -> tuple[dict[str, object], list[str]]:
    """What one Einsum comes to: its part of the document, and statements that add it up."""
    evaluation, bound = counters.evaluation.einsums[name], counters.parts.bound[name]
    place = list(counters.evaluation.einsums).index(name)
    nest = next(nest for nest in counters.parts.nests if nest.einsum.name == name)
    instances = nest.einsum.n_instances
    energy, latency = f"energy[{place}]", f"latency[{place}]"
    actions, energies, busy, lines = {}, {}, {}, [f"  {energy} = {latency} = 0;"]
    rates: dict[str, list[str]] = {component: [] for component in evaluation.latency_per_component}
    for key in evaluation.actions:
        component, tensor, action = key
        number, a = counters.numbers[name, key], bound[component].actions[action]
        each = (1 / a.values_per_action[tensor] if tensor else 1) * a.actions_scale
        count = f"total[{number}] * {float(each * instances)!r}"
        actions["/".join(key)] = numbers.number(count)
        energies["/".join(key)] = numbers.number(f"{count} * {float(a.energy)!r}")
        lines.append(f"  {energy} += {count} * {float(a.energy)!r};")
        if not math.isinf(a.throughput):
            rates[component].append(f"unit[{number}] * {float(each * instances / a.throughput)!r}")
    for component, seconds in evaluation.latency_per_component.items():
        given = bound[component].total_latency is not None
        text = repr(float(seconds)) if given else " + ".join(rates[component]) or "0.0"
        busy[component] = numbers.number(text)
        lines.append(f"  if ({text} > {latency}) {latency} = {text};")
    lines.append(f"  dynamic += {energy}, seconds += {latency};")
    for key, joules in evaluation.energies.items():
        if key[2] == "leak":
            leaks = f"{joules / evaluation.latency if evaluation.latency else 0.0!r} * {latency}"
            energies["/".join(key)] = numbers.number(leaks)
            lines.append(f"  {energy} += {leaks}, leaked += {leaks};")
    fields: dict[str, object] = {
        "energy": numbers.number(energy),
        "latency": numbers.number(latency),
        "latency_per_component": busy,
        "actions": actions,
        "energies": energies,
    }
    return fields, lines
