"""What a measurement was made on: the machine, and the versions of what ran."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path


def machine() -> dict[str, object]:
    """Processor, cores that may be used, and memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": _cpu(), "cores": cores, "ram_bytes": _ram(), "system": f"{platform.system()} {platform.machine()}"}


def versions() -> dict[str, str | None]:
    import fusiest

    found: dict[str, str | None] = {"python": platform.python_version(), "fusiest": fusiest.__version__}
    for package in ("numpy", "numba"):
        found[package] = importlib.metadata.version(package)
    found["revision"] = _revision()
    return found


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _ram() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def _revision() -> str | None:
    """The commit of the working tree, with a plus if it has changes."""
    try:
        folder = Path(__file__).parent
        answers = [
            subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
            for words in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "../src"])
        ]
    except (OSError, subprocess.CalledProcessError):
        return None
    return answers[0] + ("+" if answers[1] else "")
