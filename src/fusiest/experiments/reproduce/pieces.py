"""Pieces of an experiment: each result is kept in a file as soon as it is known, and not computed again."""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import fusiest
from fusiest.base import interrupt, workers
from fusiest.base.files import make_folder, write_atomically
from fusiest.mapper import Progress, Step
from fusiest.show import hours

Settings: TypeAlias = Mapping[str, Any]
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
    hours: float | None = None
    """How long an experiment may start runs of baselines; None: until all are done."""
    deadline: float | None = None
    """When that is over, as `time.monotonic` counts."""

    def in_time(self, seconds: float) -> bool:
        """Whether something that takes so long would be done in time."""
        return self.deadline is None or time.monotonic() + seconds <= self.deadline

    def piece(self, name: str, settings: Settings, compute: Callable[[], Data]) -> Data:
        """A result by name: from its file if it was made with the same settings, else computed and written."""
        saved = self._saved(name, settings)
        return saved if saved is not None else self._keep(name, settings, compute())

    def pieces(
        self,
        wanted: Mapping[str, Settings],
        compute: Callable[[Settings], Data],
        seconds: Mapping[str, float] | None = None,
        later: float = 0.0,
    ) -> dict[str, Data]:
        """Many results, in several processes. `compute` is a function of a module, and gets the settings.

        `seconds`: how long each will take, about; those that would not be done in time are left out. `later`: seconds for
        what comes after these.
        """
        saved = {name: self._saved(name, settings) for name, settings in wanted.items()}
        results = {name: data for name, data in saved.items() if data is not None}
        expected = {name: (seconds or {}).get(name, 0.0) for name in wanted if name not in results}
        for name, data in self._computed({name: wanted[name] for name in expected}, compute, expected):
            results[name] = self._keep(name, wanted[name], data)
            seconds_left = (later + sum(expected[n] for n in expected if n not in results)) / self.jobs
            left = f", {duration(seconds_left)} left" if seconds_left else ""
            self.say(Step(name, f"{len(results)} of {len(wanted)} done{left}"))
        return results

    def has(self, wanted: Mapping[str, Settings]) -> bool:
        """Whether all of these results are there already."""
        return all(self._saved(name, settings) is not None for name, settings in wanted.items())

    def _computed(
        self, wanted: Mapping[str, Settings], compute: Callable[[Settings], Data], seconds: Mapping[str, float]
    ) -> Iterator[tuple[str, Data]]:
        if self.jobs == 1 or len(wanted) < 2 or "fork" not in multiprocessing.get_all_start_methods():
            for name, settings in wanted.items():
                if self.in_time(seconds[name]):
                    self.say(Step(name))
                    yield name, compute(settings)
            return
        pool = workers.make_pool(self.jobs)
        waiting, running = list(wanted), dict[concurrent.futures.Future[Data], str]()
        try:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    name = waiting.pop(0)
                    if self.in_time(seconds[name]):
                        with interrupt.deferred():
                            running[pool.submit(compute, wanted[name])] = name
                finished, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in finished:
                    yield running.pop(future), future.result()
        finally:
            workers.end(pool)

    def _saved(self, name: str, settings: Settings) -> Data:
        try:
            document = json.loads(self._file(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return document["data"] if document.get("settings") == _stamped(settings) else None

    def _keep(self, name: str, settings: Settings, data: Data) -> Data:
        file = self._file(name)
        make_folder(file.parent)
        write_atomically(file, json.dumps({"settings": _stamped(settings), "data": data}) + "\n")
        return json.loads(json.dumps(data))

    def _file(self, name: str) -> Path:
        return self.out / ("pieces-quick" if self.quick else "pieces") / f"{name}.json"


def duration(seconds: float) -> str:
    """About how long.

    >>> duration(50), duration(5000), duration(50000)
    ('about 50 s', 'about 83 min', 'about 14 h')
    """
    return f"about {hours(seconds, 0)}"


@functools.cache
def _code() -> str:
    """The package's own files in one number: what other code has computed is not taken for this one's."""
    folder = Path(fusiest.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".yaml")):
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def _stamped(settings: Settings) -> dict[str, object]:
    return {**json.loads(json.dumps(settings)), "version": fusiest.__version__, "code": _code()}
