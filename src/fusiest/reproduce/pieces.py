"""Pieces of an experiment: each result is kept in a file as soon as it is known, and not computed again."""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import fusiest
from fusiest.errors import FusiestError
from fusiest.files import write_atomically
from fusiest.mapper.progress import Progress, Step

Settings: TypeAlias = Mapping[str, object]
Data: TypeAlias = Any
"""Whatever JSON can hold."""


@dataclass(frozen=True)
class Study:
    """How to run: where results go, how large, and how many processes."""

    out: Path
    quick: bool = False
    jobs: int = 1
    times: float | None = None
    """How many times fusiest's evaluations a baseline may spend; None: as the experiment says."""
    runs: int | None = None
    """Runs per baseline; None: as the experiment says."""
    say: Progress = lambda step: None

    def piece(self, name: str, settings: Settings, compute: Callable[[], Data]) -> Data:
        """A result by name: from its file if it was made with the same settings, else computed and written."""
        known = self._known(name, settings)
        return known if known is not None else self._keep(name, settings, compute())

    def pieces(self, wanted: Mapping[str, Settings], compute: Callable[[Settings], Data]) -> dict[str, Data]:
        """Many results, in several processes. `compute` is a function of a module, and gets the settings."""
        found = {name: self._known(name, settings) for name, settings in wanted.items()}
        missing = [name for name, data in found.items() if data is None]
        done = len(wanted) - len(missing)
        for name, data in self._computed({name: wanted[name] for name in missing}, compute):
            found[name] = self._keep(name, wanted[name], data)
            done += 1
            self.say(Step(name, f"{done} of {len(wanted)} done"))
        return found

    def has(self, wanted: Mapping[str, Settings]) -> bool:
        """Whether all of these results are there already."""
        return all(self._known(name, settings) is not None for name, settings in wanted.items())

    def _computed(self, wanted: Mapping[str, Settings], compute: Callable[[Settings], Data]) -> Any:
        if self.jobs == 1 or len(wanted) < 2 or "fork" not in multiprocessing.get_all_start_methods():
            for name, settings in wanted.items():
                self.say(Step(name))
                yield name, compute(settings)
            return
        context = multiprocessing.get_context("fork")
        with concurrent.futures.ProcessPoolExecutor(self.jobs, mp_context=context) as pool:
            futures = {pool.submit(compute, settings): name for name, settings in wanted.items()}
            try:
                for future in concurrent.futures.as_completed(futures):
                    yield futures[future], future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _known(self, name: str, settings: Settings) -> Data:
        try:
            kept = json.loads(self._file(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return kept["data"] if kept.get("settings") == _stamped(settings) else None

    def _keep(self, name: str, settings: Settings, data: Data) -> Data:
        file = self._file(name)
        make_folder(file.parent)
        write_atomically(file, json.dumps({"settings": _stamped(settings), "data": data}) + "\n")
        return json.loads(json.dumps(data))

    def _file(self, name: str) -> Path:
        return self.out / "pieces" / f"{name}.json"


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FusiestError(f"{folder}: cannot be made: {error.strerror}") from None


def _stamped(settings: Settings) -> dict[str, object]:
    return {**json.loads(json.dumps(settings)), "version": fusiest.__version__}
