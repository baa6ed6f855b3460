"""The simulator: all nodes of all runs in one memory."""

from zocosmo.rounds.checkpoint import Checkpoint
from zocosmo.sim.engine import Run, Simulation, batch_key

__all__ = ["Checkpoint", "Run", "Simulation", "batch_key"]
