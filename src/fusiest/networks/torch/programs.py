"""Programs of torch.export as lists of calls, from memory or from `.pt2` files.

A file is a zip archive; only its description of the graph is read, which is JSON. Nothing in it is unpickled or run, and torch is not
needed for it. Weights are never read.
"""

from __future__ import annotations

import ast
import math
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fusiest.base.errors import SpecError, did_you_mean, shown
from fusiest.base.jsontext import read_json
from fusiest.networks.graph.graph import equal_share
from fusiest.networks.import_options import MAX_SIZE
from fusiest.spec import check_regular

if TYPE_CHECKING:
    import torch

MAX_CALLS = 50_000
MAX_JSON = 2**27
MAX_EXPRESSION = 1000
_FLOATING = frozenset([6, 7, 8, 13, 29, 30, 31, 32])
"""Codes of types in files: half, float, double, bfloat16, and those of 8 bits."""


@dataclass(frozen=True, slots=True)
class TensorName:
    """A tensor as an argument of a call."""

    name: str


@dataclass(frozen=True, slots=True)
class TorchTensor:
    """What is known of a tensor."""

    shape: tuple[int, ...]
    floating: bool


@dataclass(frozen=True, slots=True)
class TorchCall:
    """One call: `aten.conv2d`, its arguments by name, and the names of what it gives."""

    name: str
    target: str
    arguments: Mapping[str, Any]
    outputs: tuple[str, ...]
    path: str = ""


@dataclass(slots=True)
class TorchProgram:
    """A network as torch exports it."""

    name: str
    calls: list[TorchCall] = field(default_factory=list)
    tensors: dict[str, TorchTensor] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    """Weights: names in the program, and in the module."""
    constants: dict[str, str] = field(default_factory=dict)
    """Buffers and other tensors that do not depend on the input."""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


# --- files ----------------------------------------------------------------------------------------------------------


def load_program(path: str, dims: Mapping[str, int]) -> TorchProgram:
    """A `.pt2` file."""
    return parse_program(_described(path), path, dims)


def parse_program(content: bytes, path: str, dims: Mapping[str, int]) -> TorchProgram:
    """The description of a graph, as files have it; one line where it is none."""
    try:
        return _FileReader(path, read_json(content), dims).program
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError) as error:
        raise SpecError(f"{path}: no program of torch.export: {shown(repr(error))}") from None


def open_symbols(path: str) -> frozenset[str]:
    """Names of dimensions whose size a file leaves open."""
    return frozenset(re.findall(r"Symbol\('(\w{1,50})'", _described(path).decode("utf-8", "replace")))


def _described(path: str) -> bytes:
    """The description of the graph in a file."""
    try:
        check_regular(path, os.stat(path))
        with zipfile.ZipFile(path) as archive:
            names = [
                name for name in archive.namelist() if name.split("/")[-2:-1] == ["models"] and name.endswith(".json")
            ]
            if not names:
                raise SpecError(f"{path}: no program of torch.export: it has no model")
            if archive.getinfo(names[0]).file_size > MAX_JSON:
                raise SpecError(f"{path}: the description of the graph is larger than {MAX_JSON // 2**20} MiB")
            return archive.read(names[0])
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, zlib.error, ValueError, RuntimeError, NotImplementedError, EOFError) as error:
        raise SpecError(f"{path}: no program of torch.export: {shown(error)}") from None


