"""A dataclass says how it is read: the types and `Annotated` notes of its fields are reader, limits and documentation.

`keep: Annotated[SetText | None, "Must be held here."]` is read as the text of a set expression. Unknown fields, wrong types
and impossible values become one-line errors with file and line. Nothing is ignored.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from fusiest.base.errors import Located, SpecError, check_known, did_you_mean, shown
from fusiest.base.frozen import FrozenDict
from fusiest.base.units import read_quantity
from fusiest.spec.language.allowed_names import check_name
from fusiest.spec.language.expressions import number, parse_expression
from fusiest.spec.language.ranges import Limits
from fusiest.spec.reading.yamlfile import ListNode, MapNode, ScalarNode, YamlNode


class FieldError(ValueError):
    """A field with an impossible value; the reader adds file and line. `at` is text nearer to it than the field."""

    def __init__(self, field_name: str, message: str, at: str | None = None) -> None:
        self.field_name = field_name
        self.message = message
        self.at = at
        super().__init__(f"{field_name}: {message}")


class Reader(NamedTuple):
    """How a value is read, and what the reference calls it."""

    read: Callable[[YamlNode, str], Any]
    words: str


class Alias(NamedTuple):
    """Another name that a file may use for a field."""

    name: str


class Field(NamedTuple):
    """One field of a dataclass, as its annotation describes it."""

    reader: Reader
    limits: Limits | None
    meaning: str
    required: bool
    default: object
    alias: str | None = None


# --- single values --------------------------------------------------------------------------------------------------


def describe(node: YamlNode) -> str:
    """A node in the words of an error message."""
    if isinstance(node, MapNode):
        return "a mapping"
    if isinstance(node, ListNode):
        return "a list"
    return "nothing" if node.value is None else f"'{shown(node.value)}'"


def must_be(expected: str, node: YamlNode, what: str) -> SpecError:
    """What a value should have been."""
    return SpecError(f"{what} must be {expected}, but is {describe(node)}", node.source)


def no_tag(node: YamlNode, what: str) -> None:
    """Refuse a tag where none has a meaning."""
    if node.tag is not None:
        raise SpecError(f"{what} takes no tag, but has {node.tag}", node.source)


def read_text(node: YamlNode, what: str) -> Located:
    """Any text."""
    no_tag(node, what)
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str) or not node.value.strip():
        raise must_be("text", node, what)
    # The text of an alias is that of its anchor: a copy for each could fill the memory.
    return node.value if isinstance(node.value, Located) else Located(node.value, node.source)


def read_name(node: YamlNode, what: str) -> Located:
    """A name that expressions can use."""
    name = read_text(node, what)
    check_name(name, what)
    return name


def read_expression(node: YamlNode, what: str) -> Located:
    """The text of an expression, whose syntax is checked at once."""
    text = read_text(node, what)
    parse_expression(text)
    return text


def read_bool(node: YamlNode, what: str) -> bool:
    """True or false."""
    no_tag(node, what)
    if not isinstance(node, ScalarNode) or not isinstance(node.value, bool):
        raise must_be("true or false", node, what)
    return node.value


def read_value(node: YamlNode, what: str) -> int | float | str:
    """A number or an expression."""
    no_tag(node, what)
    if isinstance(node, ScalarNode) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return node.value
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str) or not node.value.strip():
        raise must_be("a number or an expression", node, what)
    with_unit = read_quantity(node.value)
    return read_text(node, what) if with_unit is not None and with_unit.unit.per_bit else read_expression(node, what)


def read_condition(node: YamlNode, what: str) -> int | float | str:
    """True, false, a number or an expression."""
    if isinstance(node, ScalarNode) and isinstance(node.value, bool) and node.tag is None:
        return node.value
    return read_value(node, what)


def read_int(node: YamlNode, what: str) -> int:
    """A whole number of at least 1, possibly written as arithmetic."""
    value = read_value(node, what)
    result = number(value, {}, what) if isinstance(value, str) else value
    if not 1 <= result < math.inf or result != int(result):
        raise must_be("a whole number of at least 1", node, what)
    if result >= 2**62:
        raise SpecError(f"{what} is too large: {result:.3g}" if result < 1e300 else f"{what} is too large", node.source)
    return int(result)


# --- lists, tables and objects --------------------------------------------------------------------------------------


def read_list(node: YamlNode, what: str, item: Callable[[YamlNode, str], Any]) -> tuple[Any, ...]:
    """A list, item by item."""
    no_tag(node, what)
    if not isinstance(node, ListNode):
        raise must_be("a list", node, what)
    return tuple(item(child, what) for child in node.items)


def read_map(
    node: YamlNode, what: str, key: Callable[[YamlNode, str], Any], value: Callable[[YamlNode, str], Any]
) -> FrozenDict[Any, Any]:
    """A table, pair by pair."""
    no_tag(node, what)
    if not isinstance(node, MapNode):
        raise must_be("a mapping", node, what)
    return FrozenDict([(key(k, what), value(v, what)) for k, v in node.items])


def read_fields(node: YamlNode, what: str) -> dict[str, tuple[ScalarNode, YamlNode]]:
    """The fields of a mapping node by name, with the nodes of key and value."""
    if not isinstance(node, MapNode):
        raise must_be("a mapping with named fields", node, what)
    return {str(key.value): (key, value) for key, value in node.items}


def known_fields(node: YamlNode, what: str, names: Iterable[str]) -> dict[str, YamlNode]:
    """The values of a mapping node by name, if all of its fields are known."""
    fields = read_fields(node, what)
    for name, (key, _) in fields.items():
        if name not in names:
            raise SpecError(f"unknown field '{shown(name)}' in {what}{did_you_mean(name, names)}", key.source)
    return {name: value for name, (_, value) in fields.items()}


def only_fields(node: YamlNode, what: str, *names: str) -> dict[str, YamlNode]:
    """The values of exactly these fields, all required."""
    return _complete(node, what, names, known_fields(node, what, names))


def _complete(node: YamlNode, what: str, required: Iterable[str], nodes: dict[str, YamlNode]) -> dict[str, YamlNode]:
    for name in required:
        if name not in nodes:
            raise SpecError(f"{what} needs the field '{name}'", node.source)
    return nodes


def read_object(node: YamlNode, kind: Any, what: str) -> Any:
    """A dataclass from a mapping node, field by field as the annotations say."""
    fields = fields_of(kind)
    nodes = _by_name(known_fields(node, what, [*fields, *(f.alias for f in fields.values() if f.alias)]), fields)
    _complete(node, what, (name for name in fields if fields[name].required), nodes)
    return build(node, kind, {name: fields[name].reader.read(value, name) for name, value in nodes.items()}, nodes)


def _by_name(nodes: dict[str, YamlNode], fields: Mapping[str, Field]) -> dict[str, YamlNode]:
    """Nodes under the proper names of fields, for other ones that a file may use."""
    for name, field in fields.items():
        if field.alias in nodes:
            if name in nodes:
                raise SpecError(f"'{field.alias}' and '{name}' are the same; give one", nodes[name].source)
            nodes[name] = nodes.pop(field.alias)
    return nodes


def read_given(node: YamlNode, kind: Any, what: str) -> FrozenDict[str, Any]:
    """Some fields of a dataclass, those that are given, without the others' defaults."""
    no_tag(node, what)
    fields = fields_of(kind)
    nodes = known_fields(node, what, fields)
    values = {name: fields[name].reader.read(value, name) for name, value in nodes.items()}
    for name, value in values.items():
        build(node, functools.partial(_check_field, kind, name, value), {}, nodes)
    return FrozenDict(values)


