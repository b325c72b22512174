"""`make mutants`: apply each edit to a copy of the source and run its tests, of which one must fail.

`python -m mutants TEXT…` runs those whose file or edit holds one of these texts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from mutants.cases import MUTANTS, Mutant

ROOT = Path(__file__).parents[1]
FAILED = 1
"""How pytest ends if a test failed; any other end is an error of ours."""


def survives(mutant: Mutant, source: Path) -> str:
    """Run the tests of a mutant in a copy of the source. What is wrong, if they do not notice it."""
    file = source / "fusiest" / mutant.file
    text = file.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        return f"what it replaces stands there {text.count(mutant.old)} times"
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        done = run_tests(mutant.tests, source)
    finally:
        file.write_text(text, encoding="utf-8")
    if done.returncode == FAILED:
        return ""
    return "it survives" if done.returncode == 0 else f"pytest ends with {done.returncode}: {done.stdout[-500:]}"


def run_tests(tests: Iterable[str], source: Path) -> subprocess.CompletedProcess[str]:
    """Run tests on a copy of the source."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def main() -> None:
    """Try all, or those that the arguments name; end with how many survive."""
    parser = argparse.ArgumentParser(
        prog="python -m mutants", description="Apply wrong edits, one at a time; the tests must notice each."
    )
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="only those whose file or edit holds one of these")
    texts = parser.parse_args().texts
    chosen = [m for m in MUTANTS if not texts or any(text in str(m) for text in texts)]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        source = Path(shutil.copytree(ROOT / "src", Path(folder) / "src"))
        whole = run_tests(dict.fromkeys(test for mutant in chosen for test in mutant.tests), source)
        if whole.returncode:
            sys.exit(f"without any edit, tests fail already:\n{whole.stdout[-2000:]}")
        for number, mutant in enumerate(chosen, start=1):
            problem = survives(mutant, source)
            wrong += bool(problem)
            print(f"{number:2} of {len(chosen)} {mutant.file}: {problem or 'killed'}", flush=True)
            if problem:
                print(f"   {mutant.old.strip()}\n   {mutant.new.strip()}", flush=True)
    sys.exit(f"{wrong} of {len(chosen)} mutants survive" if wrong else 0)


if __name__ == "__main__":
    main()
