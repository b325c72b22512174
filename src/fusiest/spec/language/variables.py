"""The `variables` of a spec: numbers, text, lists and expressions, in any order.

Those that follow from each other alone have one value. The others name sets or tensors (`weight.bits_per_value`) and are
evaluated for one Einsum, when something there first names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, NamedTuple, TypeAlias

from fusiest.base.errors import Located, SpecError
from fusiest.base.units import quantity
from fusiest.spec.language.allowed_names import circle
from fusiest.spec.language.expressions import (
    CONSTANTS,
    VariableError,
    Word,
    chained,
    evaluate_expression,
    names_in,
    parse_expression,
)
from fusiest.spec.language.fields import Reader, no_tag, read_condition, read_text
from fusiest.spec.reading.yamlfile import ListNode, ScalarNode, YamlNode

_Item: TypeAlias = int | float | str | bool
VariableValue: TypeAlias = _Item | tuple[_Item, ...]
_WORD = re.compile(r"[A-Za-z_][\w.-]*(/[\w.-]+)*\Z", re.ASCII)
_MOST_NESTED = 100


def read_variable(node: YamlNode, what: str) -> VariableValue:
    """A number, an expression, true or false, text, or a list of these. Text is a word, or in quotes and no expression."""
    if isinstance(node, ListNode):
        no_tag(node, what)
        return tuple(_read_item(item, what) for item in node.items)
    return _read_item(node, what)


def _read_item(node: YamlNode, what: str) -> _Item:
    text = node.value if isinstance(node, ScalarNode) and isinstance(node.value, str) else ""
    if is_word(text):
        return read_text(node, what)
    if isinstance(node, ScalarNode) and node.quoted and not is_expression(text):
        no_tag(node, what)
        return Word(text, node.source)
    with_unit = quantity(text)
    if with_unit is not None:
        no_tag(node, what)
        return with_unit
    return read_condition(node, what)


SpecVariable: TypeAlias = Annotated[VariableValue, Reader(read_variable, "number, expression, text, or list")]


class Variables(Mapping[str, object]):
    """Variables of one Einsum, whose names are given: each is evaluated when it is first used.

    >>> Variables({"half": "whole / 2", "whole": 8}, {})["half"]
    4.0
    """

    __slots__ = ("_names", "_open", "_values", "texts")

    def __init__(self, texts: Mapping[str, VariableValue], names: Mapping[str, object]) -> None:
        self.texts, self._names = texts, names
        self._values: dict[str, object] = {}
        self._open: list[str] = []

    def __getitem__(self, name: str) -> object:
        if name not in self.texts:
            raise KeyError(name)
        if name not in self._values:
            if name in self._open:
                raise VariableError(f"variable {circle(self._open, name)}", self._place(name))
            if len(self._open) > _MOST_NESTED:
                raise VariableError(f"variables use each other more than {_MOST_NESTED} deep", self._place(name))
            self._open.append(name)
            try:
                self._values[name] = value_of(self.texts[name], chained(self, self._names))
            except VariableError:
                raise
            except SpecError as error:
                raise VariableError(f"variable {name}: {error.message}", error.source or self._place(name)) from None
            finally:
                self._open.pop()
        return self._values[name]

    def _place(self, name: str) -> str:
        """The name as it was written, which knows its line."""
        return next(key for key in self.texts if key == name)

    def __contains__(self, name: object) -> bool:
        return name in self.texts

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)


def value_of(value: VariableValue, names: Mapping[str, object]) -> object:
    """What a variable or an attribute stands for: a list, an expression's value, or the text itself if it is a word and no
    name.

    >>> value_of("conservative", {}), value_of(("2 * b", 5), {"b": 3})
    ('conservative', (6, 5))
    """
    if isinstance(value, tuple):
        return tuple(value_of(item, names) for item in value)
    if isinstance(value, Word):
        return value
    if isinstance(value, str) and is_word(value) and re.split(r"[./-]", value)[0] not in names:
        return Word(value, value.source if isinstance(value, Located) else None)
    return evaluate_expression(value, names)


def is_word(text: str) -> bool:
    """Whether a text may be meant as it stands: a word, or the path of a file.

    >>> is_word("conservative"), is_word("cells/rram.yaml"), is_word("2 * voltage"), is_word("inf")
    (True, True, False, False)
    """
    return _WORD.match(text) is not None and text not in CONSTANTS


def is_expression(text: str) -> bool:
    """Whether a text can be an expression.

    >>> is_expression("[1] * 15"), is_expression("/cells/rram.yaml")
    (True, False)
    """
    try:
        parse_expression(text)
    except SpecError:
        return False
    return True


class VariableSplit(NamedTuple):
    """Variables that follow from each other alone, with their values, and the texts of those that name something else."""

    values: dict[str, object]
    texts: dict[str, VariableValue]


def split(variables: Mapping[str, VariableValue]) -> VariableSplit:
    """Which have one value for all Einsums."""
    users: dict[str, list[str]] = {}
    for name, value in variables.items():
        for used in uses(value):
            users.setdefault(used, []).append(name)
    # A variable that uses one that names something else does so itself.
    outside: set[str] = set()
    waiting = [used for used in users if used not in variables and used not in CONSTANTS]
    while waiting:
        name = waiting.pop()
        if name not in outside:
            outside.add(name)
            waiting += users.get(name, ())
    constants = Variables({name: value for name, value in variables.items() if name not in outside}, {})
    texts = {name: value for name, value in variables.items() if name in outside}
    return VariableSplit({name: constants[name] for name in constants}, texts)


def uses(value: VariableValue) -> frozenset[str]:
    """The names that a variable or an attribute takes from elsewhere; a word may be one."""
    if isinstance(value, tuple):
        return frozenset().union(*(uses(item) for item in value))
    if not isinstance(value, str) or isinstance(value, Word):
        return frozenset()
    if is_word(value):
        return frozenset([re.split(r"[./-]", value)[0]])
    return names_in(value)
