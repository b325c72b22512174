"""Front doors that open late: what a package offers is loaded when it is first used."""

from __future__ import annotations

from collections.abc import Callable


def lazy(package: str, **homes: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package: the names that each of its modules has, in one text.

    `outer=inner` offers a module's `inner` as `outer`: a name that a module has, too, would sometimes be the module.
    """
    where: dict[str, tuple[str, str]] = {}
    for module, names in homes.items():
        for name in names.split():
            outer, _, inner = name.partition("=")
            where[outer] = f"{package}.{module}", inner or outer

    def load(name: str) -> object:
        if name not in where:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        import importlib
        import sys

        module, inner = where[name]
        value = getattr(importlib.import_module(module), inner)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(where)
