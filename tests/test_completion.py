"""Tab completes bundled names, spec files and choices."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.command_line import Capture, run


def complete(capsys: Capture, monkeypatch: pytest.MonkeyPatch, words: str) -> list[str]:
    """What bash would offer for the last word."""
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    monkeypatch.setenv("_FUSIEST_COMPLETE", "complete_bash")
    return run(capsys)[1].split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("fusiest ev", ["evaluate"]),
        ("fusiest map tp", ["tpu_v4i"]),
        ("fusiest map tpu_v4i resnet18_", ["resnet18_block", "resnet18_downsample"]),
        ("fusiest evaluate simple matmuls fused_matm", ["fused_matmuls_to_simple"]),
        ("fusiest show tpu_v4i gpt3_1", ["gpt3_175B", "gpt3_175B_kv_cache"]),
        ("fusiest map simple matmuls --objective ed", ["edp"]),
        ("fusiest map simple matmuls --orders ", ["all", "given"]),
        ("fusiest map simple matmuls --exchange ", ["finished", "any"]),
        ("fusiest map nothing_like_it", []),
    ],
)
def test_names(
    words: str, offered: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert complete(capsys, monkeypatch, words) == offered


def test_files_beside_bundled_names(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("simplest.yaml", "chip.yml", "notes.txt"):
        Path(name).touch()
    assert complete(capsys, monkeypatch, "fusiest map simp") == ["simple", "simplest.yaml"]
    assert complete(capsys, monkeypatch, "fusiest map chip") == ["chip.yml"]
    assert complete(capsys, monkeypatch, "fusiest map notes") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_FUSIEST_COMPLETE", f"source_{shell}")
    assert "_FUSIEST_COMPLETE" in run(capsys)[1]


def examples(help_text: str) -> list[list[str]]:
    lines = help_text.replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("    fusiest ")]


@pytest.mark.parametrize("command", [[], ["map"], ["evaluate"], ["show"], ["compare"]])
def test_help_teaches_by_examples(
    command: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Options of examples exist; the examples that only show something run."""
    monkeypatch.chdir(tmp_path)
    found = examples(run(capsys, *command, "--help")[1])
    assert len(found) >= 2
    for example in found:
        known = run(capsys, example[0], "--help")[1]
        assert all(word in known for word in example[1:] if word.startswith("-"))
        if example[0] in ("list", "show"):
            assert run(capsys, *example)[0] == 0