class _FileReader:
    """The JSON of a program."""

    def __init__(self, path: str, model: Any, dims: Mapping[str, int]) -> None:
        self.path, self.dims = path, dims
        self.open: set[str] = set()
        module = model["graph_module"]
        self.program = TorchProgram(path)
        self.shares: set[int] = set()
        self.shares = set(self._shares(module["graph"]))
        self._signature(module["signature"])
        for call in self._calls(module["graph"]):
            self.program.calls.append(call)
            if len(self.program.calls) > MAX_CALLS:
                raise SpecError(f"{path}: more than {MAX_CALLS:,} calls")
        for name in sorted(dims.keys() - self.open):
            raise SpecError(
                f"{path}: --dim {shown(name)}: no tensor has an open dimension of that name{did_you_mean(name, self.open)}"
            )

    def _signature(self, signature: Any) -> None:
        program = self.program
        for spec in signature["input_specs"]:
            ((kind, entry),) = spec.items()
            if kind == "user_input":
                if "as_tensor" in entry["arg"]:
                    program.inputs.append(entry["arg"]["as_tensor"]["name"])
            elif kind == "parameter":
                program.parameters[entry["arg"]["name"]] = str(entry["parameter_name"])
            elif kind in ("buffer", "tensor_constant"):
                program.constants[entry["arg"]["name"]] = str(
                    entry.get("buffer_name") or entry.get("tensor_constant_name")
                )
        for spec in signature["output_specs"]:
            ((kind, entry),) = spec.items()
            if kind == "user_output" and "as_tensor" in entry["arg"]:
                program.outputs.append(entry["arg"]["as_tensor"]["name"])

    def _calls(self, graph: Any, renamed: Mapping[str, str] | None = None, depth: int = 0) -> Iterator[TorchCall]:
        names = renamed or {}
        if depth > 20:
            raise SpecError(f"{self.path}: graphs are nested more than 20 deep")
        for name, meta in graph["tensor_values"].items():
            shape = tuple(self._size(size) for size in meta["sizes"])
            self.program.tensors[names.get(name, name)] = TorchTensor(shape, meta["dtype"] in _FLOATING)
        for node in graph["nodes"]:
            target = str(node["target"]).removeprefix("torch.ops.")
            outputs = [names.get(n, n) for output in node["outputs"] for n in _tensor_names(output)]
            inner = [entry["arg"]["as_graph"] for entry in node["inputs"] if "as_graph" in entry["arg"]]
            if target.startswith("higher_order.wrap") and len(inner) == 1:
                yield from self._inlined(node, inner[0]["graph"], outputs, names, depth)
                continue
            arguments = {
                str(entry["name"]) or str(i): _value(entry["arg"], names) for i, entry in enumerate(node["inputs"])
            }
            path = _module(str(node.get("metadata", {}).get("nn_module_stack", "")))
            yield TorchCall(
                str(node.get("name") or (outputs or [target])[0]),
                target.rpartition(".")[0] or target,
                arguments,
                tuple(outputs),
                path,
            )

    def _inlined(
        self, node: Any, graph: Any, outputs: list[str], names: Mapping[str, str], depth: int
    ) -> Iterator[TorchCall]:
        """The calls of a graph in a graph, which only sets a mode."""
        prefix = f"{(outputs or ['inner'])[0]}."
        argument_names = [names.get(n, n) for entry in node["inputs"] for n in _tensor_names(entry["arg"])]
        inside = {name: prefix + name for name in graph["tensor_values"]}
        inside.update(zip([n for entry in graph["inputs"] for n in _tensor_names(entry)], argument_names, strict=False))
        inside.update(zip([n for entry in graph["outputs"] for n in _tensor_names(entry)], outputs, strict=False))
        yield from self._calls(graph, inside, depth + 1)

    def _size(self, size: Any) -> int:
        if "as_int" in size:
            value = size["as_int"]
        else:
            value = sized(str(size["as_expr"]["expr_str"]), self.dims, self.shares, self.open, self.path)
        if not isinstance(value, int) or not 0 <= value <= MAX_SIZE:
            raise SpecError(f"{self.path}: a dimension of {shown(value)}")
        return value

    def _shares(self, graph: Any) -> Iterator[int]:
        """Tokens of an expert, for each choice of experts."""
        for node in graph["nodes"]:
            if str(node["target"]).endswith("aten.topk.default"):
                arguments = {entry["name"]: entry["arg"] for entry in node["inputs"]}
                sizes = graph["tensor_values"][arguments["self"]["as_tensor"]["name"]]["sizes"]
                yield equal_share([self._size(size) for size in sizes], int(arguments["k"]["as_int"]))


def sized(text: str, dims: Mapping[str, int], shares: set[int], symbols: set[str], path: str) -> int:
    """A size; one that depends on data, `u0`, `u1`, …, is an equal share where experts share tokens."""
    by_data = re.findall(r"\bu\d+\b", text[:MAX_EXPRESSION]) if len(shares) == 1 else []
    return evaluated(text, {**dict.fromkeys(by_data, *shares), **dims}, symbols, path)


