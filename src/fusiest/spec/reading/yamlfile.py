"""A YAML file as a tree of immutable nodes that know their lines.

Only the parser of PyYAML is used, event by event; scalars are resolved here by the YAML 1.2 core rules, so that
`on` and `no` are text and `1e15` is a number. No Python object is ever constructed from what a file says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import yaml

from fusiest.base.errors import Located, Source, SpecError, shown
from fusiest.spec.reading.foreign import foreign_hint
from fusiest.spec.reading.template import render

MAX_NODES = 250_000
CHARACTERS_PER_NODE = 64
MAX_DEPTH = 200
MAX_DIGITS = 1_000
CORE_TAG = "tag:yaml.org,2002:"
INCLUDED = "!include_loaded"

Scalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A single value. Text is `Located`, so that an error about it can name its line."""

    value: Scalar
    source: Source
    quoted: bool = False
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class ListNode:
    items: tuple[YamlNode, ...]
    source: Source
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class MapNode:
    """A table in the order of the file; no key appears twice."""

    items: tuple[tuple[ScalarNode, YamlNode], ...]
    source: Source
    tag: str | None = None
    anchored: bool = False
    """Whether it has a name for aliases to refer to."""


YamlNode: TypeAlias = ScalarNode | ListNode | MapNode


class Includer(Protocol):
    """What a template may call to include other files, and the nodes that it has included."""

    @property
    def included(self) -> Any: ...

    def functions(self) -> Mapping[str, object]: ...


def load_nodes(name: str, text: str, defines: Mapping[str, object], includes: Includer | None = None) -> MapNode:
    """Render the template, then parse it; `name` is the file that errors speak of.

    >>> tree = load_nodes("a.yaml", "{% set N = 2 %}\\n\\nsize: {{N}}", {})
    >>> key, node = tree.items[0]
    >>> key.value, node.value, str(node.source)
    ('size', 2, 'a.yaml:3')
    """
    rendered = render(text, name, defines, includes.functions() if includes else {})
    if includes:
        includes.included.used |= rendered.used
        includes.included.values.update(rendered.values)
    root = parse_nodes(rendered.text, rendered.sources, includes.included.nodes if includes else {})
    if not isinstance(root, MapNode):
        entries = [item for item in root.items if isinstance(item, MapNode)] if isinstance(root, ListNode) else []
        hint = foreign_hint("", [key.value for entry in entries[:1] for key, _ in entry.items])
        raise SpecError(f"the file must be a table of sections such as 'arch:' or 'workload:'{hint}", at=root.source)
    return root


def parse_nodes(
    text: str, sources: Sequence[Source], included: Mapping[str, YamlNode] = MappingProxyType({})
) -> YamlNode:
    """Parse YAML; `sources[i]` is where line i (from 0) of `text` was written, `included` what `!include_loaded` refers to.

    >>> parse_nodes("[1, ~A]", [Source("f", 7)]).items[1]
    ScalarNode(value='~A', source=Source(file='f', line=7), quoted=False, tag=None)
    """
    # YAML counts these three as line breaks, our line table does not.
    text = text.translate({0x85: " ", 0x2028: " ", 0x2029: " "})
    text = _EINSUM.sub(r'\1"\2" \3', text)
    builder = _Builder(sources, included)
    strange = _NOT_YAML.search(text)
    if strange:
        where = builder.source(text.count("\n", 0, strange.start()))
        raise SpecError(f"the file holds the control character {strange.group()!r}; is it a text file?", at=where)
    try:
        root = builder.build(_events(text))
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, builder) from None
    except yaml.YAMLError as error:
        raise SpecError(f"not valid YAML: {' '.join(str(error).split())}", at=builder.source(0)) from None
    if root is None or (isinstance(root, ScalarNode) and root.value is None and root.tag is None):
        raise SpecError("the file is empty", at=builder.source(0))
    return root


def _events(text: str) -> Iterator[Any]:
    loader: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    return iter(yaml.parse(text, Loader=loader))


@dataclass(slots=True)
class _OpenNode:
    """A list or table whose end has not been read yet."""

    is_map: bool
    source: Source
    tag: str | None
    anchor: str | None
    first: int
    children: list[YamlNode]
    height: int = 1


