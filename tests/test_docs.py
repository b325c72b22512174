"""The documentation is true: its reference is up to date, its files load, its code and commands run.

Blocks of a document run in order, in one temporary directory and one Python namespace. A YAML block with the line
`<!-- file: NAME -->` above it is written there first; a block with `<!-- not run: reason -->` above it is left alone. A
block with `<!-- output -->` above it is what the last command or Python block printed, in parts: see `matches`. Files
of `examples` are there from the start.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fusiest
from fusiest.experiments.baselines.baseline_options import BaselineOptions
from fusiest.experiments.baselines.running import run_baseline
from fusiest.mapper.options import Options
from tests.command_line import run

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.suffixes == [".md"])]
FENCE = re.compile(r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>[\w{}]*)\n(?P<text>.*?)^```$", re.M | re.S)
GENERATED = {"components.md", "spec-reference.md", "cli-reference.md"}
WRITTEN = [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(page for page in DOCUMENTS if page.name not in GENERATED)]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(#[^)\s]*)?\)")


@dataclass(frozen=True)
class DocBlock:
    language: str
    text: str
    mark: str
    line: int


def blocks(document: Path) -> Iterator[DocBlock]:
    text = document.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("text")) + 1
        yield DocBlock(match["language"], match["text"], match["mark"] or "", line)


def commands(text: str) -> list[list[str]]:
    """The `$ fusiest …` lines of a console block, without the program's name."""
    joined = text.replace("\\\n", " ")
    return [shlex.split(line[2:])[1:] for line in joined.splitlines() if line.startswith("$ fusiest ")]


