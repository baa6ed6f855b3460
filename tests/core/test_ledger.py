import numpy as np
import pytest

from zocosmo.core import CODECS, FRAME_BITS, Bits, Ledger
from zocosmo.errors import InputError
from zocosmo.graphs import complete, ring

MESSAGE = CODECS["indexed"].bits(20, 1).plus(FRAME_BITS)


def test_bits_are_kept_by_link_and_kind():
    ledger = Ledger(ring(4).links)
    ledger.send(0, 1, MESSAGE)
    ledger.send(0, 1, MESSAGE)
    ledger.send(1, 2, Bits(control=128))
    assert ledger.link(0, 1) == Bits(values=64, indices=10, framing=2 * 259)
    assert ledger.link(1, 0) == Bits()
    assert ledger.sent_by(1) == Bits(control=128)


def test_the_network_is_the_sum_of_its_links_and_of_its_nodes():
    ledger = Ledger(complete(5).links)
    ledger.charge(np.arange(20), MESSAGE)
    by_link = [ledger.link(i, j).total for i, j in ledger.links]
    assert ledger.network().total == sum(by_link) == 190 * MESSAGE.total
    assert ledger.by_node(5).sum(axis=0).tolist() == list(ledger.network())
    assert [ledger.sent_by(i).total for i in range(5)] == ledger.by_node(5).sum(axis=1).tolist()


def test_global_support_on_a_ring_costs_two_messages_a_node():
    """1024 bits a node and round at q = 16, edge-local 512   [appendix:support_locality_experiment]"""
    everyone, pairs = Ledger(ring(8).links), Ledger(ring(8).links)
    message = CODECS["values"].bits(128, 16)
    everyone.charge(1, message)
    pairs.charge(np.array([(i // 2 == j // 2) for i, j in pairs.links]), message)
    assert everyone.by_node(8).sum(axis=1).tolist() == [1024] * 8
    assert pairs.by_node(8).sum(axis=1).tolist() == [512] * 8


def test_runs_are_leading_axes():
    ledger = Ledger([(0, 1), (1, 0)], shape=(3,))
    ledger.charge(np.array([[1, 0], [0, 2], [0, 0]]), Bits(values=10))
    assert ledger.counts.sum(axis=-1).tolist() == [[10, 0], [0, 20], [0, 0]]
    assert ledger.network() == Bits(values=30)


def test_sums_are_whole_numbers_beyond_float_precision():
    ledger = Ledger([(0, 1)])
    ledger.send(0, 1, Bits(values=2**53))
    ledger.send(0, 1, Bits(values=1))
    assert ledger.network().total == 2**53 + 1


def test_a_link_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="no link from node 0 to node 2"):
        Ledger(ring(4).links).send(0, 2, MESSAGE)


def test_a_link_named_twice_is_refused():
    with pytest.raises(InputError, match="once"):
        Ledger([(0, 1), (0, 1)])


def test_a_network_of_many_runs_does_not_overflow():
    """40 runs of 300 dense rounds on 64 nodes pass 2^63 bits in all, though no link does."""
    ledger = Ledger(complete(64).links, shape=(40,))
    bits = CODECS["dense"].bits(6_525_621_760, 1)
    ledger.charge(300, bits)
    assert ledger.network().total == 300 * 40 * 64 * 63 * bits.total > 2**63
    assert str(ledger.network().total) in repr(ledger)


@pytest.mark.parametrize("messages", [-1, 0.5, np.array([1, -1])])
def test_messages_are_counted_in_whole_numbers(messages):
    with pytest.raises(InputError, match="integers ≥ 0"):
        Ledger([(0, 1), (1, 0)]).charge(messages, MESSAGE)
