"""Which experiments there are, and running them one after the other."""

from __future__ import annotations

import importlib
import time
from dataclasses import replace
from pathlib import Path

from fusiest.base.errors import SpecError, did_you_mean
from fusiest.experiments.reproduce.experiment_names import ALL, EXPERIMENTS, MODULES
from fusiest.experiments.reproduce.experiment_output import write
from fusiest.experiments.reproduce.pieces import Study
from fusiest.mapper import Step


def chosen(name: str) -> list[str]:
    """The experiments that a name stands for."""
    if name != ALL and name not in EXPERIMENTS:
        raise SpecError(f"experiment '{name}' is not known{did_you_mean(name, [*EXPERIMENTS, ALL])}")
    return list(EXPERIMENTS) if name == ALL else [name]


def reproduce(name: str, study: Study) -> list[Path]:
    """Run one experiment, or all; returns the files written."""
    from fusiest.report import check_matplotlib

    check_matplotlib()
    written = []
    for experiment in chosen(name):
        study.say(Step(experiment, EXPERIMENTS[experiment]))
        module = importlib.import_module(f"fusiest.experiments.reproduce.{MODULES[experiment]}")
        limit = None if study.hours is None else time.monotonic() + 3600 * study.hours
        written += write(study, experiment, module.TITLE, module.run(replace(study, deadline=limit)))
    return written
