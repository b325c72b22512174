"""What the house is like to read, in figures: `python -m bench.house`.

Files in a folder, names, docstrings, lines, documentation. No figure says that the code is good; each says where to look.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fusiest"
ELLIPTIC = re.compile(r"^(Of |The same|As |With |How to go)")
"""How a docstring begins that cannot be read alone."""
GENERATED = {"components.md", "spec-reference.md", "cli-reference.md"}


def main() -> None:
    files = sorted(SOURCE.rglob("*.py"))
    folders = Counter(path.parent for path in files if path.name != "__init__.py")
    folder, most = folders.most_common(1)[0]
    names = Counter(path.stem for path in files if not path.stem.startswith("__"))
    texts = [(path, text) for path in files for text in docstrings(path)]
    elliptic = [(path, text) for path, text in texts if ELLIPTIC.match(text)]
    rows = [
        ("most Python files in one folder", f"{most} ({folder.relative_to(SOURCE)})"),
        ("module names that occur twice", str(sum(count > 1 for count in names.values()))),
        ('files named by "A constraint"', str(files_named("A constraint"))),
        ('files named by "An objective"', str(files_named("An objective"))),
        ("docstrings that cannot be read alone", f"{len(elliptic)} of {len(texts)}"),
        ("source lines", str(sum(path.read_text("utf-8").count("\n") for path in files))),
        ("longest module", max((path.read_text("utf-8").count("\n"), path.name) for path in files).__str__()),
        ("README lines", str(lines("README.md"))),
        ("CHANGELOG bytes", str((ROOT / "CHANGELOG.md").stat().st_size)),
        ("hand-written Markdown, bytes", str(sum(path.stat().st_size for path in handwritten()))),
    ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:{width}}  {value}")


def docstrings(path: Path) -> Iterator[str]:
    """Docstrings of a module, its classes and functions, and the texts below its fields."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text
        if isinstance(node, ast.Module | ast.ClassDef):
            for before, after in zip(node.body, node.body[1:], strict=False):
                text = (
                    after.value
                    if isinstance(after, ast.Expr) and isinstance(before, ast.Assign | ast.AnnAssign)
                    else None
                )
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    yield text.value


def files_named(title: str) -> int:
    """How many files a section of docs/extending.md names."""
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return len(set(re.findall(r"[\w./]+\.(?:py|md|js|json|yaml)\b", section[1]))) if section else 0


def handwritten() -> Iterator[Path]:
    for path in ROOT.rglob("*.md"):
        inside = path.relative_to(ROOT).parts
        if (
            not any(part.startswith(".") or part in ("build", "site", "node_modules") for part in inside)
            and path.name not in GENERATED
        ):
            yield path


def lines(name: str) -> int:
    return (ROOT / name).read_text(encoding="utf-8").count("\n")


if __name__ == "__main__":
    main()
