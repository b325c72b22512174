"""From a design to specs: parameters are defines of the templates, fields of components, or the dataflow."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import pickle
from collections.abc import Mapping
from typing import Any, TypeAlias

from fusiest.base.errors import SpecError, did_you_mean, shown
from fusiest.base.frozen import FrozenDict
from fusiest.model import area_by_component
from fusiest.spec import (
    CONSTANTS,
    NETWORKS,
    Spec,
    combined,
    defines_of,
    find_file,
    load,
    names_in,
    undeclared,
    with_nodes_of,
    written_as_is,
)
from fusiest.sweeps.file.component_fields import StandsFor, field_of, stands_for, with_field
from fusiest.sweeps.file.designs import Design
from fusiest.sweeps.file.parameters import DesignGrid, Figure, FreeParameter, ParameterValue, TiedParameter
from fusiest.sweeps.file.sweepfile import SweepFile, SweptWorkload
from fusiest.sweeps.runs.attempt import PackedSpec

DATAFLOW, FREE = "dataflow", "free"
_KEPT = 64
"""Machines and workloads that are kept in memory, each: designs that follow each other share them."""
_KEPT_SPECS = 256
_KEPT_BYTES = 2**28
"""Bytes of machines that are kept, packed, from planning a run until it begins."""
_NUMBERS = (int, float)
_MachineKey: TypeAlias = tuple[tuple[tuple[str, Any], ...], str, tuple[tuple[str, Any], ...]]
"""Defines, dataflow and fields that a machine is made with."""


class Chips:
    """Makes the specs of a sweep's designs. What a parameter is follows from what knows its name."""

    def __init__(self, sweep: SweepFile) -> None:
        self.sweep = sweep
        grid = DesignGrid(sweep.parameters)
        self.first, self.last = grid[0], grid[len(grid) - 1]
        names = list(self.first)
        plain = {name: value for name, value in self.first.items() if "." not in name and name != DATAFLOW}
        self.takes = {sweep.arch: defines_of(sweep.arch, plain)}
        for workload in sweep.workloads:
            if workload.file not in self.takes:
                self.takes[workload.file] = defines_of(workload.file, {**plain, **workload.defines})
        self.fields = [name for name in names if "." in name]
        self.flows = next(
            (p.values for p in sweep.parameters if isinstance(p, FreeParameter) and p.name == DATAFLOW), ()
        )
        self._specs: dict[tuple[tuple[tuple[str, ParameterValue], ...], str], Spec] = {}
        self._latest: dict[tuple[str, str], Spec] = {}
        """The spec that was made last, by workload and dataflow: others share most of its nodes."""
        self._before: dict[str, Spec] = {}
        """The machine that was made last, by dataflow: nodes that are equal are one, and evaluated once."""
        self._packed: dict[_MachineKey, bytes] = {}
        self._packed_bytes = 0
        self._check(names)
        self._bare = functools.lru_cache(_KEPT)(self._load_bare)
        self._machine = functools.lru_cache(_KEPT)(self._load_machine)
        self._packed_work = functools.lru_cache(_KEPT)(lambda *key: pickle.dumps(self._workload(*key)))
        self._stands = functools.cache(self._find_stands)
        self._digest = functools.cache(_digest)
        self._names = functools.cache(self._find_names)
        self._workload = functools.lru_cache(_KEPT)(self._load_workload)
        self._check_first()
        self._check_twice()

    def spec(self, design: Design, workload: SweptWorkload) -> Spec:
        """A workload on a design. Of a small sweep, specs are made once: it plans all runs before it begins any."""
        key = tuple(design.values.items()), workload.label
        spec = self._specs.get(key) or self._make(design.values, workload)
        if len(self._specs) < _KEPT_SPECS:
            self._specs[key] = spec
        return spec

    def _make(self, values: Mapping[str, ParameterValue], workload: SweptWorkload) -> Spec:
        work = self._workload(workload, self._defines(workload.file, values))
        key = self._key(values, workload)
        latest = workload.label, key[1]
        before = self._latest.get(latest)
        if key in self._packed:
            machine = pickle.loads(self._packed[key])
            machine = with_nodes_of(machine, before) if before is not None else machine
        else:
            machine = self._machine(*key)
            if len(self._specs) >= _KEPT_SPECS and self._packed_bytes < _KEPT_BYTES:
                self._packed[key] = pickle.dumps(machine)
                self._packed_bytes += len(self._packed[key])
        spec = self._latest[latest] = combined(machine, work, like=before)
        return spec

    def _key(self, values: Mapping[str, ParameterValue], workload: SweptWorkload) -> _MachineKey:
        defines = self._defines(self.sweep.arch, {**values, **workload.defines})
        fields = tuple((name, values[name]) for name in self.fields)
        return defines, str(values.get(DATAFLOW, FREE)), fields

    def packed(self, design: Design, workload: SweptWorkload) -> PackedSpec:
        """The spec of a run that was planned, and so checked, as it is sent to whoever does it."""
        key = self._key(design.values, workload)
        machine = self._packed.get(key) or pickle.dumps(self._machine(*key))
        return PackedSpec(machine, self._packed_work(workload, self._defines(workload.file, design.values)))

    def area(self, design: Design) -> Figure:
        """Square metres, in all and by component; what depends on the workload is taken where it is most."""
        parts: dict[str, float] = {}
        for workload in self.sweep.workloads:
            for name, area in area_by_component(self.spec(design, workload)).items():
                parts[name] = max(parts.get(name, 0.0), area)
        return Figure(sum(parts.values()), parts)

    def request(self, design: Design, workload: SweptWorkload, options: str) -> str | None:
        """A hash of all that a run is made from, which is known without making its spec. None if files include others.

        `options`: a hash of those that change the answer.
        """
        texts = [options, self._digest(self.sweep.arch), self._digest(workload.file)]
        flow = str(design.values.get(DATAFLOW, FREE))
        if flow != FREE:
            texts.append(self._digest(flow))
        if None in texts:
            return None
        names, values = self._names(workload.file), design.values
        content = [texts, [(n, values[n]) for n in names], sorted(workload.defines.items())]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def _find_names(self, file: str) -> list[str]:
        """The parameters that a workload's specs are made from, in order."""
        defines = self.takes[self.sweep.arch] | self.takes[file]
        return sorted(n for n in self.first if n in defines or n in self.fields or n == DATAFLOW)

    def _defines(self, file: str, values: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
        return tuple((n, v) for n, v in values.items() if n in self.takes[file] and "." not in n and n != DATAFLOW)

    def _load_machine(
        self, defines: tuple[tuple[str, Any], ...], flow: str, fields: tuple[tuple[str, Any], ...]
    ) -> Spec:
        machine = bare = self._patched(defines, flow) or self._bare(defines, flow)
        for name, value in fields:
            machine = with_field(machine, name, value)
        if flow in self._before:  # a template that is read again, or a field that is set again, mostly says the same
            machine = with_nodes_of(machine, self._before[flow])
        self._before[flow] = machine
        return machine.came_from(bare.origin) if bare.origin is not None else machine

    def _patched(self, defines: tuple[tuple[str, Any], ...], flow: str) -> Spec | None:
        """A machine whose defines stand for fields, made from the first one; None if it takes its template."""
        chosen, first = dict(defines), dict(self._defines(self.sweep.arch, self.first))
        changed = {name: value for name, value in chosen.items() if value != first.get(name)}
        if not changed or chosen.keys() != first.keys() or not all(type(v) in _NUMBERS for v in changed.values()):
            return None
        stands = self._stands(flow)
        if any(name not in stands for name in changed):
            return None
        machine = bare = self._bare(tuple(first.items()), flow)
        assert bare.origin is not None
        try:
            for name, value in changed.items():
                for way in stands[name]:
                    machine = with_field(machine, way.field, way.value(value))
        except SpecError:
            return None  # reading it says where the mistake is
        values = FrozenDict({**bare.origin.values, **changed})
        return machine.came_from(dataclasses.replace(bare.origin, defines=FrozenDict(chosen), values=values))

    def _find_stands(self, flow: str) -> dict[str, list[StandsFor]]:
        """What each define that varies stands for, if none of them does anything but stand for fields of its own."""
        first, last = (dict(self._defines(self.sweep.arch, v)) for v in (self.first, self.last))
        varied = {name: value for name, value in last.items() if value != first[name]}
        files = [self.sweep.arch] if flow == FREE else [self.sweep.arch, flow]
        if not varied or any(self._digest(file) is None for file in files) or self.sweep.arch.endswith(".json"):
            return {}
        texts = [find_file(file)[1].text for file in files]
        plain = written_as_is(texts[0]) - frozenset[str]().union(*map(undeclared, texts[1:]))
        if not plain >= varied.keys() or not all(
            type(first[n]) in _NUMBERS and type(varied[n]) in _NUMBERS for n in varied
        ):
            return {}
        stands: dict[str, list[StandsFor]] = {}
        bare = self._bare(tuple(first.items()), flow)
        for name, value in varied.items():
            changed = self._bare(tuple({**first, name: value}.items()), flow)
            fields = stands_for(bare, changed, (first[name], value))
            if fields is None or {f.field for f in fields} & {f.field for ways in stands.values() for f in ways}:
                return {}
            stands[name] = fields
        return stands

    def _load_bare(self, defines: tuple[tuple[str, Any], ...], flow: str) -> Spec:
        files = (self.sweep.arch,) if flow == FREE else (self.sweep.arch, flow)
        machine = load(*files, defines=dict(defines))
        if machine.arch is None:
            raise SpecError(f"{self.sweep.arch}: no section 'arch:'")
        if flow != FREE and machine.dataflow is None:
            raise SpecError(f"{flow}: no section 'dataflow:'")
        if machine.dataflow is not None and machine.dataflow.depth_first is not None:
            raise SpecError(f"{flow}: a sweep has proven optima, and what is best depth-first is not proven")
        return machine

    def _load_workload(self, workload: SweptWorkload, defines: tuple[tuple[str, Any], ...]) -> Spec:
        own_defines = {name: value for name, value in workload.defines.items() if name in self.takes[workload.file]}
        work = load(workload.file, defines={**dict(defines), **own_defines})
        if work.workload is None:
            raise SpecError(f"{workload.file}: no section 'workload:'")
        return work

    def _check(self, names: list[str]) -> None:
        """Each parameter is known to something."""
        all_defines = frozenset[str]().union(*self.takes.values())
        used = {n for p in self.sweep.parameters if isinstance(p, TiedParameter) for n in p.uses}
        used |= {n for text in self.sweep.where for n in names_in(text) - set(CONSTANTS)}
        for workload in self.sweep.workloads:
            defines_taken = self.takes[self.sweep.arch] | self.takes[workload.file]
            for name in workload.defines:
                if name not in defines_taken:
                    near = did_you_mean(name, defines_taken)
                    raise SpecError(f"{workload.file} and {self.sweep.arch} take no define {shown(name)}{near}", name)
        defines = {n for w in self.sweep.workloads for n in w.defines}
        for flow in self.flows:
            if flow != FREE:
                try:
                    find_file(str(flow))
                except SpecError as error:
                    raise SpecError(f"dataflow: {error.message}", next(n for n in names if n == DATAFLOW)) from None
        for name in names:
            if name in defines and name in all_defines:
                raise SpecError(f"parameter {name} is also a define of a workload; give one of them", name)
            if "." in name or name == DATAFLOW or name in all_defines or name in used:
                continue
            files = ", ".join(self.takes)
            raise SpecError(
                f"parameter {name}: {files} take no such define, and no component is named so"
                f"{did_you_mean(name, [*all_defines, DATAFLOW])}",
                name,
            )

    def _check_first(self) -> None:
        """Specs can be made of the first design, with every dataflow. What is wrong with a field is said of its parameter."""
        for flow in self.flows:
            self._bare(self._defines(self.sweep.arch, self.first), str(flow))
        for workload in self.sweep.workloads:
            try:
                self.spec(Design(0, self.first), workload)
            except SpecError:
                self._find_mistake(workload)
                raise

    def _find_mistake(self, workload: SweptWorkload) -> None:
        """Raise what is wrong with the first design, said of the parameter since whose field it is."""
        work = self._workload(workload, self._defines(workload.file, self.first))
        defines, flow, fields = self._key(self.first, workload)
        for count in range(len(fields) + 1):
            machine = self._machine(defines, flow, fields[:count])
            try:
                combined(machine, work)
            except SpecError as error:
                if not count:
                    raise
                name = fields[count - 1][0]
                raise SpecError(f"parameter {name}: {error}", name) from None

    def _check_twice(self) -> None:
        """No field is set by two parameters: a define that a field's own parameter hides has no effect."""
        for p in self.sweep.parameters:
            values = self.first[p.name], self.last[p.name]
            if p.name not in self.takes[self.sweep.arch] or values[0] == values[1]:
                continue
            machines = [self._plain({**self.first, p.name: value}) for value in values]
            for name in self.fields:
                if p.name not in _sources(name, self.sweep) and field_of(machines[0], name) != field_of(
                    machines[1], name
                ):
                    raise SpecError(f"parameters {p.name} and {name} both set {name}; give one of them", name)

    def _plain(self, values: Mapping[str, ParameterValue]) -> Spec:
        """The machine without its parameters that are fields."""
        return self._machine(self._defines(self.sweep.arch, values), FREE, ())


def _sources(name: str, sweep: SweepFile) -> frozenset[str]:
    """The parameters that a parameter follows from."""
    tied = {p.name: p for p in sweep.parameters if isinstance(p, TiedParameter)}
    sources: set[str] = set()
    todo = [name]
    while todo:
        for used in tied[current].uses if (current := todo.pop()) in tied else ():
            if used not in sources:
                sources.add(used)
                todo.append(used)
    return frozenset(sources)


def _digest(file: str) -> str | None:
    if file.endswith((*NETWORKS, ".json")):
        with open(file, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    text = find_file(file)[1].text
    return None if "include" in text else hashlib.sha256(text.encode()).hexdigest()
