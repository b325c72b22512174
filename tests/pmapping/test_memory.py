"""What a search takes is free again after it, without the collector of cyclic garbage: that is paused in a search."""

import gc

import pytest

import fusiest
from fusiest.pmapping import Effort, Question, explore


@pytest.mark.parametrize(
    "asked",
    [
        (Question(needed=True),),
        (Question(),),
        (Question(), Effort(general=True)),
        (Question(imperfect=True), Effort(beam=100)),
    ],
)
def test_exploring_leaves_no_cycles(asked):
    spec = fusiest.load("edge_npu", "matmuls", N_EINSUMS=2, M=16, KN=16)
    explore(spec, "Matmul0", *asked)  # what is compiled and remembered once
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        explore(spec, "Matmul0", *asked)
        gc.collect()
        assert not {type(left).__name__ for left in gc.garbage if type(left).__module__.startswith("fusiest.pmapping")}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
