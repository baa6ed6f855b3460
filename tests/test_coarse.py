"""Mixing over wires of a few bits: sums, repair, the scale of each link, resumes."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from zocosmo.channel import MemoryChannel
from zocosmo.core.modulo import MODULO
from zocosmo.core.support import draw_support
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, path, ring

N, D, Q = 4, 24, 6
PAIRS = (np.array([1, 0, 3, 2]), np.array([3, 2, 1, 0]))  # of a ring, in turn


class Nodes:
    """Nodes that step and mix on public supports, and keep account of what their sum must be.

    Steps are dyadic, and so are weights (1/2 in pairs, 1/4 on a complete graph of four), so that nothing
    rounds as long as numbers stay below 2^53 of their grid.
    """

    def __init__(self, wire, move, *, lost=None, graphs=(), seeds=(5,), n=N):
        self.graphs = graphs or [complete(n) if move == "mix" else ring(n)] * len(seeds)
        self.tape, self.move, self.n = Tape.stack(seeds), move, n
        about = {"d": D, "codecs": ["values"], "dtype": "float64", "tape": self.tape}
        self.channel = MemoryChannel(self.graphs, wire=wire, **about)
        self.channel.lost = lost or {}
        self.x = np.zeros((len(seeds), n, D))
        self.total = self.x.sum(axis=1)
        self.rng, self.t = np.random.default_rng(0), 0

    @property
    def memory(self):
        return self.channel.coarse.memory

    def round(self, size=1.0, at=None):
        """One round; steps are multiples of 2^−12 below `size`, of node `at` alone if it is given."""
        self.channel.begin(self.t)
        u = draw_support(self.tape[:, None], np.array([[self.t]]), d=D, q=Q)
        step = np.floor(self.rng.uniform(-size, size, (len(self.graphs), self.n, Q)) * 4096) / 4096
        if at is not None:
            step[:, np.arange(self.n) != at] = 0
        held = u.restrict(self.x)
        y = held + step
        np.put_along_axis(self.total, u.index[:, 0], u.restrict(self.total[:, None])[:, 0] + step.sum(1), -1)
        if self.move == "mix":
            mixed = self.channel.mix(y, u, held=held)
        else:
            partners = np.broadcast_to(PAIRS[self.t % 2], (len(self.graphs), self.n))
            mixed = self.channel.mix_pairs(y, partners, u, held=held)
        self.x = self.channel.settle(u.put(self.x, mixed))
        self.t += 1

    def counts(self):
        return {name: int(count.sum()) for name, count in self.channel.tally().items()}

    def is_exact(self):
        """Whether the sum of states, less what is owed, is the start plus all steps, to the bit."""
        owed = self.memory.debts(len(self.graphs) * self.n, D).reshape(self.x.shape)
        return np.array_equal((self.x - owed).sum(axis=1), self.total)


def losses(rounds, share, seed=1):
    """Messages that are lost: each with the same probability."""
    rng, links = np.random.default_rng(seed), [(i, j) for i in range(N) for j in range(N) if i != j]
    return {t: [link for link in links if rng.random() < share] for t in range(rounds)}


@pytest.mark.parametrize("move", ["mix", "pairs"])
@pytest.mark.parametrize("wire", MODULO)
def test_the_sum_of_states_is_kept_exactly(wire, move):
    nodes = Nodes(wire, move)
    for _ in range(60):
        nodes.round()
        assert nodes.is_exact()
    assert nodes.x.std() > 0


@pytest.mark.parametrize("move", ["mix", "pairs"])
@pytest.mark.parametrize("wire", MODULO)
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_the_sum_with_debts_is_exact_in_every_round_and_without_them_once_they_are_settled(wire, move, share):
    nodes = Nodes(wire, move, lost=losses(80, share))
    for _ in range(80):
        nodes.round()
        assert nodes.is_exact()
    counts = nodes.counts()
    assert counts["failures"] > 0
    assert counts["repairs"] > 0
    for _ in range(30):
        nodes.round()  # nothing is lost any more
        assert nodes.is_exact()
    for _ in range(40):
        if not nodes.memory.open:
            break
        nodes.round(0.0)
    assert nodes.memory.open == {}
    assert_array_equal(nodes.x.sum(axis=1), nodes.total)


@pytest.mark.parametrize("meetings", [4, pytest.param(5, marks=pytest.mark.slow)])
def test_ends_never_differ_by_more_than_one_exchange(meetings):
    """Counts mod 4 tell who is ahead as long as that holds: over all losses of a pair in some meetings."""
    for code in range(4**meetings):
        lost = {
            t: [((0, 1), (1, 0))[k] for k in range(2) if code >> (2 * t + k) & 1] for t in range(meetings)
        }
        channel = MemoryChannel([path(2)], d=2, wire="mod4", codecs=["values"], dtype="float64", tape=Tape(0))
        channel.lost, x, total, applied = lost, np.zeros((2, 2)), 0.0, [0, 0]
        for t in range(7):
            channel.begin(t)
            y, before = x + np.array([[1.0], [0.0]]), channel.coarse.memory.count.astype(int)
            total += 1.0
            x = channel.settle(channel.mix_pairs(y, np.array([1, 0]), held=x))
            applied += (channel.coarse.memory.count.astype(int) - before + 1) % 4 - 1
            assert abs(applied[0] - applied[1]) <= 1
            assert_array_equal((x - channel.coarse.memory.debts(2, 2)).sum(axis=0), [total, total])


@pytest.mark.parametrize("move", ["mix", "pairs"])
def test_runs_side_by_side_are_each_alone(move):
    together, alone = (
        Nodes("mod3", move, seeds=(5, 6, 5)),
        [Nodes("mod3", move, seeds=(s,)) for s in (5, 6, 5)],
    )
    rng = np.random.default_rng(3)
    for _ in range(30):
        step = rng.integers(-4096, 4096, (3, N, Q)) / 4096
        for k, nodes in enumerate((together, *alone)):
            given = step if k == 0 else step[k - 1 : k]
            nodes.rng = Given(given)
            nodes.round()
    assert_array_equal(together.x, np.concatenate([each.x for each in alone]))
    sums = {name: count.sum(axis=1).tolist() for name, count in together.channel.tally().items()}
    apart = [each.channel.tally() for each in alone]
    assert sums == {name: [int(each[name].sum()) for each in apart] for name in sums}


class Given:
    """A generator that returns what it was given."""

    def __init__(self, values):
        self.values = values

    def uniform(self, low, high, shape):
        return self.values.reshape(shape) * high


@pytest.mark.parametrize("wire", ["mod2", "mod4"])
def test_a_resumed_channel_goes_on_to_the_bit(wire):
    whole, first = Nodes(wire, "pairs", lost=losses(40, 0.3)), Nodes(wire, "pairs", lost=losses(40, 0.3))
    for _ in range(15):
        whole.round()
        first.round()
    second = Nodes(wire, "pairs", lost=losses(40, 0.3))
    arrays = {name: array.copy() for name, array in first.channel.arrays().items()}
    second.channel.restore(arrays)
    second.x, second.t, second.rng, second.total = first.x.copy(), first.t, first.rng, first.total
    for _ in range(25):
        whole.round()
        second.round()
    assert_array_equal(second.x, whole.x)
    for name, array in whole.channel.arrays().items():
        assert_array_equal(second.channel.arrays()[name], array)


# Bursts


def settled(wire, rounds=60, size=0.01):
    nodes = Nodes(wire, "pairs")
    for _ in range(rounds):
        nodes.round(size)
    return nodes


def meetings_until_quiet(nodes, size=0.01, most=200, quiet=20):
    """Rounds until a stretch of `quiet` rounds has no failure, repair or wide message."""
    since, before = 0, nodes.counts()
    for t in range(most):
        nodes.round(size)
        assert nodes.is_exact()
        if (now := nodes.counts()) != before:
            since, before = t + 1, now
        if t - since >= quiet:
            return since
    return most


@pytest.mark.parametrize("wire", [f"mod{b}" for b in range(3, 9)])
def test_a_step_of_a_million_is_read_and_forgotten(wire):
    """No silent error: the sum is exact in every round. Messages are narrow again after 40 rounds."""
    nodes = settled(wire)
    usual = np.sqrt(nodes.memory.square).max()
    nodes.round(1e6 * 0.01, at=2)
    assert nodes.is_exact()
    assert nodes.counts()["wide"] > 0
    assert meetings_until_quiet(nodes) <= 40
    for _ in range(150):
        nodes.round(0.01)
    assert np.sqrt(nodes.memory.square).max() < 30 * usual


@pytest.mark.parametrize("wire", [f"mod{b}" for b in range(3, 9)])
def test_a_node_that_misses_fifty_meetings_comes_back(wire):
    nodes = settled(wire)
    away = [(i, j) for i in range(N) for j in range(N) if 2 in (i, j)]
    nodes.channel.lost = dict.fromkeys(range(nodes.t, nodes.t + 100), away)  # fifty with each neighbour
    for _ in range(100):
        nodes.round(0.01)
        assert nodes.is_exact()
    assert meetings_until_quiet(nodes) <= 60


@pytest.mark.parametrize("wire", [f"mod{b}" for b in range(2, 9)])
def test_steps_that_shrink_a_thousandfold_are_followed(wire):
    """The mean square falls by a fifth at each meeting at best, less what the wire itself adds: with 2 bits
    that is so much that the scale falls slowly."""
    nodes = settled(wire, size=8.0)
    before = np.sqrt(nodes.memory.square).max()
    for _ in range(160):
        nodes.round(8e-3)
        assert nodes.is_exact()
    assert np.sqrt(nodes.memory.square).max() < (0.5 if wire == "mod2" else 0.02) * before
    assert nodes.counts()["failures"] == 0 or wire == "mod2"


@pytest.mark.parametrize("move", ["mix", "pairs"])
@pytest.mark.parametrize("wire", MODULO)
def test_nodes_that_start_apart_and_never_step_agree(wire, move):
    """Nobody has seen a difference or made a step, so the first messages are far too narrow."""
    nodes = Nodes(wire, move)
    nodes.x = np.round(np.random.default_rng(2).normal(size=nodes.x.shape) * 64) / 64
    nodes.total, before = nodes.x.sum(axis=1), nodes.x.std(axis=1).max()
    for _ in range(600 if wire == "mod2" else 100):
        nodes.round(0.0)
        assert nodes.is_exact()
        if nodes.x.std(axis=1).max() < 0.05 * before:
            break
    assert nodes.x.std(axis=1).max() < 0.05 * before


def test_a_wire_of_a_few_bits_needs_the_values_before_the_step():
    nodes = Nodes("mod4", "mix")
    with pytest.raises(InputError, match="held"):
        nodes.channel.mix(np.ones((1, N, Q)))


def test_a_wire_of_a_few_bits_needs_a_tape():
    with pytest.raises(InputError, match="tape"):
        MemoryChannel([ring(N)], d=D, wire="mod4", codecs=["values"], dtype="float64")


def test_the_ledger_has_the_second_parts_of_wide_messages():
    nodes = settled("mod4")
    before = nodes.channel.ledger("values").network()
    wide = nodes.counts()["wide"]
    nodes.round(1e4, at=1)
    spent = [b - a for a, b in zip(before, nodes.channel.ledger("values").network(), strict=True)]
    more = nodes.counts()["wide"] - wide
    assert more > 0
    assert spent[0] == N * Q * 4 + more * Q * 28
    assert spent[2] == N * 27
