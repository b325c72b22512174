"""Some random strategy draws every field of a spec that changes a cost: all fields of the reference but those listed here."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from fusiest.spec import architecture as arch
from tests.drawing.bits import draw_bits
from tests.drawing.dice import Dice, RandomDice
from tests.drawing.targets import SMALL_SIZES
from tests.drawing.windows import draw_windows
from tests.mapper_strategies import draw_mapper_case
from tests.proving import PROVE
from tests.strategies import draw_case
from tests.test_docs import _generator
from tests.workload_strategies import draw_workload_case

COST_NOTHING = {
    "name": "names change nothing",
    "meaning": "words for people",
    "unit": "a word for people",
    "source": "words for people",
    "error": "words for people",
    "area": "no part of energy or latency",
    "area_scale": "no part of energy or latency",
    "backing_storage_size_scale": "always 1",
    "expected_count": "checked, no more",
    "formula": "what is computed: counted alike, whatever it is",
    "low": "checked, no more",
    "high": "checked, no more",
    "mapping": "what `evaluate` is given: a LoopTree, drawn beside the spec",
    "depth_first": "a mapper of its own: tests/mapper/test_depth_first.py",
    "stacks": "part of depth_first",
    "rows": "part of depth_first",
    "columns": "part of depth_first",
    "ComputeUnit.bits_per_value": "a compute moves no values",
    "ComputeUnit.bits_per_action": "a compute moves no values",
    "ComputeUnit.values_per_action": "a compute moves no values",
    "TollStation.enabled": "without a meaning for what passes",
    "Rename.source": "required",
}
"""Fields, of all classes or of one, and why no strategy draws them."""
CASES: dict[str, Callable[[Dice], object]] = {
    "one Einsum": lambda dice: draw_mapper_case(dice, SMALL_SIZES),
    "workload": draw_workload_case,
    "bits": lambda dice: draw_bits(dice, draw_workload_case(dice).spec),
    "mapping": draw_case,
    "windows": draw_windows,
}


def given_fields(value: object) -> Iterator[str]:
    """Fields that are not as they are by default, as `Memory.size`, in a spec or a part of it."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from given_fields(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from given_fields(item)
    elif dataclasses.is_dataclass(value):
        for f in dataclasses.fields(value):
            item = getattr(value, f.name)
            default = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
            if item != default:
                yield f"{type(value).__name__}.{f.name}"
            yield from given_fields(item)


def fields_that_cost() -> set[str]:
    """All fields of the reference but those that change no cost: of components, for each of the three kinds."""
    generator = _generator()
    kinds = [kind for titles in generator.CLASSES.values() for kind in titles.values()]
    components: list[type[Any]] = [arch.Memory, arch.TollStation, arch.ComputeUnit]
    fields = set()
    for kind in kinds:
        carriers = components if kind is arch.Component else [*components, kind] if kind is arch.Container else [kind]
        names = {f"{carrier.__name__}.{name}" for carrier in carriers for name in generator.own_fields(kind)}
        fields |= {name for name in names if not {name, name.split(".")[1]} & COST_NOTHING.keys()}
    return fields


def drawn(count: int) -> Iterator[set[str]]:
    """The fields of so many cases of each strategy."""
    for draw in CASES.values():
        for seed in range(count):
            yield set(given_fields(draw(RandomDice(seed))))


def test_every_field_that_changes_a_cost_is_drawn() -> None:
    seen = set().union(*drawn(300))
    assert sorted(fields_that_cost() - seen) == []


@pytest.mark.skipif(not PROVE, reason="many cases: FUSIEST_PROVE=1")
def test_pairs_of_fields_are_drawn() -> None:
    """Every field together with most others: rare ones meet in one of some hundred cases."""
    fields, pairs = fields_that_cost(), set[tuple[str, str]]()
    for given in drawn(3_000):
        pairs.update(itertools.combinations(sorted(given & fields), 2))
    met = collections.Counter(field for pair in pairs for field in pair)
    few = {field: met[field] for field in fields if met[field] < len(fields) / 4}
    assert few == {}
