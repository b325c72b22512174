"""Packages depend on each other in one direction, as docs/extending.md says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import fusiest

SOURCE = Path(fusiest.__file__).parent
EXTENDING = SOURCE.parents[1] / "docs" / "extending.md"
ORDER = [
    "errors", "frozen", "frames", "files", "interrupt", "collector", "workers", "units", "compiled", "looptree", "components", "objective",
    "spec", "networks", "model", "timeloop", "show", "pmapping", "joining", "mapper", "baselines", "comparison", "report", "sweeps",
    "reproduce", "terminal", "cli", "__main__",
]  # fmt: skip
SEARCH = {"pmapping", "joining", "mapper", "baselines"}


def package(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Packages of fusiest that a module imports when it is itself imported."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fusiest."):
            yield str(node.module).split(".")[1]


def type_names(path: Path) -> Iterator[str]:
    """Classes and aliases of types that a module defines."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            yield ast.unparse(node.target)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp | ast.Attribute):
            yield from (name for name in map(ast.unparse, node.targets) if re.fullmatch(r"_?[A-Z]\w*[a-z]\w*", name))


MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if path.name != "__init__.py" or path.parent != SOURCE]


def test_every_package_has_its_place() -> None:
    assert {package(path) for path in MODULES} == {*ORDER, "reference"}


@pytest.mark.parametrize("name", ORDER)
def test_nothing_imports_what_is_to_its_right(name: str) -> None:
    right = ORDER[ORDER.index(name) + 1 :]
    found = [
        (path.name, other) for path in MODULES if package(path) == name for other in imports(path) if other in right
    ]
    assert found == []


def test_the_references_share_no_code_with_the_search() -> None:
    own = [path for path in MODULES if package(path) == "reference"]
    assert {other for path in own for other in imports(path)} & SEARCH == set()


def test_the_documented_order_is_this_one() -> None:
    """The table of packages in the documentation, `show` and small modules aside, from left to right."""
    named = re.findall(r"^\| `(\w+)` \|", EXTENDING.read_text(encoding="utf-8"), re.M)
    assert [name for name in ORDER if name in named] == [name for name in named if name != "reference"]
    assert {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()} <= set(named)


def test_no_type_name_is_defined_twice() -> None:
    """A reader who meets a name has one place to look."""
    homes: dict[str, list[str]] = {}
    for path in MODULES:
        for name in type_names(path):
            homes.setdefault(name, []).append(str(path.relative_to(SOURCE)))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}
    assert len(homes) > 300


DOORS = ("pmapping", "joining", "networks", "components", "spec")
"""Packages whose `__init__` exports all that others may use."""


@pytest.mark.parametrize("name", DOORS)
def test_packages_are_entered_by_their_front_door(name: str) -> None:
    outside = [path for path in MODULES if package(path) != name]
    past = [
        (path.name, node.module)
        for path in outside
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"fusiest.{name}.")
    ]
    assert past == []
