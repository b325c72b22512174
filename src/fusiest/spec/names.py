"""What may be a name in a spec: tensors, ranks, components, variables and renames, which expressions then use."""

from __future__ import annotations

import keyword
import re

from fusiest.errors import SpecError, shown

MAX_NAME = 200
NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
RESERVED = frozenset(
    ["All", "Inputs", "Outputs", "Intermediates", "Shared", "Persistent", "Nothing", "Above", "Other", "operation", "true",
     "false", "inf", "min", "max", "sum", "ceil", "floor", "log2", "sqrt", "len", "abs", "round", *keyword.kwlist]
)  # fmt: skip


def check_word(name: str, what: str) -> None:
    """A word that expressions may compare with: letters, digits and underscores."""
    if not NAME.match(name):
        raise SpecError(
            f"{what} name '{shown(name)}' must be letters, digits and underscores, not starting with a digit", name
        )
    if len(name) > MAX_NAME:
        raise SpecError(f"{what} name '{shown(name)}' is longer than {MAX_NAME} characters", name)


def check_name(name: str, what: str) -> None:
    """Names appear in expressions, so they are identifiers and none of the language's words."""
    check_word(name, what)
    if name in RESERVED:
        raise SpecError(f"{what} name '{name}' is a word of the expression language; choose another", name)