def matches(shown: str, printed: str) -> bool:
    """Whether printed lines are as shown. A line `...` stands for any lines, also none, and `…` for anything in a line.

    >>> matches("a\\n...\\nd …", "a\\nb\\nc\\nd 7\\n"), matches("a\\nc", "a\\nb\\nc\\n"), matches("...\\nb\\n...", "a\\nb\\nc")
    (True, False, True)
    """
    pattern = ""
    for line in shown.splitlines():
        anything = line.strip() == "..."
        pattern += r"(?:.*\n)*?" if anything else re.escape(line.rstrip()).replace("…", ".*") + r" *\n"
    return re.search(r"(?:\A|\n)" + pattern, printed.rstrip("\n") + "\n") is not None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_run(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__docs__"}
    out = ""
    for block in blocks(document):
        where = f"{document.name}:{block.line}"
        if block.mark.startswith("not run: "):
            continue
        if block.mark.startswith("file: "):
            Path(block.mark.removeprefix("file: ").strip()).write_text(block.text, encoding="utf-8")
        elif block.mark == "output":
            assert matches(block.text, out), f"{where}: printed was\n{out}"
        elif block.language == "python":
            capsys.readouterr()
            exec(compile(block.text, where, "exec"), names)
            out = capsys.readouterr().out
        elif block.language == "console":
            for arguments in commands(block.text):
                status, out, err = run(capsys, *arguments)
                assert status == 0, f"{where}: fusiest {' '.join(arguments)}: {err}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document: Path) -> None:
    targets = [match[1] for match in LINK.finditer(document.read_text(encoding="utf-8"))]
    assert [t for t in targets if not (document.parent / t).exists()] == []


@pytest.mark.parametrize("document", WRITTEN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_prose_is_written_in_short_lines(document: Path) -> None:
    """A sentence a line, and no line over 120 columns but in tables, links, pictures, formulas and code."""
    prose = FENCE.sub("", document.read_text(encoding="utf-8"))
    wide = [
        line
        for line in prose.splitlines()
        if len(line) > 120 and not line.startswith(("|", "<!--", "![", "[![", " " * 4))
    ]
    assert wide == []


def test_readers_find_the_way() -> None:
    """The README is short, and the CHANGELOG is no history of commits."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
    assert (ROOT / "CHANGELOG.md").stat().st_size <= 12_000


def _generator(name: str = "generate_reference") -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_field_has_a_description() -> None:
    assert _generator().missing() == []


@pytest.mark.parametrize("name", ["generate_reference", "generate_cli"])
def test_references_are_up_to_date(name: str) -> None:
    generator = _generator(name)
    assert generator.FILE.read_text(encoding="utf-8") == generator.reference(), f"run python docs/{name}.py"


def test_everything_that_the_package_offers_is_in_its_reference() -> None:
    page = (ROOT / "docs" / "api-reference.md").read_text(encoding="utf-8")
    named = re.findall(r"^\.\. auto\w+:: fusiest\.(\w+)", page, re.M)
    assert sorted(named) == sorted(fusiest.__all__)


def test_console_commands_are_found() -> None:
    text = "$ fusiest map a b \\\n    --quiet\nresult\n$ make demo\n$ fusiest list\n"
    assert commands(text) == [["map", "a", "b", "--quiet"], ["list"]]


def test_every_field_of_a_result_is_documented() -> None:
    schemas = [json.loads(path.read_text(encoding="utf-8")) for path in (ROOT / "docs" / "schemas").iterdir()]
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=1, M=4, KN=4)
    baseline = run_baseline(spec, Options(("edp",)), BaselineOptions("set", budget=10)).to_json()
    evaluation = fusiest.map(spec, jobs=1).best().evaluation.to_json()
    places: list[Any] = [baseline, baseline["mappings"], baseline["stats"], evaluation, evaluation["einsums"]]
    places[1], places[4] = places[1][0], next(iter(places[4].values()))
    described = {name for name, field in _fields(schemas) if "description" in field}
    assert [key for place in places for key in place if key not in described] == []


def _fields(schemas: list[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and schemas of all fields, wherever they are."""
    waiting = list(schemas)
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            waiting += node.values()
            yield from node.get("properties", {}).items()


def test_component_classes_are_up_to_date() -> None:
    generator = _generator("generate_components")
    assert generator.FILE.read_text(encoding="utf-8") == generator.page(), "run python docs/generate_components.py"


def test_contributors_find_every_place_of_a_constraint() -> None:
    """CONTRIBUTING leads to the list; and every file that it names is there."""
    assert "docs/extending.md#a-constraint" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert "1. **Say it**" in (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    source = Path(fusiest.__file__).parent
    for page in (
        ROOT / "CONTRIBUTING.md",
        ROOT / "docs" / "extending.md",
        ROOT / "docs" / "house.md",
        *sorted((ROOT / "docs" / "decisions").iterdir()),
    ):
        for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", page.read_text(encoding="utf-8")):
            assert (source / name).exists() or (ROOT / name).exists(), f"{page.name}: {name}"


def test_names_of_the_house_exist() -> None:
    """Of `a.b` in docs/house.md, b is defined in a package or module a; of a name alone, somewhere in the house."""
    source = Path(fusiest.__file__).parent
    defined: dict[str, set[str]] = {}
    for file in source.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        names = {
            file.stem,
            *re.findall(r"^ *(?:def|class) (\w+)", text, re.M),
            *re.findall(r"^ *(\w+)(?:: .*)? =", text, re.M),
        }
        for owner in (file.stem, *file.parent.relative_to(source.parent).parts):
            defined.setdefault(owner, set()).update(names)
    everywhere = set(defined).union(*defined.values())
    page = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
    quoted = re.findall(r"`([a-z_]+(?:\.[A-Za-z_]+)*)`", page)
    assert len(quoted) > 50
    paths = re.findall(r"`(\w+(?:/\w+)+(?:\.py)?)`", page)
    assert len(paths) > 10
    assert [path for path in paths if not (source / path).exists() and not (ROOT / path).exists()] == []
    for name in quoted:
        parts = name.removesuffix(".py").split(".")
        assert parts[-1] in (defined.get(parts[0], set()) if len(parts) > 1 else everywhere), name
    for file_name in re.findall(r"`([a-z_]+\.py)`", page):
        assert list(source.rglob(file_name)), file_name
