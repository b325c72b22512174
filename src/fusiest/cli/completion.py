"""Completion in the shell: bundled names and spec files. It runs at every Tab, so it reads nothing but folders."""

from __future__ import annotations

import glob
from collections.abc import Callable

_NETWORKS = ("*.onnx", "*.pt2")


def complete(*kinds: str) -> Callable[[str], list[str]]:
    """Bundled specs of these kinds and YAML files; with no match, the shell goes on to complete files by itself."""

    def names(incomplete: str) -> list[str]:
        from fusiest.spec import bundled_names

        bundled = [name for kind in kinds for name in bundled_names()[kind] if name.startswith(incomplete)]
        return bundled + files("*.y*ml", *(_NETWORKS if "workloads" in kinds else ()))(incomplete)

    return names


def files(*ends: str) -> Callable[[str], list[str]]:
    """Files whose names end so."""

    def matching(incomplete: str) -> list[str]:
        return sorted(name for end in ends for name in glob.glob(glob.escape(incomplete) + end))

    return matching


networks, json_files = files(*_NETWORKS), files("*.json")


def one_of(*words: str) -> Callable[[str], list[str]]:
    """A fixed choice."""

    def matching(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return matching
