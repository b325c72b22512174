"""`python -m bench cnns`: random CNNs of two to four layers in tight buffers, and which of their optima are proven; written to
bench/results/cnns-<date>.json.

The generator and its seed are fixed: versions are compared on the same CNNs. A case is drawn from its number alone. Layers are
convolutions (also pointwise, strided, dilated, depthwise), poolings and residual additions, over rows or over rows and columns, with
and without channels and padding. The buffer holds a part of what the layers exchange. Costs are chosen so that traffic matters.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.machine import machine, versions
from fusiest.base.files import write_atomically
from fusiest.base.workers import make_pool

ROOT = Path(__file__).parents[1]
SEED = 20261119
COUNT = 60
MOST_SECONDS = 300.0
"""Time limit of a case."""
CHIP = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, leak_power: 0, area: 0, tensors: {keep: ~Intermediates, may_keep: All},
             actions: [{name: read, energy: 100, throughput: 4}, {name: write, energy: 100, throughput: 4}]}
  - !Memory {name: Buffer, size: SIZE, component_class: Dummy, leak_power: 0, area: 0, tensors: {keep: ~DRAM, may_keep: All},
             actions: [{name: read, energy: 1, throughput: 16}, {name: write, energy: 1, throughput: 16}]}
  - !Compute {name: MAC, component_class: Dummy, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""


@dataclass
class DrawnLayer:
    """A layer, written as an Einsum."""

    number: int
    bounds: dict[str, int] = field(default_factory=dict)
    reads: dict[str, dict[str, str]] = field(default_factory=dict)
    """Per tensor, the index of each rank."""
    weights: tuple[str, ...] = ()
    makes: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """The Einsum in YAML."""
        n = self.number
        accesses = [f"{{name: {tensor}, projection: {_index(ranks)}}}" for tensor, ranks in self.reads.items()]
        if self.weights:
            accesses.append(f"{{name: W{n}, projection: {_index({v.upper(): v for v in self.weights})}}}")
        accesses.append(f"{{name: T{n}, projection: {_index(self.makes)}, output: true}}")
        shape = ", ".join(f"0 <= {v} < {bound}" for v, bound in self.bounds.items())
        lists = f"tensor_accesses: [{', '.join(accesses)}], iteration_space_shape: [{shape}]"
        return f"  - {{name: E{n}, {lists}}}"

    @property
    def has_halo(self) -> bool:
        """Whether it reads rows in another way than one by one."""
        return any("r" in v for v in self.bounds) or any(
            "*" in i for ranks in self.reads.values() for i in ranks.values()
        )

    def made(self) -> int:
        """How many values it makes."""
        count = 1
        for v in self.makes.values():
            count *= self.bounds[v]
        return count


def _index(ranks: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{rank}: {index}" for rank, index in ranks.items()) + "}"


def draw(number: int) -> str:
    """Draw the architecture and the workload of one case."""
    dice = random.Random(SEED * 1_000 + number)
    layers = _layers(dice)
    while not any(layer.has_halo for layer in layers[1:]):
        layers = _layers(dice)
    inner = sum(layer.made() for layer in layers[:-1])
    size = max(4, round(inner * dice.uniform(0.1, 0.7)))
    workload = "workload:\n  bits_per_value: {All: 8}\n  einsums:\n" + "\n".join(layer.text() for layer in layers)
    return CHIP.replace("SIZE", str(8 * size)) + workload + "\n"


def _layers(dice: random.Random) -> list[DrawnLayer]:
    ranks = ["H", "V"] if dice.random() < 0.4 else ["H"]
    count = dice.randint(2, 4 if len(ranks) == 1 else 3)
    channels = dice.random() < 0.5
    sizes = {rank: dice.randint(2, 4 if len(ranks) > 1 else 7) for rank in ranks}
    width = dice.randint(2, 4) if channels else 0
    layers: list[DrawnLayer] = []
    for n in range(count, 0, -1):
        layer, width = _layer(dice, n, ranks, sizes, width)
        layers.insert(0, layer)
    if count > 2 and dice.random() < 0.35:
        _add_residual(dice, layers, ranks)
    return layers


def _layer(dice: random.Random, n: int, ranks: list[str], sizes: dict[str, int], width: int) -> tuple[DrawnLayer, int]:
    """One layer, from the last on; `sizes` becomes the size of what it reads. Returns its input's channels, too."""
    layer, index = DrawnLayer(n), dict[str, str]()
    kind = dice.choice(["conv", "conv", "conv", "strided", "dilated", "pointwise", "pool", "depthwise"])
    kind = "conv" if kind == "depthwise" and not width else kind
    for rank in ranks:
        v, r, size = f"{rank.lower()}{n}", f"{rank.lower()}r{n}", sizes[rank]
        large = size > (5 if len(ranks) > 1 else 12)
        layer.bounds[v] = size
        taps = 1 if kind == "pointwise" else dice.randint(2, 2 if large else 3)
        stride = dice.randint(1 if kind == "pool" else 2, 2) if kind in ("strided", "pool") and not large else 1
        gap = 2 if kind == "dilated" and not large else 1
        reach = gap * (taps - 1)
        pad = reach // 2 if dice.random() < 0.5 else 0
        terms = [f"{stride} * {v}" if stride > 1 else v]
        if taps > 1:
            layer.bounds[r] = taps
            terms.append(f"{gap} * {r}" if gap > 1 else r)
        index[rank] = " + ".join(terms) + (f" - {pad}" if pad else "")
        layer.makes[rank] = v
        sizes[rank] = stride * (size - 1) + reach + 1 - 2 * pad
        sizes[rank] = max(sizes[rank], 1)
    kernel = tuple(v for v in layer.bounds if "r" in v)
    before = width
    if width:
        layer.bounds[f"m{n}"] = width
        layer.makes["C"] = f"m{n}"
        if kind in ("pool", "depthwise"):
            index["C"] = f"m{n}"
            layer.weights = (*kernel, f"m{n}") if kind == "depthwise" else ()
        else:
            before = dice.randint(1, 3) if n == 1 else dice.randint(2, 4)
            layer.bounds[f"c{n}"] = before
            index["C"] = f"c{n}"
            layer.weights = (*kernel, f"c{n}", f"m{n}")
    elif kernel and kind != "pool":
        layer.weights = kernel
    layer.reads[f"T{n - 1}"] = index
    return layer, before


