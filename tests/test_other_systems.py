"""Windows and macOS lack what Linux has; there, `map` must work all the same, with as many processes as it is given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fusiest

ELSEWHERE = """
import multiprocessing.context, os, signal, sys

sys.modules |= dict.fromkeys(("resource", "fcntl", "termios", "pwd", "grp"))  # importing them is an ImportError
contexts = multiprocessing.context
spawn = contexts._concrete_contexts["spawn"]
contexts._concrete_contexts.clear()
contexts._concrete_contexts["spawn"] = contexts._default_context._default_context = spawn
multiprocessing.get_all_start_methods = lambda: ["spawn"]
for owner, names in ((os, ("fork", "sched_getaffinity", "sysconf", "getuid")), (signal, ("SIGALRM", "setitimer", "siginterrupt"))):
    for name in names:
        delattr(owner, name)
if __name__ == "__main__":
    import fusiest

    spec = fusiest.load("simple", "matmuls", M=8, KN=8)
    for options in ({"jobs": 1}, {"jobs": 2, "time_limit": 60}):
        print(fusiest.map(spec, "edp", **options).best().edp)
    import fusiest.cli, fusiest.report, fusiest.sweeps
"""


def test_map_needs_nothing_that_only_linux_has(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.py"
    file.write_text(ELSEWHERE, encoding="utf-8")
    ran = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    expected = (
        fusiest.map(
            fusiest.load("simple", "matmuls", M=8, KN=8),
            "edp",
        )
        .best()
        .edp
    )
    assert list(map(float, ran.stdout.split())) == [expected] * 2
