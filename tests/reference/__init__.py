"""The judge: a plain, slow execution of LoopTrees against which the model is proved."""

from tests.reference.simulator import EinsumSimulation, Simulation, simulate

__all__ = ["EinsumSimulation", "Simulation", "simulate"]
