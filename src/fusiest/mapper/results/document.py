"""Results and evaluations as JSON documents, which docs/schemas describes. Fields are only ever added."""

from __future__ import annotations

import dataclasses
import hashlib
import json

from fusiest.base.objective import products_of
from fusiest.looptree import LoopTree
from fusiest.mapper.results.provenance import Provenance
from fusiest.mapper.results.result import Mapping, Result, Stats
from fusiest.model import Evaluation, area_by_component, efficiency, fused_sets, leak_power_by_component
from fusiest.spec import RESULT, Spec, dump, dump_mapping


def json_text(document: dict[str, object]) -> str:
    """The text of a file. No number in it is infinite."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def result_json(result: Result) -> dict[str, object]:
    """A result with its spec: the file stands alone."""
    area = result.area
    return {
        "format": RESULT,
        **_provenance(result.provenance),
        "objective": list(result.objective),
        "options": _options(result),
        "optimal": result.optimal,
        "gap": result.gap,
        "beyond": 0.0,
        "stopped": result.stopped,
        "domain": result.domain,
        "advice": result.advice,
        **_area(result.spec),
        "mappings": [_mapping(result.spec, m, area) for m in result.mappings],
        **_spec(result.spec),
        "stats": _stats(result.stats),
    }


def evaluation_json(spec: Spec, tree: LoopTree, evaluation: Evaluation, provenance: Provenance) -> dict[str, object]:
    """An evaluation with its spec and mapping: the file stands alone."""
    return {
        **evaluation.to_json(),
        **_provenance(provenance),
        **_area(spec),
        **efficiency(spec, evaluation, sum(area_by_component(spec).values())),
        "mapping": dump_mapping(tree),
        **_spec(spec),
    }


def _provenance(provenance: Provenance) -> dict[str, object]:
    return {
        "version": provenance.version,
        "created": provenance.created,
        "command": list(provenance.command),
        "files": list(provenance.files),
        "defines": {name: _plain(value) for name, value in provenance.defines.items()},
        "mapper": provenance.mapper,
    }


def _plain(value: object) -> object:
    """A define as a JSON value: from Python it may be anything that a template can use."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _options(result: Result) -> dict[str, object]:
    fields = {f.name: getattr(result.options, f.name) for f in dataclasses.fields(result.options)}
    return {name: value for name, value in fields.items() if name != "objective"}


def _area(spec: Spec) -> dict[str, object]:
    """Area and leakage power of all instances; the area is null if no component has one."""
    areas, leaks = area_by_component(spec), leak_power_by_component(spec)
    return {
        "area": sum(areas.values()) or None,
        "area_by_component": areas,
        "leak_power": sum(leaks.values()),
        "leak_power_by_component": leaks,
    }


def spec_and_hash(spec: Spec) -> tuple[str, str]:
    """The mapped spec as text, and the SHA-256 of the text."""
    text = dump(dataclasses.replace(spec, mapping=None))
    return text, hashlib.sha256(text.encode()).hexdigest()


def _spec(spec: Spec) -> dict[str, object]:
    text, digest = spec_and_hash(spec)
    return {"spec": text, "spec_sha256": digest}


def _mapping(spec: Spec, mapping: Mapping, area: float | None) -> dict[str, object]:
    evaluation = mapping.evaluation
    document = evaluation.to_json()
    return {
        "energy": evaluation.energy,
        "latency": evaluation.latency,
        **products_of(evaluation),
        "dynamic_energy": evaluation.dynamic_energy,
        "leak_energy": evaluation.leak_energy,
        **efficiency(spec, evaluation, area),
        "einsum_order": list(mapping.einsum_order),
        "mapping": dump_mapping(mapping.looptree),
        "peak_occupancy_bits": dict(evaluation.peak_occupancy_bits),
        "energy_by_component": evaluation.energy_by_component(),
        "fused_sets": [list(fused.einsums) for fused in fused_sets(spec, mapping.looptree)],
        "einsums": document["einsums"],
        "warnings": list(evaluation.warnings),
    }


def _stats(stats: Stats) -> dict[str, object]:
    document = dataclasses.asdict(stats)
    if stats.evaluations is None:
        del document["evaluations"], document["history"]
    return document
