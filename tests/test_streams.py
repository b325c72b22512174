"""The command line as a process: terminals, pipes, full disks, what it loads, how it ends."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fusiest
from tests.command_line import MATMULS, TWO, Capture, run
from tests.malformed.good import GOOD


def shell(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(fusiest.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", "from fusiest.cli import main; main()", *arguments],
        env={**os.environ, "PYTHONPATH": source, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_an_ascii_terminal(tmp_path: Path) -> None:
    tiny = tmp_path / "tiny.yaml"
    tiny.write_text(GOOD.replace("energy: 2,", "energy: 2e-9,").replace("energy: 1,", "energy: 0,"))
    result = shell("evaluate", *[str(tiny)] * 3, PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (0, "")
    assert " uJ" in result.stdout
    shown = shell("show", *MATMULS, PYTHONIOENCODING="ascii", NO_COLOR="1")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "|- for n0" in shown.stdout
    tiny.write_text("wörkload: 3")
    wrong = shell("show", str(tiny), PYTHONIOENCODING="ascii")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)


def test_pipes_get_plain_text() -> None:
    piped = shell(*TWO, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert piped.returncode == 0
    assert piped.stdout.isascii()
    assert "\n|- " in piped.stdout
    assert "\x1b" not in piped.stdout + piped.stderr
    lines = piped.stderr.splitlines()
    assert len(lines) <= 6 + float(lines[-1].split()[0]) / 10, "a line per phase, and one in 10 s"
    quiet = shell(*TWO, "--quiet")
    assert (quiet.returncode, quiet.stderr) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals here")
@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal(no_color: str) -> None:
    """Progress is one line that is erased at the end; colours unless NO_COLOR; nothing is wider than the terminal."""
    import pty

    ours, theirs = pty.openpty()
    source = str(Path(fusiest.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "TERM": "xterm-256color", "COLUMNS": "50", "NO_COLOR": no_color}
    with subprocess.Popen(
        [sys.executable, "-c", "from fusiest.cli import main; main()", *TWO],
        env=environment, stdin=theirs, stdout=theirs, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        written = ""
        # At the end of the other side, Linux says EIO where others say end of file.
        with contextlib.suppress(OSError):
            while block := os.read(ours, 65536):
                written += block.decode()
    os.close(ours)
    assert process.returncode == 0
    progress, _, result = written.rpartition("\r\x1b[K")
    assert "\n" not in progress
    assert "exploring" in progress
    assert "proven optimal" in result
    assert ("\x1b[" in result) == (not no_color)
    plain = re.sub(r"\x1b\[[\d;]*m", "", result)
    assert max(map(len, plain.splitlines())) <= 50


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [("list", set()), ("show simple", set()), (" ".join(["evaluate", *MATMULS]), {"rich"})],
)
def test_commands_import_what_they_need(arguments: str, heavy: set[str]) -> None:
    """Time to start counts: the search, charts and rich are loaded by those who use them."""
    code = (
        f"import sys; sys.argv = ['fusiest', *{arguments.split()!r}]\nfrom fusiest.cli import main\nmain()\n"
        "print(*({'numba', 'numpy', 'plotly', 'matplotlib', 'rich'} & set(sys.modules)), file=sys.stderr)"
    )
    source = str(Path(fusiest.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stderr.split()) == heavy


def test_help_loads_no_specs() -> None:
    """All commands are known, but neither the spec language nor what it needs is loaded: that is half of the time."""
    code = "import sys, fusiest.cli.app; print(*({'fusiest.spec', 'fusiest.components', 'jinja2', 'yaml', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


def test_escape_codes_in_a_file_do_not_reach_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "odd.yaml"
    compute = "- !Compute {name: MAC, component_class: Dummy}"
    fanout = r'- !Container {name: A, spatial: [{name: "X\e[31m", fanout: 2}]}'
    memory = "- !Memory {name: DRAM, component_class: Dummy, size: inf}"
    file.write_text(f"arch: {{nodes: [\n{memory[2:]}, {fanout[2:]}, {compute[2:]}]}}")
    status, out, _ = run(capsys, "show", str(file))
    assert (status, "X?[31m" in out, "\x1b" in out) == (0, True, False)
    file.write_text(r'"\e[31m": 1')
    status, _, err = run(capsys, "show", str(file))
    assert (status, "?[31m" in err, "\x1b" in err) == (2, True, False)


FULL = Path("/dev/full")
has_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")


def into(redirection: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line in a shell, with its output redirected."""
    source = str(Path(fusiest.__file__).parents[1])
    code = f'"$0" -c "from fusiest.cli import main; main()" "$@" {redirection}'
    return subprocess.run(
        ["sh", "-c", code, sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": source, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@has_full
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["list"], ["--help"], ["evaluate", *MATMULS]])
def test_a_full_disk(arguments: list[str], unbuffered: str) -> None:
    result = into("> /dev/full", *arguments, PYTHONUNBUFFERED=unbuffered)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.endswith(": No space left on device\n")


@has_full
@pytest.mark.parametrize("redirection", ["2> /dev/full", "2>&-"])
def test_progress_that_cannot_be_shown(redirection: str) -> None:
    result = into(redirection, *TWO)
    assert result.returncode == 0
    assert "proven optimal" in result.stdout
    assert into(redirection, "show", "no_such_spec").returncode == 2


def test_a_closed_pipe_does_not_lose_the_files(tmp_path: Path) -> None:
    into("| true", *TWO, "--quiet", "--json", str(tmp_path / "r.json"))
    assert (tmp_path / "r.json").exists()


def test_the_program_ends_with_its_status_and_what_was_registered() -> None:
    code = "import atexit, sys; atexit.register(print, 'last'); sys.argv = ['fusiest', *{}]\nfrom fusiest.__main__ import main\nmain()"
    for arguments, status in ((["--version"], 0), (["show", "nothing"], 2)):
        found = subprocess.run(
            [sys.executable, "-c", code.format(arguments)], capture_output=True, text=True, check=False
        )
        assert found.returncode == status
        assert found.stdout.endswith("last\n")
