"""The simulator: all nodes of all runs in one memory."""

from zocosmo.sim.engine import Checkpoint, Run, Simulation, batch_key

__all__ = ["Checkpoint", "Run", "Simulation", "batch_key"]
