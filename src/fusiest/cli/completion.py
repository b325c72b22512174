"""Completion in the shell: bundled names and spec files. It runs at every Tab, so it reads nothing but folders."""

from __future__ import annotations

import glob
from collections.abc import Callable


def complete(*kinds: str) -> Callable[[str], list[str]]:
    """Bundled specs of these kinds and YAML files; with no match, the shell goes on to complete files by itself."""

    def names(incomplete: str) -> list[str]:
        from fusiest.spec.load import bundled_names

        known = [name for kind in kinds for name in bundled_names()[kind] if name.startswith(incomplete)]
        return known + sorted(glob.glob(glob.escape(incomplete) + "*.y*ml"))

    return names


def json_files(incomplete: str) -> list[str]:
    """Results that were written before."""
    return sorted(glob.glob(glob.escape(incomplete) + "*.json"))


def one_of(*words: str) -> Callable[[str], list[str]]:
    """A fixed choice."""

    def matching(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return matching
