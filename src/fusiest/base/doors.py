"""Front doors that open late: what a package offers is loaded when it is first used."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
from collections.abc import Callable


def lazy(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, whose `__init__` says `if TYPE_CHECKING` what it takes from which module.

    A name that a module has, too, is taken under another one (`as`): it would sometimes be the module.
    """

    def load(name: str) -> object:
        if name.startswith("__") or name not in _homes(package):
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        module, inner = _homes(package)[name]
        value = getattr(importlib.import_module(module), inner)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: list(sys.modules[package].__all__)


@functools.cache
def _homes(package: str) -> dict[str, tuple[str, str]]:
    """By name, its module, and what it is called there."""
    blocks = ast.parse(inspect.getsource(sys.modules[package])).body
    typed = [node for node in blocks if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    lines = [line for block in typed for line in block.body if isinstance(line, ast.ImportFrom)]
    return {name.asname or name.name: (str(line.module), name.name) for line in lines for name in line.names}