def evaluated(text: str, dims: Mapping[str, int], symbols: set[str], path: str) -> int:
    """A size that is an expression of open dimensions, as torch writes it for people or for SymPy.

    >>> [evaluated(text, {"s0": 4}, set(), "x.pt2") for text in ("2*s0 + 1", "Mul(Integer(2), Symbol('s0', integer=True))")]
    [9, 8]
    """
    try:
        if len(text) > MAX_EXPRESSION:
            raise SyntaxError
        return _arithmetic(ast.parse(text, mode="eval").body, dims, symbols, path)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError, OverflowError):
        raise SpecError(f"{path}: a dimension of '{shown(text)}', which cannot be evaluated") from None


def _arithmetic(node: ast.expr, dims: Mapping[str, int], symbols: set[str], path: str) -> int:
    def inner(expression: ast.expr) -> int:
        size = _arithmetic(expression, dims, symbols, path)
        if abs(size) > MAX_SIZE:
            raise OverflowError
        return size

    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name) | ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str() as name)]):
            symbols.add(name)
            if name not in dims:
                raise SpecError(f"{path}: dimension '{shown(name)}' is open; give --dim {shown(name)}=SIZE")
            return dims[name]
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            return _OPERATORS[type(operator)]([inner(left), inner(right)])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -inner(operand)
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _FUNCTIONS and arguments:
            return _FUNCTIONS[name]([inner(argument) for argument in arguments])
    raise SyntaxError


_FUNCTIONS: dict[str, Callable[[list[int]], int]] = {
    "Add": sum, "Mul": math.prod, "Max": max, "Min": min, "FloorDiv": lambda x: x[0] // x[1], "CleanDiv": lambda x: x[0] // x[1],
    "Integer": lambda x: x[0], "Mod": lambda x: x[0] % x[1], "PythonMod": lambda x: x[0] % x[1],
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], Callable[[list[int]], int]] = {
    ast.Add: sum, ast.Sub: lambda x: x[0] - x[1], ast.Mult: math.prod, ast.FloorDiv: lambda x: x[0] // x[1], ast.Mod: lambda x: x[0] % x[1],
}  # fmt: skip


def _tensor_names(argument: Any) -> list[str]:
    if "as_tensor" in argument:
        return [str(argument["as_tensor"]["name"])]
    if "as_tensors" in argument:
        return [str(entry["name"]) for entry in argument["as_tensors"]]
    if "as_optional_tensors" in argument:
        return [
            str(entry["as_tensor"]["name"]) if "as_tensor" in entry else "" for entry in argument["as_optional_tensors"]
        ]
    return []


def _value(argument: Any, names: Mapping[str, str]) -> Any:
    """An argument of a call as a plain value."""
    ((kind, value),) = argument.items()
    if kind == "as_tensor":
        return TensorName(names.get(value["name"], value["name"]))
    if kind in ("as_tensors", "as_optional_tensors"):
        return [TensorName(names.get(n, n)) if n else None for n in _tensor_names(argument)]
    if kind in ("as_int", "as_float", "as_bool", "as_string", "as_ints", "as_floats", "as_bools", "as_strings"):
        return value
    if kind == "as_sym_int":
        return value.get("as_int")
    if kind == "as_sym_ints":
        return [entry.get("as_int") for entry in value]
    return None


def _module(stack: str) -> str:
    """The innermost module's path, from `key,path,type;key,path,type`."""
    last = stack.rsplit(";", 1)[-1].split(",")
    return last[1] if len(last) > 2 else ""


# --- programs in memory ---------------------------------------------------------------------------------------------


