"""Completion in the shell: bundled names and spec files. It runs at every Tab, so it reads nothing but folders."""

from __future__ import annotations

import glob
from collections.abc import Callable


def complete(*kinds: str) -> Callable[[str], list[str]]:
    """Bundled specs of these kinds and YAML files; with no match, the shell goes on to complete files by itself."""

    def names(incomplete: str) -> list[str]:
        from fusiest.spec import bundled_names

        bundled = [name for kind in kinds for name in bundled_names()[kind] if name.startswith(incomplete)]
        files = [
            name
            for end in ("*.y*ml", *(["*.onnx", "*.pt2"] if "workloads" in kinds else []))
            for name in glob.glob(glob.escape(incomplete) + end)
        ]
        return bundled + sorted(files)

    return names


def networks(incomplete: str) -> list[str]:
    """Files that are networks."""
    return sorted(name for end in ("*.onnx", "*.pt2") for name in glob.glob(glob.escape(incomplete) + end))


def json_files(incomplete: str) -> list[str]:
    """Results that were written before."""
    return sorted(glob.glob(glob.escape(incomplete) + "*.json"))


def one_of(*words: str) -> Callable[[str], list[str]]:
    """A fixed choice."""

    def matching(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return matching
