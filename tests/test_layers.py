"""Packages depend on each other in one direction, as docs/house.md says."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import fusiest

SOURCE = Path(fusiest.__file__).parent
PROJECT = SOURCE.parents[1]
HOUSE = PROJECT / "docs" / "house.md"
ORDER = [
    "base.errors", "base.doors", "base.frozen", "base.frames", "base.files", "base.jsontext", "base.interrupt", "base.collector",
    "base.workers", "base.units", "base.compiled", "looptree", "components", "base.objective", "spec", "networks", "model", "timeloop",
    "code", "show", "pmapping", "joining", "mapper", "experiments.baselines", "comparison", "report", "sweeps", "experiments.reproduce",
    "terminal", "cli", "__main__",
]  # fmt: skip
SEARCH = {"pmapping", "joining", "mapper", "experiments.baselines"}
SHELVES = ("base", "experiments")
"""Folders whose modules and packages have places of their own in the order."""


def place(parts: Sequence[str]) -> str:
    """The package that a module belongs to, as `ORDER` names it."""
    return ".".join(parts[: 2 if parts[0] in SHELVES else 1])


def package(path: Path) -> str:
    return place(path.relative_to(SOURCE).with_suffix("").parts)


class Import(NamedTuple):
    """`from module import names`: when the module is imported ("early"), inside functions ("late"), or seen by type checkers only."""

    module: str
    names: tuple[str, ...]
    when: str


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def all_imports(path: Path) -> tuple[Import, ...]:
    """Imports from fusiest, wherever they stand."""
    tree = parsed(path)
    when = {id(node): "early" for node in tree.body}
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            when |= {id(inner): "types" for inner in node.body}
    found = []
    for node in ast.walk(tree):
        at = when.get(id(node), "late")
        if isinstance(node, ast.ImportFrom):
            found.append(Import(node.module or "", tuple(alias.name for alias in node.names), at))
        elif isinstance(node, ast.Import):
            found += [Import(alias.name, (), at) for alias in node.names]
    return tuple(one for one in found if one.module.split(".")[0] == "fusiest")


def imports(path: Path, when: str = "early") -> Iterator[str]:
    """Packages of fusiest that a module imports."""
    for one in all_imports(path):
        if one.when == when:
            inner = one.module.split(".")[1:]
            if len(inner) > 1 or (inner and inner[0] not in SHELVES):
                yield place(inner)
            else:
                yield from (name for name in (place([*inner, name]) for name in one.names) if name in ORDER)


def type_names(path: Path) -> Iterator[str]:
    """Classes, also inside others and inside functions, and aliases of types that a module defines; `_Name` is `Name`."""
    tree = parsed(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name.removeprefix("_")
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            yield ast.unparse(node.target).removeprefix("_")
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp | ast.Attribute):
            names = (name for name in map(ast.unparse, node.targets) if re.fullmatch(r"_?[A-Z]\w*[a-z]\w*", name))
            yield from (name.removeprefix("_") for name in names)


MODULES = [
    path
    for path in sorted(SOURCE.rglob("*.py"))
    if path.name != "__init__.py" or path.parent not in (SOURCE, *(SOURCE / s for s in SHELVES))
]
JUDGES = [path for path in sorted((PROJECT / "tests" / "reference").glob("*.py")) if not path.name.startswith("test_")]
TESTS = [path for folder in ("tests", "bench", "mutants", "fuzz") for path in sorted((PROJECT / folder).rglob("*.py"))]


def test_every_package_has_its_place() -> None:
    assert {package(path) for path in MODULES} == set(ORDER)


@pytest.mark.parametrize("name", ORDER)
def test_nothing_imports_what_is_to_its_right(name: str) -> None:
    right = ORDER[ORDER.index(name) + 1 :]
    found = [
        (path.name, other) for path in MODULES if package(path) == name for other in imports(path) if other in right
    ]
    assert found == []


LATE = {
    ("components", "spec"),  # classes in YAML
    ("spec", "networks"),  # load takes networks
    ("spec", "show"),  # print(spec)
    ("model", "report"),  # evaluations, results and specs in notebooks
    ("mapper", "report"),  # result.report()
}
"""What is imported to the right all the same, inside functions, so that objects can show and load themselves."""


def test_late_imports_to_the_right_are_few() -> None:
    found = {
        (package(path), other)
        for path in MODULES
        for other in imports(path, "late")
        if other in ORDER and ORDER.index(other) > ORDER.index(package(path))
    }
    assert found == LATE


def test_the_references_share_no_code_with_the_search() -> None:
    used = {other for path in JUDGES for when in ("early", "late", "types") for other in imports(path, when)}
    assert used & SEARCH == set()
    assert "model" in used


def test_the_documented_order_is_this_one() -> None:
    """The table of packages in the documentation, from the top down."""
    cells = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", HOUSE.read_text(encoding="utf-8"), re.M)
    named = [name for cell in cells for name in re.findall(r"\w+", cell) if name not in SHELVES]
    assert [name for name in ORDER if name in named] == named
    assert {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()} - set(SHELVES) <= set(named)


def test_no_type_name_is_defined_twice_in_a_package() -> None:
    """A reader who meets a name has one place to look: behind the front door that it came through."""
    homes: dict[tuple[str, str], list[str]] = {}
    for path in (*MODULES, *TESTS):
        for name in type_names(path):
            owner = package(path) if path in MODULES else "tests"
            homes.setdefault((owner, name), []).append(str(path.relative_to(PROJECT)))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}
    assert len(homes) > 700


DOORS = ("cli", "code", "comparison", "components", "experiments.baselines", "experiments.reproduce", "joining", "looptree", "mapper",
         "model", "networks", "pmapping", "report", "spec", "sweeps", "terminal", "timeloop")  # fmt: skip
"""Packages whose `__init__` lists all that others may use."""


def test_every_package_has_a_door() -> None:
    inner = {path.parent.name for path in SOURCE.glob("*/__init__.py")} - set(SHELVES)
    outer = {f"experiments.{path.parent.name}" for path in SOURCE.glob("experiments/*/__init__.py")}
    assert inner | outer == set(DOORS)


def test_only_commands_run_experiments() -> None:
    """The rest of the program would do without them."""
    users = {
        package(path) for path in MODULES for when in ("early", "late", "types") for other in imports(path, when)
        if other.startswith("experiments.") and not package(path).startswith("experiments.")
    }  # fmt: skip
    assert users == {"cli"}


@pytest.mark.parametrize("name", DOORS)
def test_packages_are_entered_by_their_front_door(name: str) -> None:
    """Nobody outside names a module behind it, or takes what it does not list: not in functions and not for types, either."""
    door = importlib.import_module(f"fusiest.{name}")
    others = [*(path for path in MODULES if package(path) != name), *JUDGES]
    outside = [(path, one) for path in others for one in all_imports(path)]
    past = [(path.name, one.module) for path, one in outside if one.module.startswith(f"fusiest.{name}.")]
    taken = {found for _, one in outside if one.module == f"fusiest.{name}" for found in one.names}
    assert past == []
    assert taken - set(door.__all__) == set()


@pytest.mark.parametrize("name", DOORS)
def test_front_doors_open(name: str) -> None:
    """All that they list is there, and is what it says, not the module of the same name; nothing is listed twice."""
    door = importlib.import_module(f"fusiest.{name}")
    assert len(set(door.__all__)) == len(door.__all__) > 0
    modules = {found for found in door.__all__ if isinstance(getattr(door, found), ModuleType)}
    assert modules <= {"architecture", "nodes"}
    assert set(door.__all__) <= set(dir(door))
    assert door.__doc__
    with pytest.raises(AttributeError):
        _ = door.no_such_name


# --- rooms ------------------------------------------------------------------------------------------------------------------

MOST_FILES, MOST_NAMED_TWICE = 15, 12
FOLDERS = sorted({path.parent for path in SOURCE.rglob("*.py")})


def test_folders_are_small() -> None:
    """A reader who lists a folder sees all of it, and no prefix stands in for a folder."""
    for folder in FOLDERS:
        names = [path.stem for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(names) <= MOST_FILES, folder
        prefixes = Counter(name.split("_")[0] for name in names if "_" in name.strip("_"))
        assert {prefix for prefix, count in prefixes.items() if count > 2} == set(), folder


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_folder_says_how_its_files_follow_each_other(folder: Path) -> None:
    """In the docstring of its `__init__`, which names every module of a room."""
    text = (folder / "__init__.py").read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(text)) or ""
    assert said
    if SOURCE not in (folder, folder.parent) and folder.parent.name not in SHELVES:
        modules = [path.stem for path in folder.glob("*.py") if path.name != "__init__.py"]
        rooms = [path.name for path in folder.iterdir() if (path / "__init__.py").exists()]
        assert [name for name in (*modules, *rooms) if f"`{name}`" not in said] == []


def test_few_modules_have_the_same_name() -> None:
    names = Counter(path.stem for path in SOURCE.rglob("*.py") if not path.stem.startswith("__"))
    assert len([name for name, count in names.items() if count > 1]) <= MOST_NAMED_TWICE


# --- sizes ------------------------------------------------------------------------------------------------------------------

MOST_LINES, MOST_FUNCTION_LINES, MOST_PARAMETERS = 600, 60, 7
OPTIONS = re.compile(r"fusiest\.(cli\.commands\.\w+\.\w+_command|mapper\.mapper\.map)$")
"""Declarations of options, one parameter each: commands, and `fusiest.map`."""


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef))


def parameters(function: ast.FunctionDef) -> int:
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return sum(one.arg not in ("self", "cls") for one in given)


def declares_options(path: Path, function: ast.FunctionDef) -> bool:
    module = ".".join(path.with_suffix("").parts)
    return OPTIONS.search(f"{module}.{function.name}") is not None


def test_modules_are_short() -> None:
    lines = {str(path.relative_to(PROJECT)): len(path.read_text("utf-8").splitlines()) for path in (*MODULES, *TESTS)}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
    assert len(lines) > 500


def test_functions_are_short_and_take_few_parameters() -> None:
    found = [
        f"{path.relative_to(PROJECT)}: {function.name}"
        for path in (*MODULES, *JUDGES)
        for function in functions(path)
        if not declares_options(path, function)
        and (
            (function.end_lineno or 0) - function.lineno >= MOST_FUNCTION_LINES
            or parameters(function) > MOST_PARAMETERS
        )
    ]
    assert found == []