class _Builder:
    """Turns events into nodes with a stack of its own; counts each node as often as aliases repeat it, a long text
    as several.
    """

    def __init__(self, sources: Sequence[Source], included: Mapping[str, YamlNode]) -> None:
        self.sources, self.included = sources, included
        self.count = 0
        self.anchors: dict[str, tuple[YamlNode, int, int] | None] = {}
        self.stack: list[_OpenNode] = []
        self.root: YamlNode | None = None
        self.last = sources[0]

    def build(self, events: Iterator[Any]) -> YamlNode | None:
        documents = 0
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                self.scalar(event)
            elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                self.start(event)
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                self.end()
            elif isinstance(event, yaml.AliasEvent):
                self.alias(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise SpecError("a second document ('---') in one file", at=self.at(event))
        return self.root

    def source(self, line: int) -> Source:
        self.last = self.sources[min(line, len(self.sources) - 1)]
        return self.last

    def at(self, event: Any) -> Source:
        return self.source(event.start_mark.line)

    def check_depth(self, height: int, event: Any) -> Source:
        """Where we are, unless something so high is too much there."""
        if len(self.stack) + height > MAX_DEPTH:
            raise SpecError(f"nested more than {MAX_DEPTH} deep", at=self.at(event))
        return self.at(event)

    def include(self, event: Any) -> None:
        """Put in what a file that was included has at this path."""
        name, *keys = event.value.strip().split(".")
        node = self.included.get(name)
        for key in keys:
            items = node.items if isinstance(node, MapNode) else ()
            node = next((value for name_node, value in items if str(name_node.value) == key), None)
            name = f"{name}.{key}"
        if node is None:
            raise SpecError(f"what was included has no '{shown(name)}'", self.at(event))
        count, height = measure(node, MAX_NODES)
        self.check_depth(height, event)
        self.add(node, count, height)

    def scalar(self, event: Any) -> None:
        if event.tag == INCLUDED:
            return self.include(event)
        source, plain = self.at(event), event.style in (None, "")
        value, tag = _resolve(event.value, event.tag, not plain, source)
        node = ScalarNode(value, source, event.style in ("'", '"'), tag)
        size = 1 + len(event.value) // CHARACTERS_PER_NODE
        if event.anchor:
            self.anchors[event.anchor] = (node, size, 0)
        return self.add(node, size, 0)

    def start(self, event: Any) -> None:
        source = self.check_depth(1, event)
        is_map = isinstance(event, yaml.MappingStartEvent)
        tag = None if event.tag == CORE_TAG + ("map" if is_map else "seq") else _short(event.tag)
        if event.anchor:
            self.anchors[event.anchor] = None
        self.stack.append(_OpenNode(is_map, source, tag, event.anchor, self.count, []))

    def end(self) -> None:
        collection = self.stack.pop()
        node: YamlNode
        if collection.is_map:
            node = MapNode(
                _pairs(collection.children), collection.source, collection.tag, collection.anchor is not None
            )
            if any(isinstance(key, ScalarNode) and key.value == "<<<" for key in collection.children[::2]):
                self.count = max(self.count, collection.first + measure(node, MAX_NODES)[0])
        else:
            node = ListNode(tuple(collection.children), collection.source, collection.tag)
        if collection.anchor:
            self.anchors[collection.anchor] = (node, self.count - collection.first + 1, collection.height)
        self.add(node, 1, collection.height)

    def alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            raise SpecError(f"no anchor '&{event.anchor}' above this '*{event.anchor}'", at=self.at(event))
        anchor = self.anchors[event.anchor]
        if anchor is None:
            raise SpecError(f"'*{event.anchor}' stands inside what it refers to", at=self.at(event))
        node, size, height = anchor
        self.check_depth(height, event)
        self.add(node, size, height)

    def add(self, node: YamlNode, size: int, height: int) -> None:
        self.count += size
        if self.count > MAX_NODES:
            counted = f"repetitions by aliases included; {CHARACTERS_PER_NODE} characters of text count as one more"
            raise SpecError(f"more than {MAX_NODES:,} values, {counted}", at=self.last)
        if self.stack:
            self.stack[-1].children.append(node)
            self.stack[-1].height = max(self.stack[-1].height, height + 1)
        else:
            self.root = node


def _pairs(children: Sequence[YamlNode]) -> tuple[tuple[ScalarNode, YamlNode], ...]:
    """Keys and values alternate in `children`. Merged tables (`<<`) come first and yield to what is written out."""
    written: dict[tuple[type, Scalar], tuple[ScalarNode, YamlNode]] = {}
    merged: dict[tuple[type, Scalar], tuple[ScalarNode, YamlNode]] = {}
    deep = False
    for key, node in zip(children[::2], children[1::2], strict=True):
        if not isinstance(key, ScalarNode):
            raise SpecError("a key must be plain text, not a list or table; is a '{' left over?", at=key.source)
        if key.value in ("<<", "<<<") and not key.quoted:
            for pair in _merged(node):
                name = _identity(pair[0])
                merged[name] = _both(merged[name], pair, key.value == "<<<") if name in merged else pair
            deep |= key.value == "<<<"
            continue
        if key.tag is not None:
            raise SpecError(f"a key cannot have a tag, but this one has {key.tag}", at=key.source)
        first = written.setdefault(_identity(key), (key, node))[0]
        if first is not key:
            message = (
                f"key '{shown(key.value)}' appears twice: in line {first.source.line} and in line {key.source.line}"
            )
            raise SpecError(message, at=key.source)
    written = {name: _both(pair, merged[name], deep) if name in merged else pair for name, pair in written.items()}
    return tuple({**{name: merged[name] for name in merged if name not in written}, **written}.values())


def _both(
    first: tuple[ScalarNode, YamlNode], second: tuple[ScalarNode, YamlNode], deep: bool
) -> tuple[ScalarNode, YamlNode]:
    """The first of two values of one key; under `<<<`, tables are merged and lists follow each other."""
    (key, value), (_, second_value) = first, second
    if deep and isinstance(value, MapNode) and isinstance(second_value, MapNode):
        pairs = {_identity(pair[0]): pair for pair in second_value.items}
        merged = [
            _both(pair, pairs.pop(name), True) if (name := _identity(pair[0])) in pairs else pair
            for pair in value.items
        ]
        return key, MapNode((*merged, *pairs.values()), value.source, value.tag)
    if deep and isinstance(value, ListNode) and isinstance(second_value, ListNode):
        return key, ListNode((*value.items, *second_value.items), value.source, value.tag)
    return first


def measure(node: YamlNode, limit: int = 10**9) -> tuple[int, int]:
    """How many values there are in a node, itself and each use of an alias included, and how deep they are nested."""
    count, height, level = 0, -1, [node]
    while level and count <= limit:
        height += 1
        count += len(level) + sum(
            len(n.value) // CHARACTERS_PER_NODE for n in level if isinstance(n, ScalarNode) and isinstance(n.value, str)
        )
        maps = (child for n in level if isinstance(n, MapNode) for pair in n.items for child in pair)
        level = [*maps, *(child for n in level if isinstance(n, ListNode) for child in n.items)]
    return count, height


def _identity(key: ScalarNode) -> tuple[type, Scalar]:
    return (str if isinstance(key.value, str) else type(key.value), key.value)


def _merged(node: YamlNode) -> Iterator[tuple[ScalarNode, YamlNode]]:
    for table in node.items if isinstance(node, ListNode) else (node,):
        if not isinstance(table, MapNode):
            raise SpecError("'<<' merges a table or a list of tables", at=node.source)
        yield from table.items


def _resolve(text: str, tag: str | None, quoted: bool, source: Source) -> tuple[Scalar, str | None]:
    if tag in ("!", CORE_TAG + "str") or (quoted and tag is None):
        return Located(text, source), None
    value = Located(text, source) if quoted else plain_scalar(text, source)
    if tag is None or tag == CORE_TAG + _CORE_TYPES[str if isinstance(value, str) else type(value)]:
        return value, None
    return value, _short(tag)


def plain_scalar(text: str, source: Source) -> Scalar:
    """An unquoted scalar by the YAML 1.2 core rules, and `inf` without its dot."""
    if text in _WORDS:
        return _WORDS[text]
    if not text or text[0] not in "+-.0123456789nN":
        return Located(text, source)
    if _NAN.fullmatch(text):
        raise SpecError(f"'{text}' is not a number that means anything here", at=source)
    if _INTEGER.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise SpecError(f"a number of {len(text)} digits", at=source)
        return int(text, 16 if text[1:2] == "x" else 8 if text[1:2] == "o" else 10)
    if _FLOAT.fullmatch(text):
        value = float(text)
        if math.isinf(value):
            raise SpecError(f"{text[:40]} is too large for a number; infinity is 'inf'", at=source)
        return value
    return Located(text, source)


def _short(tag: str | None) -> str | None:
    return "!!" + tag.removeprefix(CORE_TAG) if tag and tag.startswith(CORE_TAG) else tag


def _syntax_error(error: yaml.MarkedYAMLError, text: str, builder: _Builder) -> SpecError:
    """PyYAML's several lines as one, with a cure where the cause is known."""
    mark = error.problem_mark or error.context_mark
    number = mark.line if mark else 0
    lines = text.split("\n")
    line = lines[number] if number < len(lines) else ""
    problem = " ".join((error.problem or "it cannot be parsed").split())
    hint = next((f"; {hint}" for symptom, hint in _HINTS.items() if symptom in problem), "")
    if "\t" in line[: len(line) - len(line.lstrip())] or (mark and line[mark.column : mark.column + 1] == "\t"):
        hint = "; a tab cannot indent, use spaces"
    return SpecError(f"not valid YAML: {problem}{hint}", at=builder.source(number))


_HINTS = {
    "mapping values are not allowed": "a ': ' inside a value wants quotes, and a key must be indented as its neighbours are",
    "cannot start any token": "put the value in quotes",
    "end of stream": "is a quote not closed?",
    "expected": "check the indentation and the brackets above",
}
"""By what PyYAML says is wrong, the likely cure."""
_WORDS: Mapping[str, Scalar] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    **{sign + word: math.inf for sign in ("", "+") for word in ("inf", ".inf", ".Inf", ".INF")},
    **{"-" + word: -math.inf for word in ("inf", ".inf", ".Inf", ".INF")},
}  # fmt: skip
_CORE_TYPES: Mapping[type, str] = {str: "str", int: "int", float: "float", bool: "bool", type(None): "null"}
_INTEGER = re.compile(r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# `- C[m] = A[M: m]`: to YAML, what ends at the colon would be a key.
_EINSUM = re.compile(
    r"""^([ ]*(?:- +(?:einsum: +)?|einsum: +))(?=[^\n]*: )([A-Za-z_]\w*\[[^]"'#\n\\]*\] *=[^"'#\n\\]*)(#.*)?$""", re.M
)
_NAN = re.compile(r"[-+]?\.?(nan|NaN|NAN)")
_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
