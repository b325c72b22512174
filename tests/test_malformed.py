"""Every mistake ends in one line: where it is, what is wrong, what was meant. Never a traceback, never a guess.

A case replaces one piece of a good spec. The line that the error must name is marked `#!` in the replacement.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import run
from tests.malformed.architectures import ARCHITECTURE, SYNTAX
from tests.malformed.good import BUFFER_KEEP, DIMENSION, FIRST, GOOD, HOLD_B, MalformedCase
from tests.malformed.workloads import MAPPING, WORKLOAD


def check(text: str, case: MalformedCase, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(text)
    status, out, err = run(capsys, "evaluate", str(path), str(path), str(path))
    assert err.count("\n") == 1, err
    assert err.endswith("\n")
    assert out == ""
    assert status == case.status
    line = err.removeprefix(f"{path}:").split(":")[0]
    assert err.startswith(f"{path}:")
    assert line.isdigit(), err
    marked = [str(i) for i, content in enumerate(text.splitlines(), 1) if "#!" in content]
    assert not marked or [line] == marked, err
    for word in case.words:
        assert word in err


def test_the_good_spec_is_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    assert run(capsys, "evaluate", str(path), str(path), str(path))[::2] == (0, "")


@pytest.mark.parametrize("case", [*SYNTAX, *ARCHITECTURE, *WORKLOAD, *MAPPING], ids=lambda case: case.name)
def test_one_line(case: MalformedCase, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(GOOD.replace(case.old, case.new, 1), case, tmp_path / "spec.yaml", capsys)


def test_a_workload_of_zigzag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "layers.yaml"
    path.write_text("- id: 0\n  operator_type: Conv\n  loop_dims: [K, C]\n")
    status, _, err = run(capsys, "show", str(path))
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith(f"{path}:1: the file must be a table of sections")
    assert "looks like a file of ZigZag" in err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (DIMENSION, "    - {name: X, fanout: 4, power_gateable: LONG}\n"),
        (BUFFER_KEEP, "    tensors: {LONG: output}\n"),
        (HOLD_B, "  - !Storage {tensors: [LONG], component: Buffer}\n"),
        (HOLD_B, "  - !Storage {tensors: [B], component: LONG}\n"),
        ("variables:", "LONG:"),
        (FIRST, "  - LONG\n"),
    ],
)
def test_long_values_are_not_shown_whole(
    old: str, new: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(GOOD.replace(old, new.replace("LONG", "x" * 20_000), 1))
    status, _, err = run(capsys, "evaluate", str(path), str(path), str(path))
    assert (status, err.count("\n")) == (2, 1)
    assert len(err) < 1_200


OTHER_FILES: list[tuple[str, bytes, str]] = [
    ("empty", b"", ":1: the file is empty"),
    ("only a comment", b"# nothing\n", ":1: the file is empty"),
    ("junk", bytes(range(256)), "not UTF-8"),
    ("junk that is UTF-8", b"\x00\x01\x02", ":1: the file holds the control character"),
    ("latin-1", "arch:\n  # Gr\xf6\xdfe\n".encode("latin-1"), ":2: the file is not UTF-8"),
    ("a list", b"- 1\n- 2\n", ":1: the file must be a table of sections"),
    ("a word", b"hello\n", ":1: the file must be a table of sections"),
    ("billion laughs", b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(98, 110)), "values, repetitions by aliases included"),
    ("deep", b"arch: " + b"[" * 5000, "deep"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "words"), [row[1:] for row in OTHER_FILES], ids=[row[0] for row in OTHER_FILES])
def test_strange_files(content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(content)
    status, _, err = run(capsys, "show", str(path))
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith(f"{path}:")
    assert words in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.yaml"], "missing.yaml: no such file"),
        (["simple.yaml"], "no bundled spec 'simple.yaml'; did you mean 'simple'?"),
        (["folder"], "folder: this is a directory"),
        (["folder/"], "this is a directory"),
        (["smple"], "no bundled spec 'smple'; did you mean 'simple'?"),
        ([""], "no file"),
        (["x" * 5000], "no bundled spec"),
        (["a\0b.yaml"], "not the name of a file"),
        (["simple", "-D", "GlobalBufferSize"], "-D GlobalBufferSize: expected NAME=VALUE"),
        (["simple", "-D", "=3"], "expected NAME=VALUE"),
        (["simple", "-D", "GlobalBufferSize=[1]"], "must be a number, true, false or text"),
        (["simple", "-D", "GlobalBufferSize=-1"], ": size must not be negative, but is -1"),
        (["good.yaml", "simple"], "the section 'arch:' is also in good.yaml:7"),
        (["good.yaml", "more.yaml"], "more.yaml:1: variable word is given twice, as 8 and as 9"),
        (["renames.yaml"], "nothing to show"),
    ],
)
def test_command_line_mistakes(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "more.yaml").write_text("variables: {word: 9}")
    (tmp_path / "renames.yaml").write_text("renames: {einsums: []}")
    status, _, err = run(capsys, "show", *arguments)
    assert (status, err.count("\n")) == (2, 1), err
    assert words in err


def test_a_section_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "evaluate", "simple", "matmuls", "matmuls")
    assert (status, err) == (2, "simple, matmuls: no section 'mapping:'\n")


def test_copies_in_one_memory_lie_under_the_same_loops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.yaml"
    arch = GOOD[: GOOD.index("workload:")].replace("keep: output", "keep: Nothing")
    text = f"""{arch}
workload:
  rank_sizes: {{M: 4}}
  bits_per_value: {{All: 8}}
  einsums:
  - {{einsum: "B[m] = A[m]", is_copy_operation: True}}
mapping:
  nodes:
  - !Storage {{tensors: [A], component: DRAM}}
  - !Temporal {{rank_variable: m, tile_shape: 1}}
  - !Storage {{tensors: [B], component: DRAM}} #!
  - !Compute {{einsum: B, component: MAC}}
"""
    check(text, MalformedCase("copies", "", "", ("copies A to B within DRAM", "same loops")), path, capsys)


@pytest.mark.parametrize("case", MAPPING, ids=lambda case: case.name)
def test_what_cannot_be_evaluated_can_be_shown_or_is_refused(
    case: MalformedCase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(GOOD.replace(case.old, case.new, 1))
    for options in ([], ["--pseudocode", "--svg", str(tmp_path / "a.svg")]):
        status, out, err = run(capsys, "show", str(path), *options)
        assert (status, err) == (0, "") or (status, out, err.count("\n")) == (2, "", 1)
