"""A model's own functions, put in place of their calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fusiest.base.errors import SpecError, shown

if TYPE_CHECKING:
    import onnx

MAX_DEPTH = 50
_FunctionKey = tuple[str, str, str]


def inlined(nodes: Any, functions: Mapping[_FunctionKey, onnx.FunctionProto], most: int) -> Iterator[onnx.NodeProto]:
    """All nodes, with the bodies of functions; at most so many, as functions that call functions can be very many."""
    # Nodes to come, innermost call last; each list with the depth of its call.
    waiting: list[tuple[Iterator[onnx.NodeProto], int]] = [(iter(nodes), 0)]
    count = calls = 0
    while waiting:
        node = next(waiting[-1][0], None)
        if node is None:
            waiting.pop()
            continue
        count += 1
        if count > most:
            raise SpecError(f"more than {most:,} nodes, with those of functions")
        function = functions.get((node.domain, node.op_type, node.overload))
        if function is None:
            yield node
            continue
        depth = waiting[-1][1] + 1
        if depth > MAX_DEPTH:
            raise SpecError(
                f"function {shown(node.op_type)} calls itself, or functions are nested more than {MAX_DEPTH} deep"
            )
        calls += 1
        waiting.append((_body(node, function, calls), depth))


def _body(call: onnx.NodeProto, function: onnx.FunctionProto, number: int) -> Iterator[onnx.NodeProto]:
    """A function's nodes with the names and attributes of a call."""
    import onnx

    prefix = f"{call.name or call.op_type}.{number}"
    names = dict(zip(function.input, call.input, strict=False))
    names.update((name, "") for name in function.input[len(call.input) :])
    names.update(zip(function.output, call.output, strict=False))
    call_attributes = {attribute.name: attribute for attribute in (*function.attribute_proto, *call.attribute)}
    for i, node in enumerate(function.node):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"{prefix}.{node.name or i}"
        for side in (copy.input, copy.output):
            renamed = [names.setdefault(name, f"{prefix}.{name}") if name else "" for name in side]
            del side[:]
            side.extend(renamed)
        attributes = [_resolved(attribute, call_attributes) for attribute in copy.attribute]
        del copy.attribute[:]
        copy.attribute.extend(attribute for attribute in attributes if attribute is not None)
        yield copy


def _resolved(attribute: Any, call_attributes: Mapping[str, Any]) -> Any:
    """An attribute that refers to one of the call is that one."""
    import onnx

    if not attribute.ref_attr_name:
        return attribute
    source = call_attributes.get(attribute.ref_attr_name)
    if source is None:
        return None
    resolved = onnx.AttributeProto()
    resolved.CopyFrom(source)
    resolved.name = attribute.name
    return resolved
