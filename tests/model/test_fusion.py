"""Which Einsums a mapping fuses, and under which loops they run in turns."""

from __future__ import annotations

import fusiest
from fusiest.looptree.nodes import Temporal
from fusiest.model.fusion import backing_memories, fused_sets, shared_loops
from fusiest.spec.spec import Spec


def matmuls(mapping: str, count: int = 3) -> Spec:
    return fusiest.load("simple", "matmuls", mapping, N_EINSUMS=count)


def test_what_goes_through_main_memory_is_not_fused() -> None:
    spec = matmuls("unfused_matmuls_to_simple")
    assert spec.mapping is not None
    assert [fused.einsums for fused in fused_sets(spec, spec.mapping)] == [("Matmul0",), ("Matmul1",), ("Matmul2",)]
    assert all(fused.tensors == {} for fused in fused_sets(spec, spec.mapping))
    assert list(shared_loops(spec.mapping)) == []


def test_a_chain_of_links_is_one_set() -> None:
    spec = matmuls("fused_matmuls_to_simple")
    assert spec.mapping is not None
    (fused,) = fused_sets(spec, spec.mapping)
    assert fused.einsums == ("Matmul0", "Matmul1", "Matmul2")
    assert fused.tensors == {"T1": "GlobalBuffer", "T2": "GlobalBuffer"}
    (shared,) = shared_loops(spec.mapping)
    assert (shared.above, shared.loops) == ((), (Temporal(rank_variable="m", tile_shape=1),))
    assert shared.einsums == fused.einsums
    assert backing_memories(spec.mapping)["T0"] == "MainMemory"


def test_sets_follow_from_where_tensors_are_backed() -> None:
    """In a chain, each intermediate that goes through main memory cuts it once, whatever the search found."""
    spec = fusiest.load("simple", "matmuls", N_EINSUMS=3, M=8, KN=8, MainMemoryEnergy=20e-12, GlobalBufferSize=10)
    best = fusiest.map(spec, "energy").best("energy")
    sets = fused_sets(spec, best.looptree)
    assert sorted(name for fused in sets for name in fused.einsums) == ["Matmul0", "Matmul1", "Matmul2"]
    off_chip = {t for t, memory in backing_memories(best.looptree).items() if memory == "MainMemory"}
    assert {t for fused in sets for t in fused.tensors} == {"T1", "T2"} - off_chip
    assert len(sets) == 3 - len({"T1", "T2"} - off_chip)