def _add_residual(dice: random.Random, layers: list[DrawnLayer], ranks: list[str]) -> None:
    """The last layer also reads what an earlier one makes, position by position, if there is as much of it."""
    last, n = layers[-1], len(layers)
    source = layers[dice.randrange(len(layers) - 2)]
    fits = all(last.bounds[f"{r.lower()}{n}"] <= source.bounds[f"{r.lower()}{source.number}"] for r in ranks)
    if not fits or last.bounds.get(f"m{n}") != source.bounds.get(f"m{source.number}"):
        return
    shift = dice.randint(0, 1)
    index = {}
    for r in ranks:
        room = source.bounds[f"{r.lower()}{source.number}"] - last.bounds[f"{r.lower()}{n}"]
        index[r] = f"{r.lower()}{n}" + (f" + {min(shift, room)}" if min(shift, room) else "")
    if f"m{n}" in last.bounds:
        index["C"] = f"m{n}"
    last.reads[f"T{source.number}"] = index


def mapped(number: int) -> dict[str, Any]:
    """Map one case in this process; even numbers by energy, odd ones by energy-delay product."""
    import fusiest
    from fusiest.spec import load_texts

    spec = load_texts({f"cnn{number}": draw(number)}, {})
    objective = "edp" if number % 2 else "energy"
    begin = time.process_time()
    result = fusiest.map(spec, objective, jobs=1, time_limit=MOST_SECONDS, progress=False)
    seconds = time.process_time() - begin
    plain = fusiest.map(spec, objective, jobs=1, windows="none", progress=False)
    return {
        "number": number, "objective": objective, "einsums": len(spec.info.einsums),
        "cost": getattr(result.best(objective), objective), "without_windows": getattr(plain.best(objective), objective),
        "optimal": result.optimal, "gap": result.gap, "proof": result.proof, "stopped": result.stopped, "cpu_seconds": seconds,
    }  # fmt: skip


def main(arguments: list[str]) -> None:
    """Measure, print, and write what was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench cnns", description="Map random CNNs in tight buffers.")
    parser.add_argument("--only", action="append", type=int, metavar="NUMBER", help="may be repeated")
    parser.add_argument("--count", type=int, default=COUNT, help="of the recorded ones: 60")
    parser.add_argument("--jobs", type=int, default=1, help="cases side by side")
    parser.add_argument("--draw", action="store_true", help="print the specs and stop")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="folder for the results")
    options = parser.parse_args(arguments)
    numbers = options.only or list(range(options.count))
    if options.draw:
        print("\n---\n".join(draw(number) for number in numbers))
        return
    rows = list[dict[str, Any]]()
    for row in _all_mapped(numbers, options.jobs):
        rows.append(row)
        print(_words(row), flush=True)
    print(_summary(rows))
    date = datetime.date.today().isoformat()
    results = {"date": date, "machine": machine(), "versions": versions(), "seed": SEED, "cases": rows}
    options.results.mkdir(parents=True, exist_ok=True)
    write_atomically(options.results / f"cnns-{date}.json", json.dumps(results, indent=1) + "\n")


def _all_mapped(numbers: list[int], jobs: int) -> Iterator[dict[str, Any]]:
    if jobs == 1:
        yield from map(mapped, numbers)
        return
    with make_pool(jobs) as pool:
        yield from pool.map(mapped, numbers)


def _words(row: dict[str, Any]) -> str:
    saved = 1 - row["cost"] / row["without_windows"]
    return (
        f"{row['number']:3} {row['objective']:6} {row['einsums']} layers {row['cost']:12.6g} ({100 * saved:4.1f}% less by windows) "
        f"{row['proof']}, {row['cpu_seconds']:.2f} s"
    )


def _summary(rows: list[dict[str, Any]]) -> str:
    proven = sum(row["optimal"] for row in rows)
    gaps = sorted(row["gap"] for row in rows if not row["optimal"])
    worst = f", gaps of {100 * gaps[0]:.1f} to {100 * gaps[-1]:.1f}%" if gaps else ""
    better = sum(row["cost"] < row["without_windows"] * (1 - 1e-9) for row in rows)
    return f"{proven} of {len(rows)} proven{worst}; windows are better in {better}; {sum(row['cpu_seconds'] for row in rows):.0f} s"
