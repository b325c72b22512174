"""Clusters: the address of a Dask scheduler, or a file that says how dask-jobqueue starts workers as batch jobs."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, field
from typing import Any

from fusiest.base.errors import FusiestError, Located, SpecError, did_you_mean, shown
from fusiest.spec import ListNode, MapNode, ScalarNode, YamlNode, known_fields, load_nodes, read_text, text_of_file
from fusiest.sweeps.runs.children import SAFE_PATH

SYSTEMS = {"htcondor": "HTCondorCluster", "lsf": "LSFCluster", "moab": "MoabCluster", "oar": "OARCluster",
           "pbs": "PBSCluster", "sge": "SGECluster", "slurm": "SLURMCluster", "local": "LocalCluster"}  # fmt: skip
"""What dask-jobqueue knows. `local` starts jobs on this machine: for trying a file out."""


@dataclass(frozen=True)
class ClusterFile:
    """Batch jobs that run workers."""

    system: str
    least: int
    most: int
    settings: dict[str, Any] = field(default_factory=dict)
    """dask-jobqueue's own, of this system."""


def load_cluster(path: str) -> ClusterFile:
    """Read a file: `cluster:` says which system and how many jobs, `jobqueue:` is as dask-jobqueue's configuration has it."""
    sections = known_fields(load_nodes(path, text_of_file(path), {}), "the file", ["cluster", "jobqueue"])
    if "cluster" not in sections:
        raise SpecError(f"{path}: no section 'cluster:'")
    fields = known_fields(sections["cluster"], "cluster", ["system", "jobs"])
    for name in ("system", "jobs"):
        if name not in fields:
            raise SpecError(f"cluster: no '{name}'", sections["cluster"].source)
    system = read_text(fields["system"], "system")
    if system not in SYSTEMS:
        raise SpecError(f"system: '{shown(system)}' is none of {', '.join(SYSTEMS)}{did_you_mean(system, SYSTEMS)}",
                        fields["system"].source)  # fmt: skip
    settings = _plain(sections["jobqueue"]) if "jobqueue" in sections else {}
    if not isinstance(settings, dict) or not all(isinstance(table, dict) for table in settings.values()):
        raise SpecError("jobqueue: expected a table of systems, each with its settings", sections["jobqueue"].source)
    return ClusterFile(str(system), *_jobs(fields["jobs"]), settings.get(str(system), {}))


def _jobs(node: YamlNode) -> tuple[int, int]:
    value = _plain(node)
    least, most = value if isinstance(value, list) and len(value) == 2 else (value, value)
    if (
        not all(isinstance(n, int) and not isinstance(n, bool) for n in (least, most))
        or not 0 <= least <= most
        or not most
    ):
        raise SpecError("jobs: expected a number of batch jobs, or [least, most]", node.source)
    return least, most


def _plain(node: YamlNode) -> Any:
    if isinstance(node, MapNode):
        return {str(key.value): _plain(value) for key, value in node.items}
    if isinstance(node, ListNode):
        return [_plain(item) for item in node.items]
    assert isinstance(node, ScalarNode)
    return str(node.value) if isinstance(node.value, (str, Located)) else node.value


def start_cluster(file: ClusterFile) -> Any:
    """Start a scheduler here, and ask the batch system for jobs with workers, none of which runs code of its folder."""
    try:
        import dask.config
        import dask_jobqueue
    except ImportError:
        raise FusiestError("clusters need Dask: pip install 'fusiest[cluster]'") from None
    safely = f"env {SAFE_PATH}=1 {file.settings.get('python') or sys.executable}"
    settings = {**file.settings, "python": safely}
    dask.config.update(dask.config.config, {"jobqueue": {file.system: settings}}, priority="new")
    module = importlib.import_module("dask_jobqueue.local") if file.system == "local" else dask_jobqueue
    try:
        cluster = getattr(module, SYSTEMS[file.system])()
    except Exception as error:  # whatever it misses in its settings
        raise FusiestError(f"dask-jobqueue cannot start {file.system}: {shown(str(error))}") from None
    if file.least == file.most:
        cluster.scale(jobs=file.most)
    else:
        cluster.adapt(minimum_jobs=file.least, maximum_jobs=file.most)
    return cluster
