"""One YAML node to one Python value: text, numbers, lists, tables, and dataclasses by their annotations.

Unknown fields, wrong types and impossible values become one-line errors with file and line. Nothing is ignored.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable
from typing import Any

from fusiest.errors import Located, Source, SpecError, did_you_mean, shown
from fusiest.frozen import FrozenDict
from fusiest.spec.architecture import FieldError
from fusiest.spec.einsum_text import check_name
from fusiest.spec.expressions import number, parse
from fusiest.spec.variables import is_word
from fusiest.spec.yamlfile import ListNode, MapNode, Node, ScalarNode


def describe(node: Node) -> str:
    if isinstance(node, MapNode):
        return "a mapping"
    if isinstance(node, ListNode):
        return "a list"
    return "nothing" if node.value is None else f"'{shown(node.value)}'"


def read_text(node: Node, what: str) -> Located:
    """Any text."""
    no_tag(node, what)
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str) or not node.value.strip():
        raise SpecError(f"{what} must be text, but is {describe(node)}", node.source)
    # The text of an alias is that of its anchor: a copy for each could fill the memory.
    return node.value if isinstance(node.value, Located) else Located(node.value, node.source)


def read_name(node: Node, what: str) -> Located:
    name = read_text(node, what)
    check_name(name, what)
    return name


def read_expression(node: Node, what: str) -> Located:
    """The text of an expression, whose syntax is checked at once."""
    text = read_text(node, what)
    parse(text)
    return text


def read_bool(node: Node, what: str) -> bool:
    no_tag(node, what)
    if not isinstance(node, ScalarNode) or not isinstance(node.value, bool):
        raise SpecError(f"{what} must be true or false, but is {describe(node)}", node.source)
    return node.value


def read_value(node: Node, what: str) -> int | float | str:
    """A number or an expression."""
    no_tag(node, what)
    if isinstance(node, ScalarNode) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ScalarNode) and isinstance(node.value, bool) and what == "enabled":
        return node.value
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str) or not node.value.strip():
        raise SpecError(f"{what} must be a number or an expression, but is {describe(node)}", node.source)
    return read_expression(node, what)


def read_variable(node: Node, what: str) -> Any:
    """A number, an expression, a word, true or false, or a list of these."""
    if isinstance(node, ListNode):
        no_tag(node, what)
        return tuple(_read_item(item, what) for item in node.items)
    return _read_item(node, what)


def _read_item(node: Node, what: str) -> int | float | str | bool:
    if isinstance(node, ScalarNode) and node.tag is None and isinstance(node.value, bool):
        return node.value
    if isinstance(node, ScalarNode) and isinstance(node.value, str) and is_word(node.value):
        return read_text(node, what)
    return read_value(node, what)


def read_int(node: Node, what: str) -> int:
    """A whole number of at least 1, possibly written as arithmetic."""
    value = read_value(node, what)
    result = number(value, {}, what) if isinstance(value, str) else value
    if not 1 <= result < math.inf or result != int(result):
        raise SpecError(f"{what} must be a whole number of at least 1, but is {describe(node)}", node.source)
    if result >= 2**62:
        raise SpecError(f"{what} is too large: {result:.3g}" if result < 1e300 else f"{what} is too large", node.source)
    return int(result)


def read_per_tensor(node: Node, what: str) -> Any:
    if isinstance(node, MapNode):
        return read_map(node, what, read_expression, read_value)
    return read_value(node, what)


def read_list(node: Node, what: str, item: Callable[[Node, str], Any]) -> tuple[Any, ...]:
    no_tag(node, what)
    if not isinstance(node, ListNode):
        raise SpecError(f"{what} must be a list, but is {describe(node)}", node.source)
    return tuple(item(child, what) for child in node.items)


def read_map(
    node: Node, what: str, key: Callable[[Node, str], Any], value: Callable[[Node, str], Any]
) -> FrozenDict[Any, Any]:
    no_tag(node, what)
    if not isinstance(node, MapNode):
        raise SpecError(f"{what} must be a mapping, but is {describe(node)}", node.source)
    return FrozenDict([(key(k, what), value(v, what)) for k, v in node.items])


def no_tag(node: Node, what: str) -> None:
    if node.tag is not None:
        raise SpecError(f"{what} takes no tag, but has {node.tag}", node.source)


def read_fields(node: Node, what: str) -> dict[str, tuple[ScalarNode, Node]]:
    """The fields of a mapping node by name, with the nodes of key and value."""
    if not isinstance(node, MapNode):
        raise SpecError(f"{what} must be a mapping with named fields, but is {describe(node)}", node.source)
    return {str(key.value): (key, value) for key, value in node.items}


def read_object(node: Node, kind: Any, what: str) -> Any:
    """A dataclass from a mapping node, field by field as the annotations say."""
    fields = read_fields(node, what)
    known = field_readers(kind)
    for name, (key, _) in fields.items():
        if name not in known:
            raise SpecError(f"unknown field '{shown(name)}' in {what}{did_you_mean(name, known)}", key.source)
    values = {name: known[name](value, name) for name, (_, value) in fields.items()}
    required = {
        f.name
        for f in dataclasses.fields(kind)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    for name in sorted(required - set(values)):
        raise SpecError(f"{what} needs the field '{name}'", node.source)
    return build(kind, values, node.source, {name: value.source for name, (_, value) in fields.items()})


def only_fields(node: Node, what: str, *names: str) -> dict[str, Node]:
    """The values of exactly these fields, all required."""
    fields = read_fields(node, what)
    for name, (key, _) in fields.items():
        if name not in names:
            raise SpecError(f"unknown field '{shown(name)}' in {what}{did_you_mean(name, names)}", key.source)
    for name in names:
        if name not in fields:
            raise SpecError(f"{what} needs the field '{name}'", node.source)
    return {name: value for name, (_, value) in fields.items()}


def build(kind: type[Any], values: dict[str, Any], source: Source, sources: dict[str, Source]) -> Any:
    """Construct an object, adding the line to what its own checks complain of."""
    try:
        return kind(**values)
    except FieldError as error:
        near = error.at.source if isinstance(error.at, Located) else None
        raise SpecError(error.message, near or sources.get(error.field_name, source)) from None


@functools.cache
def field_readers(kind: Any) -> dict[str, Callable[[Node, str], Any]]:
    hints = typing.get_type_hints(kind)
    return {f.name: _reader(f.name, hints[f.name]) for f in dataclasses.fields(kind)}


_EXPRESSIONS = {"keep", "may_keep", "back", "no_refetch_from_above", "no_resend_to_below", "no_fused_loops", "may_reuse", "reuse",
                "total_latency", "expression", "source", "persistent_tensors"}  # fmt: skip
SPECIAL: dict[str, Callable[[Node, str], Any]] = {}


def _reader(name: str, hint: Any) -> Callable[[Node, str], Any]:
    if name in SPECIAL:
        return SPECIAL[name]
    members = [m for m in typing.get_args(hint) if m is not type(None)]
    if name in _EXPRESSIONS:
        return read_expression
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        if len(members) == 1:
            return _reader(name, members[0])
        return read_per_tensor if any(typing.get_origin(m) is FrozenDict for m in members) else read_value
    if typing.get_origin(hint) is tuple:
        item = _reader("", members[0])
        return lambda node, what: read_list(node, what, item)
    if dataclasses.is_dataclass(hint):
        return lambda node, what: read_tagless(node, typing.cast(type[Any], hint), what)
    return {str: read_text, bool: read_bool, int: read_int}[hint]


def read_tagless(node: Node, kind: type[Any], what: str) -> Any:
    no_tag(node, what)
    return read_object(node, kind, what)
