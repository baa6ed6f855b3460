"""Losses that remember how often they were asked, as people might write them."""

from zocosmo.problems import python

ENTRY = "problems.drifting:Drifting"


class Drifting:
    """A bowl that moves away after every second query: slopes depend on all earlier ones."""

    def __init__(self, node):
        self.node, self.asked = node, 0

    def __call__(self, x):
        where = self.node + self.asked // 2 / 64
        self.asked += 1
        return ((x - where) ** 2).sum()

    def state_dict(self):
        return {"asked": self.asked}

    def load_state_dict(self, state):
        self.asked = state["asked"]


def drifting(n=4, seed=0, d=6):
    return python(n, seed, entry=ENTRY, d=d)
