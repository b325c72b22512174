"""The script that runs a network's parts: it lays out inputs, calls the compiled functions, and ONNX's reference in between."""

DRIVER = '''\
"""Runs the network of this folder: python run.py [INPUTS.npz] [-o RESULTS.npz]; `make` builds its functions first.

INPUTS.npz has an array for each input of the network, by name. Without it, inputs are small whole numbers.
Needs NumPy; where nodes of the network are no Einsums, also onnx.
"""

import argparse
import base64
import ctypes
import json
import math
import pathlib
import time

import numpy as np

HERE = pathlib.Path(__file__).parent


def picked(what, arrays, stored):
    """An array made of another one: reshaped, or element by element."""
    source = np.asarray(arrays[what["source"]], float).reshape(-1)
    if "numbers" not in what:
        return source[: math.prod(what["shape"])].reshape(what["shape"]).astype(what["kind"])
    numbers = stored[what["numbers"]]
    return np.where(numbers < 0, what["padded"], source[np.maximum(numbers, 0)]).astype(what["kind"])


def run_node(cut, opset, arrays, stored):
    """A node that is no Einsum, by ONNX's reference."""
    given = [None if w is None else stored[w] if isinstance(w, str) else picked(w, arrays, stored) for w in cut["inputs"]]
    if not cut["node"]:
        return {tensor: given[0] for tensor in cut["outputs"].values()}
    import onnx
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    node = onnx.NodeProto.FromString(base64.b64decode(cut["node"]))
    names = [f"i{i}" if array is not None else "" for i, array in enumerate(given)]
    outputs = [f"o{i}" if name else "" for i, name in enumerate(node.output)]
    del node.input[:], node.output[:]
    node.input.extend(names)
    node.output.extend(outputs)
    arrays = {name: array for name, array in zip(names, given) if array is not None}
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in arrays.items()}
    inputs = [helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in arrays.items()]
    graph = helper.make_graph([node], "cut", inputs, [onnx.ValueInfoProto(name=name) for name in outputs if name])
    sets = [helper.make_opsetid(domain, version) for domain, version in opset.items()]
    results = iter(ReferenceEvaluator(helper.make_model(graph, opset_imports=sets)).run(None, arrays))
    found = [next(results) if name else None for name in outputs]
    return {tensor: np.asarray(found[int(place)], float) for place, tensor in cut["outputs"].items()}


def run(inputs):
    """The outputs of the network for arrays of its inputs."""
    plan, stored = json.loads((HERE / "network.json").read_text()), np.load(HERE / "network.npz")
    library = ctypes.CDLL(str(HERE / "network.so"))
    arrays = {name: np.asarray(array, float) for name, array in inputs.items()}
    arrays.update({name: stored[place].astype(float) for name, place in plan["stored"].items()})
    arrays.update({name: picked(what, arrays, stored) for name, what in plan["inputs"].items()})
    seconds = 0.0
    for step in plan["steps"]:
        if "cut" in step:
            arrays.update(run_node(step["cut"], plan["opset"], arrays, stored))
            continue
        pointers = (ctypes.c_void_p * len(plan["arguments"]))()
        for i, (name, shape) in enumerate(plan["arguments"]):
            if name not in arrays and name in plan["made"]:
                arrays[name] = np.zeros(shape)
            if name in arrays:
                arrays[name] = np.ascontiguousarray(arrays[name].reshape(shape), float)
                pointers[i] = arrays[name].ctypes.data
        begin = time.process_time()
        library.run(step["part"], pointers)
        seconds += time.process_time() - begin
    return {name: picked(what, arrays, stored) for name, what in plan["outputs"].items()}, seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("inputs", nargs="?")
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    shapes = json.loads((HERE / "network.json").read_text())["shapes"]
    random = np.random.default_rng(0)
    given = {name: random.integers(0, 4, shape).astype(float) for name, shape in shapes.items()}
    results, seconds = run({**given, **(np.load(options.inputs) if options.inputs else {})})
    for name, array in results.items():
        print(f"{name}: {' x '.join(map(str, array.shape))}, sum {array.sum():.17g}")
    print(f"{seconds:.3f} s in the compiled functions")
    if options.output:
        np.savez(options.output, **results)
'''
MAKEFILE = """\
CC ?= cc
CFLAGS ?= -O2 -Wall
PYTHON ?= python3
INPUTS ?=

network.so: network.c
\t$(CC) -std=c99 $(CFLAGS) -shared -fPIC -o $@ network.c -lm

run: network.so
\t$(PYTHON) run.py $(INPUTS)

clean:
\trm -f network.so

.PHONY: run clean
"""
