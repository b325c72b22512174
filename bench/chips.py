"""`python -m bench chips`: random chips as newcomers draw them, and how long proven optima of four networks take on each; written to
bench/results/chips-<date>.json.

The generator and its seed are fixed: versions are compared on the same chips. A chip is drawn from its number alone: three to six
memories, shared or per core, side by side or not; no, one, two or three fanouts of 2 to 256; reuse left open or to single tensors;
register files of one tensor or of all. Nothing else is constrained.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.machine import machine, versions
from fusiest.base.files import write_atomically
from fusiest.base.workers import make_pool

ROOT = Path(__file__).parents[1]
SEED = 20261120
COUNT = 20
NETWORKS = ("resnet18", "mobilenet_v2", "gpt3_6.7B", "bert_base")
MOST_SECONDS = 60.0
"""Time limit of a case."""
ROLES = ("input", "weight", "output")


def draw(number: int) -> str:
    """The architecture of a chip."""
    dice = random.Random(f"{SEED}-{number}")
    fanouts = dice.randint(0, 3)
    shared = dice.randint(1, 2)
    inner = max(3 - 1 - shared, dice.randint(0, 3))
    kib = dice.choice([512, 1024, 4096, 16384])
    nodes = [_memory("DRAM", "inf", 8.0, dice.choice([16, 64, 256]), "keep: ~Intermediates, may_keep: All")]
    for level in range(shared):
        keep = "keep: ~DRAM, may_keep: All" if level == 0 else "may_keep: All"
        nodes.append(_memory(f"L{level + 2}", f"{kib} KiB", 0.8 / (level + 1), 512 * (level + 1), keep))
        kib = max(64, kib // 8)
    places = sorted(dice.sample(range(inner + 1), min(fanouts, inner + 1)))
    beside = dice.random() < 0.4
    for place in range(inner + 1):
        if place in places:
            nodes.append(_fanout(dice, f"A{place}", 256 if len(places) == 1 else 64))
        if place == inner:
            break
        kib = dice.choice([1, 4, 16, 64]) if place == 0 else dice.choice([0.125, 0.5, 2])
        if beside and place == inner - 1:
            chosen = ROLES if dice.random() < 0.5 else (dice.choice(ROLES),)
            for role in chosen:
                kept = f"keep: {role}, may_keep: {role}"
                nodes.append(_memory(f"R{place}{role[0]}", f"{kib} KiB", 0.05, 1024, kept))
        else:
            nodes.append(_memory(f"R{place}", f"{kib} KiB", 0.1, 1024, "may_keep: All"))
    throughput = "clock" if places else f"{dice.choice([64, 256, 1024])} * clock"
    nodes.append(
        f"!Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 0.2 pJ, throughput: {throughput}}}]}}"
    )
    body = "\n".join(f"  - {node}" for node in nodes)
    return f"arch:\n  variables: {{clock: 1e9}}\n  nodes:\n{body}\n"


def _memory(name: str, size: str, energy: float, bandwidth: float, tensors: str) -> str:
    speed = f"{bandwidth:g} GB/s" if name == "DRAM" else f"{bandwidth:g} * clock"
    actions = ", ".join(f"{{name: {a}, energy: {energy:g} pJ/bit, throughput: {speed}}}" for a in ("read", "write"))
    return (
        f"!Memory {{name: {name}, size: {size}, leak_power: 0, area: 0, tensors: {{{tensors}}}, actions: [{actions}]}}"
    )


def _fanout(dice: random.Random, name: str, most: int) -> str:
    sizes = [size for size in (2, 4, 8, 12, 16, 32, 64, 256) if size <= most]
    dimensions = [dice.choice(sizes)] if dice.random() < 0.4 else [dice.choice(sizes), dice.choice(sizes[:6])]
    reuse = [dice.choice(("All", *ROLES)) for _ in dimensions]
    spatial = ", ".join(
        f"{{name: {name}{'xy'[i]}, fanout: {size}, may_reuse: {r}}}"
        for i, (size, r) in enumerate(zip(dimensions, reuse, strict=True))
    )
    return f"!Container {{name: {name}, spatial: [{spatial}]}}"


def mapped(case: tuple[int, str]) -> dict[str, Any]:
    """Map a network onto a chip in this process, by energy-delay product and without halos."""
    import fusiest
    from fusiest.pmapping import NoMapping

    number, network = case
    with tempfile.TemporaryDirectory() as folder:
        chip = Path(folder) / f"chip{number}.yaml"
        chip.write_text(draw(number))
        spec = fusiest.load(chip, network)
    begin = time.process_time()
    row: dict[str, Any] = {"number": number, "network": network}
    try:
        result = fusiest.map(spec, "edp", jobs=1, windows="none", time_limit=MOST_SECONDS, progress=False)
    except NoMapping as error:
        return {**row, "none": str(error), "cpu_seconds": time.process_time() - begin}
    return {
        **row, "edp": result.best("edp").edp, "optimal": result.optimal, "gap": result.gap, "proof": result.proof,
        "stopped": result.stopped, "cpu_seconds": time.process_time() - begin, "peak_bytes": result.stats.peak_rss_bytes,
    }  # fmt: skip


def main(arguments: list[str]) -> None:
    """Measure, print, and write what was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench chips", description="Map networks onto random chips.")
    parser.add_argument("--only", action="append", type=int, metavar="NUMBER", help="may be repeated")
    parser.add_argument("--network", action="append", choices=NETWORKS, help="may be repeated")
    parser.add_argument("--jobs", type=int, default=1, help="cases side by side")
    parser.add_argument("--draw", action="store_true", help="print the chips and stop")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="folder for the results")
    options = parser.parse_args(arguments)
    numbers = options.only or list(range(COUNT))
    if options.draw:
        print("---\n".join(draw(number) for number in numbers))
        return
    rows = list[dict[str, Any]]()
    for row in _all_mapped([(n, network) for n in numbers for network in options.network or NETWORKS], options.jobs):
        rows.append(row)
        words = row.get("none") or f"{row['edp']:.6g} Js, {row['proof']}"
        print(f"{row['number']:3} {row['network']:13} {row['cpu_seconds']:6.1f} s  {words}", flush=True)
    proven = sum(row.get("optimal", False) for row in rows)
    print(f"{proven} of {sum('edp' in row for row in rows)} proven")
    date = datetime.date.today().isoformat()
    results = {"date": date, "machine": machine(), "versions": versions(), "seed": SEED, "cases": rows}
    options.results.mkdir(parents=True, exist_ok=True)
    write_atomically(options.results / f"chips-{date}.json", json.dumps(results, indent=1) + "\n")


def _all_mapped(cases: list[tuple[int, str]], jobs: int) -> Iterator[dict[str, Any]]:
    if jobs == 1:
        yield from map(mapped, cases)
        return
    with make_pool(jobs) as pool:
        yield from pool.map(mapped, cases)
