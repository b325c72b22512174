"""How to search, checked before anything slow begins."""

from __future__ import annotations

from dataclasses import dataclass

from fusiest.errors import SpecError, did_you_mean

OBJECTIVES = ("energy", "latency", "edp")
EXCHANGES = ("finished", "any")


@dataclass(frozen=True)
class Options:
    """How to search. The switches at the end change the time, never the result: what each is good for can be measured."""

    objective: tuple[str, ...] = ("energy", "latency")
    usage: str | None = None
    """A memory of which as little as possible is to be used: all mappings that are best for some size of it."""
    orders: str = "all"
    max_fused_loops: int | None = None
    max_fused_loops_per_variable: int = 1
    imperfect: bool = False
    exchange: str = "finished"
    """Whether Einsums use only what is `finished`, or `any` tensor: then the costs are right, but not the values."""
    jobs: int | None = None
    time_limit: float | None = None
    coarse: bool = True
    bounds: bool = True
    grouping: bool = True
    """Partial mappings are joined group by group; else each is compared with each."""
    consolidation: bool = True
    """Space that finished Einsums take is summed up; else each Einsum's stays a criterion of its own."""

    @property
    def finished(self) -> bool:
        """Whether Einsums use only tensors that are finished."""
        return self.exchange == "finished"

    def __post_init__(self) -> None:
        for name in self.objective:
            if name not in OBJECTIVES:
                raise SpecError(f"objective '{name}' is not known{did_you_mean(name, OBJECTIVES)}")
        if sorted(self.objective) == ["energy", "latency"]:
            object.__setattr__(self, "objective", ("energy", "latency"))
        elif len(self.objective) != 1:
            raise SpecError("objective: give energy, latency, edp, or energy,latency for the whole front")
        if self.orders not in ("all", "given"):
            raise SpecError(f"orders '{self.orders}' is neither all nor given")
        if self.exchange not in EXCHANGES:
            raise SpecError(f"exchange '{self.exchange}' is not known{did_you_mean(self.exchange, EXCHANGES)}")
        for name in ("jobs", "time_limit", "max_fused_loops", "max_fused_loops_per_variable"):
            value = getattr(self, name)
            if value is not None and not value >= (1 if name in ("jobs", "max_fused_loops_per_variable") else 0):
                raise SpecError(f"{name} must not be {value}")
