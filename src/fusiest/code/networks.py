"""Networks with their weights: what their Einsums compute, in NumPy and as programs, and the nodes in between that are no Einsums."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fusiest.base.errors import SpecError
from fusiest.code.bodies import Body
from fusiest.code.in_numpy import NumpyArray, compute
from fusiest.code.lowering.statements import Program
from fusiest.code.network_parts import ProgramPart, in_order, parts_of
from fusiest.code.printing.c.around import dispatch
from fusiest.code.printing.c.function import CText, helpers
from fusiest.code.printing.network_script import DRIVER, MAKEFILE
from fusiest.code.programs import program_of
from fusiest.code.shapes import shapes
from fusiest.looptree import LoopTree
from fusiest.networks import CutNode, NetFormula, NetworkMeaning, Picked
from fusiest.spec import Spec


def bodies_of(meaning: NetworkMeaning, rows: bool = False) -> dict[str, Body]:
    """What each Einsum computes, in primitive functions."""
    found = {}
    for name, formula in meaning.formulas.items():
        try:
            found[name] = _body(formula).meaning(rows)
        except SpecError as error:
            raise SpecError(f"Einsum {name}: {error.message}") from None
    return found


def _body(formula: NetFormula) -> Body:
    return Body(
        formula.map,
        formula.reduction,
        formula.after,
        None,
        formula.parameters,
        formula.padding,
        formula.rows,
        formula.wrong,
    )


def run_network(spec: Spec, meaning: NetworkMeaning, inputs: Mapping[str, Any]) -> dict[str, NumpyArray]:
    """The outputs of a network in NumPy, from its Einsums and its weights, and from ONNX's reference where it was cut."""
    info, bodies, boxes = spec.info, bodies_of(meaning, rows=True), shapes(spec.info, meaning.shapes, padded=True)
    arrays: dict[str, NumpyArray] = {**meaning.weights, **meaning.parameters}
    arrays |= {tensor: picked.of(_given(inputs, picked.source)) for tensor, picked in meaning.inputs.items()}
    arrays |= {name: np.asarray(array, float) for name, array in inputs.items() if name not in arrays}
    steps: list[str | CutNode] = [*info.einsums, *meaning.cuts]
    done: set[str] = set()
    while steps:
        ready = next((s for s in steps if _wanted(spec, s) <= arrays.keys() and not _open(spec, s, done)), None)
        if ready is None:
            raise SpecError("parts of the network wait for each other")
        steps.remove(ready)
        if isinstance(ready, CutNode):
            found = run_cut(ready, arrays, meaning.opset)
            arrays |= {t: array.reshape(meaning.shapes.get(t, array.shape)) for t, array in found.items()}
        else:
            compute(info.einsums[ready], bodies[ready], boxes, arrays)
            done.add(ready)
    return {name: picked.of(arrays[picked.source]) for name, picked in meaning.outputs.items()}


def _given(inputs: Mapping[str, Any], name: str) -> Any:
    if name not in inputs:
        raise SpecError(f"the input {name} of the network is missing")
    return inputs[name]


def _wanted(spec: Spec, step: str | CutNode) -> set[str]:
    """The tensors that an Einsum or a cut node takes."""
    if isinstance(step, CutNode):
        return {picked.source for picked in step.inputs if isinstance(picked, Picked)}
    return {t for t, access in spec.info.einsums[step].accesses.items() if not access.output}


def _open(spec: Spec, step: str | CutNode, done: set[str]) -> bool:
    """Whether a part of what it takes is still to be made."""
    return any(not done.issuperset(spec.info.producers.get(tensor, ())) for tensor in _wanted(spec, step))


def run_cut(cut: CutNode, arrays: Mapping[str, NumpyArray], opset: Mapping[str, int]) -> dict[str, NumpyArray]:
    """What a node gives that is no Einsum, by ONNX's reference."""
    given = [item.of(arrays[item.source]) if isinstance(item, Picked) else item for item in cut.inputs]
    if not cut.node:
        (array,) = given
        return {tensor: np.asarray(array) for tensor in cut.outputs.values()}
    results = run_node(cut.node, given, opset)
    return {tensor: np.asarray(results[place], float) for place, tensor in cut.outputs.items()}


