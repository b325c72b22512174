"""What may be a name in a spec: tensors, ranks, components, variables and renames, which expressions then use."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence

from fusiest.base.errors import SpecError, did_you_mean, shown

MAX_NAME = 200
NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
RESERVED = frozenset(
    ["All", "Tensors", "Inputs", "Outputs", "Intermediates", "Shared", "Persistent", "Nothing", "Above", "Other", "operation", "true",
     "false", "inf", "min", "max", "sum", "ceil", "floor", "log2", "sqrt", "len", "abs", "round", *keyword.kwlist]
)  # fmt: skip


def check_word(name: str, what: str, dashes: bool = False) -> None:
    """A word that expressions may compare with: letters, digits and underscores, perhaps dashes."""
    if not NAME.match(name.replace("-", "_") if dashes and name[:1] != "-" else name):
        allowed = "letters, digits, underscores and dashes" if dashes else "letters, digits and underscores"
        raise SpecError(f"{what} name '{shown(name)}' must be {allowed}, not starting with a digit", name)
    if len(name) > MAX_NAME:
        raise SpecError(f"{what} name '{shown(name)}' is longer than {MAX_NAME} characters", name)


def check_name(name: str, what: str, dashes: bool = False) -> None:
    """Names appear in expressions, so they are identifiers and none of the language's words; with a dash, they do not."""
    check_word(name, what, dashes)
    if name in RESERVED:
        raise SpecError(f"{what} name '{name}' is a word of the expression language; choose another", name)


_ROLES = {"input": "Inputs & …", "output": "Outputs", "weight": "Inputs - input"}
"""Names that architectures use for an Einsum's tensors, and the source that a rename may give them."""


def unknown_name(name: str, known: Mapping[str, object]) -> SpecError:
    """The error for a name that an expression uses, with its cure: a rename, where an architecture names a role."""
    if name in _ROLES and "Outputs" in known:
        roles = ["input", name] if name == "weight" and "input" not in known else [name]
        entries = ", ".join(f"{{name: {role}, source: {_ROLES[role]}}}" for role in roles)
        cure = f"; say which tensors it is: renames: {{einsums: [{{name: default, tensor_accesses: [{entries}]}}]}}"
    else:
        cure = did_you_mean(name, known)
    return SpecError(f"unknown name '{name}'{cure}")


def repeated(names: Iterable[str]) -> str | None:
    """The first name that comes a second time.

    >>> repeated(["A", "B", "A", "B"])
    'A'
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def circle(open_names: Sequence[str], name: str, verb: str = "uses") -> str:
    """How a name that is being worked out leads back to itself.

    >>> circle(["z", "a", "b"], "a")
    'a uses b uses a'
    """
    return f" {verb} ".join([*open_names[open_names.index(name) :], name])