def read_tagless(node: YamlNode, kind: Any, what: str) -> Any:
    """A dataclass that needs no tag to be known."""
    no_tag(node, what)
    return read_object(node, kind, what)


def read_tagged(node: YamlNode, kinds: Iterable[type[Any]], where: str) -> Any:
    """One of several dataclasses, which the tag names."""
    tags = {tag_of(kind): kind for kind in kinds}
    if node.tag is None:
        raise SpecError(f"a node of {where} needs one of the tags {' '.join(tags)}", node.source)
    check_known(node.tag, tags, f"unknown tag {node.tag} in {where}", node.source)
    name = read_fields(node, node.tag).get("name") if isinstance(node, MapNode) else None
    what = f"{node.tag} {shown(name[1].value)}" if name and isinstance(name[1], ScalarNode) else node.tag
    return read_object(node, tags[node.tag], what)


def tag_of(kind: type[Any]) -> str:
    """The tag of a dataclass: its name, unless it says another."""
    return str(getattr(kind, "TAG", f"!{kind.__name__}"))


def build(node: YamlNode, kind: Callable[..., Any], values: dict[str, Any], nodes: dict[str, YamlNode]) -> Any:
    """Construct an object, adding the line to what its own checks complain of."""
    try:
        return kind(**values)
    except FieldError as error:
        near = error.at.source if isinstance(error.at, Located) else None
        raise SpecError(error.message, near or nodes.get(error.field_name, node).source) from None


# --- from annotations -----------------------------------------------------------------------------------------------

Value: TypeAlias = int | float | str
"""A number, or the text of an expression."""
NUMBER, SET = Reader(read_value, "number or expression"), Reader(read_expression, "set")
NameText: TypeAlias = Annotated[str, Reader(read_name, "name")]
SetText: TypeAlias = Annotated[str, SET]
VariableSet: TypeAlias = Annotated[str, Reader(read_expression, "set of rank variables")]
ExpressionText: TypeAlias = Annotated[str, Reader(read_expression, "expression")]
Condition: TypeAlias = Annotated[Value, Reader(read_condition, NUMBER.words)]
Number: TypeAlias = Annotated[Value, NUMBER, Limits()]
PositiveNumber: TypeAlias = Annotated[Value, NUMBER, Limits(positive=True)]
Amount: TypeAlias = Annotated[Value, NUMBER, Limits(finite=False)]
PositiveAmount: TypeAlias = Annotated[Value, NUMBER, Limits(positive=True, finite=False)]
_ByTensor: TypeAlias = Value | FrozenDict[SetText, Value]
PerTensor: TypeAlias = Annotated[_ByTensor, Limits(positive=True, finite=False)]
"""One value for all tensors, or values by set expression (disjoint; `Other` is the rest)."""
BitsPerTensor: TypeAlias = Annotated[_ByTensor, Limits(positive=True, units=("bit",))]