def run_node(node: bytes, given: Sequence[NumpyArray | None], opset: Mapping[str, int]) -> list[Any]:
    """One node on arrays."""
    import onnx
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    proto = onnx.NodeProto.FromString(node)
    names = [f"i{i}" if array is not None else "" for i, array in enumerate(given)]
    arrays = {name: array for name, array in zip(names, given, strict=True) if array is not None}
    outputs = [f"o{i}" if name else "" for i, name in enumerate(proto.output)]
    del proto.input[:], proto.output[:]
    proto.input.extend(names)
    proto.output.extend(outputs)
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in arrays.items()}
    inputs = [helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in arrays.items()]
    graph = helper.make_graph([proto], "cut", inputs, [onnx.ValueInfoProto(name=name) for name in outputs if name])
    sets = [helper.make_opsetid(domain, version) for domain, version in opset.items()]
    found: Any = ReferenceEvaluator(helper.make_model(graph, opset_imports=sets)).run(None, arrays)
    values = iter(found)
    return [next(values) if name else None for name in outputs]


# --- as a program ---------------------------------------------------------------------------------------------------


def network_files(spec: Spec, meaning: NetworkMeaning, tree: LoopTree | None = None) -> dict[str, str | bytes]:
    """Files by name: the functions of a network's mapping, its weights, and a script that runs it all."""
    program = program_of(spec, tree, bodies_of(meaning), _shapes(meaning), padded=True)
    parts = parts_of(program, spec.info)
    writer = _PlanWriter(spec, meaning, program)
    texts = [CText(part.program).part(f"part_{i}") for i, part in enumerate(parts)]
    body = "\n".join([*CText(program).globals(), *texts, dispatch(program, len(parts))])
    arrays = io.BytesIO()
    plan = writer.plan(parts)
    stored: dict[str, Any] = dict(writer.stored)
    np.savez_compressed(arrays, **stored)
    return {
        "network.c": helpers(body) + "\n" + body,
        "network.json": json.dumps(plan, indent=1) + "\n",
        "network.npz": arrays.getvalue(),
        "run.py": DRIVER,
        "Makefile": MAKEFILE,
    }


def _shapes(meaning: NetworkMeaning) -> dict[str, tuple[int, ...]]:
    """Of inputs of the workload, and of parameters."""
    return {**meaning.shapes, **{name: array.shape for name, array in meaning.parameters.items()}}


class _PlanWriter:
    """What the script needs to know: plain data, and arrays by name."""

    def __init__(self, spec: Spec, meaning: NetworkMeaning, program: Program) -> None:
        self.spec, self.meaning, self.program = spec, meaning, program
        self.stored: dict[str, NumpyArray] = {}

    def plan(self, parts: Sequence[ProgramPart]) -> dict[str, object]:
        meaning, program = self.meaning, self.program
        constants = {**meaning.weights, **meaning.parameters}
        steps = [
            {"part": parts.index(step)} if isinstance(step, ProgramPart) else {"cut": self._cut(step)}
            for step in in_order(parts, self.spec.info, meaning)
        ]
        arguments = (*program.inputs, *program.parameters, *program.outputs)
        return {
            "steps": steps,
            "arguments": [[array.tensor, list(array.shape)] for array in arguments],
            "made": [array.tensor for array in program.outputs],
            "stored": {name: self._store(_small(array)) for name, array in constants.items()},
            "inputs": {tensor: self._picked(picked) for tensor, picked in meaning.inputs.items()},
            "outputs": {name: self._picked(picked) for name, picked in meaning.outputs.items()},
            "shapes": {name: list(shape) for name, shape in meaning.given.items()},
            "opset": dict(meaning.opset),
        }

    def _store(self, array: NumpyArray) -> str:
        name = f"a{len(self.stored)}"
        self.stored[name] = array
        return name

    def _picked(self, picked: Picked) -> dict[str, object]:
        if np.array_equal(picked.numbers.reshape(-1), np.arange(picked.numbers.size)):
            return {"source": picked.source, "shape": list(picked.numbers.shape), "kind": picked.kind}
        numbers = self._store(picked.numbers)
        return {"source": picked.source, "numbers": numbers, "padded": picked.padded, "kind": picked.kind}

    def _cut(self, cut: CutNode) -> dict[str, object]:
        inputs = [
            self._picked(i) if isinstance(i, Picked) else None if i is None else self._store(i) for i in cut.inputs
        ]
        node = base64.b64encode(cut.node).decode()
        return {
            "node": node,
            "inputs": inputs,
            "outputs": {str(place): tensor for place, tensor in cut.outputs.items()},
        }


def _small(array: NumpyArray) -> NumpyArray:
    """The same numbers in half the space, if they are."""
    small = array.astype(np.float32)
    return small if np.array_equal(small, array) else array