def program_of(exported: torch.export.ExportedProgram, name: str, dims: Mapping[str, int]) -> TorchProgram:
    """A program in memory, under the same names as in a file."""
    program = TorchProgram(name)
    signature = exported.graph_signature
    program.parameters = dict(signature.inputs_to_parameters)
    program.constants = dict(signature.inputs_to_buffers) | dict(
        getattr(signature, "inputs_to_lifted_tensor_constants", {})
    )
    users = set(signature.user_inputs)
    walker = _GraphWalker(program, dims)
    walker.walk(exported.graph_module, {})
    program.inputs = [n for n in walker.placeholders if n in users and n in program.tensors]
    program.outputs = [str(n) for n in signature.user_outputs if isinstance(n, str) and n in program.tensors]
    return program


class _GraphWalker:
    """The nodes of a graph of torch.fx."""

    def __init__(self, program: TorchProgram, dims: Mapping[str, int]) -> None:
        self.program, self.dims = program, dims
        self.placeholders: list[str] = []
        self.shares: set[int] = set()
        self.items: dict[str, list[str]] = {}
        """Calls that give several tensors, and the names of these."""

    def walk(self, module: Any, names: dict[str, str], prefix: str = "") -> list[str]:
        """Enter all calls; gives the names of the outputs."""
        outputs: list[str] = []
        for node in module.graph.nodes:
            name = names.setdefault(node.name, prefix + node.name)
            if node.op == "placeholder":
                self.placeholders.append(name)
                self._define(name, node.meta.get("val"))
            elif node.op == "output":
                outputs = [names[input_node.name] for input_node in node.all_input_nodes]
            elif node.op == "call_function":
                self._call(module, node, name, names)
        return outputs

    def _define(self, name: str, value: Any) -> None:
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            shape = tuple(self._size(size) for size in value.shape)
            self.program.tensors[name] = TorchTensor(shape, bool(value.dtype.is_floating_point))

    def _size(self, size: Any) -> int:
        if isinstance(size, int):
            return size
        return sized(str(size), self.dims, self.shares, set(), self.program.name)

    def _call(self, module: Any, node: Any, name: str, names: dict[str, str]) -> None:
        target = str(node.target)
        value = node.meta.get("val")
        if "getitem" in target and node.args[0].name in {n.name for n in node.all_input_nodes}:
            source = self.items.get(names[node.args[0].name])
            if source is not None:
                names[node.name] = source[node.args[1]]
            return
        if "wrap_with" in target:
            inner = next(getattr(module, str(arg.target)) for arg in node.args if getattr(arg, "op", "") == "get_attr")
            passed = [names[arg.name] for arg in node.args if getattr(arg, "op", "") not in ("", "get_attr")]
            placeholders = [inside.name for inside in inner.graph.nodes if inside.op == "placeholder"]
            inner_outputs = self.walk(inner, dict(zip(placeholders, passed, strict=False)), f"{name}.")
            self.items[name] = inner_outputs
            if not isinstance(value, (tuple, list)) and inner_outputs:
                names[node.name] = inner_outputs[0]
            return
        if target.startswith("aten.topk") and len(node.args) > 1 and isinstance(node.args[1], int):
            self.shares.add(equal_share(self.program.tensors[names[node.args[0].name]].shape, node.args[1]))
        several = isinstance(value, (tuple, list))
        outputs = [f"{name}.{i}" for i in range(len(value))] if several else [name]
        for output, tensor in zip(outputs, value if several else [value], strict=True):
            self._define(output, tensor)
        if several:
            self.items[name] = outputs
        schema = getattr(node.target, "_schema", None)
        listed = (
            [parameter.name for parameter in schema.arguments]
            if schema is not None
            else map(str, range(len(node.args)))
        )
        arguments = dict(zip(listed, node.args, strict=False)) | dict(node.kwargs)
        plain = {key: self._plain(argument, names) for key, argument in arguments.items()}
        stack = node.meta.get("nn_module_stack") or {}
        path = str(next(reversed(stack.values()))[0]) if stack else ""
        self.program.calls.append(TorchCall(name, target.rpartition(".")[0] or target, plain, tuple(outputs), path))

    def _plain(self, value: Any, names: Mapping[str, str]) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._plain(item, names) for item in value]
        if hasattr(value, "op") and hasattr(value, "name"):
            return TensorName(names[value.name])
        if isinstance(value, (int, float, bool, str)) or value is None:
            return value
        return self._size(value) if "SymInt" in type(value).__name__ else None