@functools.cache
def fields_of(kind: Any) -> dict[str, Field]:
    """The fields of a dataclass by name.

    >>> @dataclasses.dataclass
    ... class Disk:
    ...     size: Annotated[Number, "Bits."] = 8
    >>> fields_of(Disk)["size"].reader.words, fields_of(Disk)["size"].meaning
    ('number or expression', 'Bits.')
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {}
    for field in dataclasses.fields(kind):
        notes = list(_notes(hints[field.name]))
        meaning = next((note for note in notes if isinstance(note, str)), "")
        limits = next((note for note in notes if isinstance(note, Limits)), None)
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        alias = next((note.name for note in notes if isinstance(note, Alias)), None)
        fields[field.name] = Field(_reader(hints[field.name]), limits, meaning, required, field.default, alias)
    return fields


def check_fields(owner: object) -> None:
    """Refuse numbers that their fields cannot have; what is still an expression is checked when it is evaluated."""
    kind: Any = type(owner)
    for name in _limits(kind):
        _check_field(kind, name, getattr(owner, name))


def _check_field(kind: Any, name: str, value: object) -> None:
    limits = _limits(kind).get(name)
    for key, entry in value.items() if isinstance(value, FrozenDict) else ((None, value),):
        wrong, label = None, name if key is None else f"{name} of {shown(key)}"
        if limits is not None and isinstance(entry, str):
            wrong = limits.wrong_unit(label, entry)
        elif limits is not None and isinstance(entry, (int, float)) and not isinstance(entry, bool):
            wrong = limits.complaint(label, entry)
        if wrong:
            raise FieldError(name, wrong, key)


@functools.cache
def _limits(kind: Any) -> dict[str, Limits]:
    return {name: field.limits for name, field in fields_of(kind).items() if field.limits is not None}


def _notes(hint: Any) -> Iterable[object]:
    """What `Annotated` says anywhere in a type, outermost first, alternatives included."""
    yield from getattr(hint, "__metadata__", ())
    if hasattr(hint, "__metadata__"):
        yield from _notes(hint.__origin__)
    elif typing.get_origin(hint) in (types.UnionType, typing.Union):
        for member in typing.get_args(hint):
            yield from _notes(member)


def _reader(hint: Any) -> Reader:
    """How a value of this type is read."""
    if hasattr(hint, "__metadata__"):
        annotated = next((note for note in hint.__metadata__ if isinstance(note, Reader)), None)
        return annotated or _reader(hint.__origin__)
    origin, members = typing.get_origin(hint), [m for m in typing.get_args(hint) if m is not type(None)]
    if origin in (types.UnionType, typing.Union):
        return _alternatives(members)
    if origin is tuple:
        item = _reader(members[0])
        words = "list of names" if members[0] is str else "list"
        return Reader(lambda node, what: read_list(node, what, item.read), words)
    if origin is FrozenDict:
        key, value = _reader(members[0]), _reader(members[1])
        return Reader(
            lambda node, what: read_map(node, what, key.read, value.read),
            f"{{{key.words}: {'number' if value is NUMBER else value.words}}}",
        )
    if origin is Literal:
        return Reader(lambda node, what: _read_choice(node, what, members), "text")
    if dataclasses.is_dataclass(origin or hint):
        return Reader(lambda node, what: read_tagless(node, origin or hint, what), "table")
    return _PLAIN[hint]


def _alternatives(members: list[Any]) -> Reader:
    """A table or something else, a number or an expression, or one type that may be missing."""
    tables = [member for member in members if typing.get_origin(member) is FrozenDict]
    plain = [member for member in members if member not in tables]
    reader = NUMBER if plain == [int, float, str] else _reader(plain[0])
    if not tables:
        return reader
    table = _reader(tables[0])
    words = f"{reader.words.replace(' or ', ', ')}, or {table.words}"
    return Reader(lambda node, what: (table if isinstance(node, MapNode) else reader).read(node, what), words)


def _read_choice(node: YamlNode, what: str, choices: list[str]) -> str:
    text = read_text(node, what)
    if text not in choices:
        raise SpecError(f"{what} '{shown(text)}' is none of {', '.join(choices)}", node.source)
    return text


_PLAIN: dict[Any, Reader] = {
    str: Reader(read_text, "text"),
    bool: Reader(read_bool, "true or false"),
    int: Reader(read_int, "whole number, at least 1"),
}
