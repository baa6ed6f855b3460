"""What a start asks of the store: operations in proportion to the number of processes, not to its square."""

import threading

import pytest

from dist.stand_in import StandIn
from examples import MANIFEST
from zocosmo.dist.handshake import agree
from zocosmo.dist.rendezvous import Job
from zocosmo.errors import ManifestMismatch


class Patient(StandIn):
    """A store whose `check` waits for its keys, so that no operation is a poll that came too early."""

    def __init__(self):
        super().__init__()
        self.news = threading.Condition()

    def set(self, key, content):
        super().set(key, content)
        with self.news:
            self.news.notify_all()

    def check(self, keys):
        with self.news:
            self.news.wait_for(lambda: super(Patient, self).has_all(keys) or keys == ["ended"], 60)
        return super().check(keys)


def operations(world, act):
    """How many it takes if all processes do this, and what each came to."""
    store, found = Patient(), {}

    def one(rank):
        try:
            found[rank] = act(Job(store, rank, world, 0, "127.0.0.1"))
        except ManifestMismatch as error:
            found[rank] = str(error)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return sum(store.operations.values()), [found[rank] for rank in range(world)]


@pytest.mark.parametrize("world", [1, 4, 32, 128])
def test_a_handshake_takes_three_operations_a_process_and_one_more(world):
    count, found = operations(world, lambda job: agree(job, [MANIFEST]))
    assert found == [None] * world
    assert count <= 3 * world + 1


@pytest.mark.parametrize("world", [32, 128])
def test_so_does_an_exchange_of_contents(world):
    count, found = operations(world, lambda job: job.publish("content", b"%d" % job.rank))
    assert found == [[b"%d" % rank for rank in range(world)]] * world
    assert count <= 3 * world + 1


def test_every_process_of_many_hears_the_same_refusal():
    from dataclasses import replace

    other = replace(MANIFEST, q=7)
    count, found = operations(32, lambda job: agree(job, [other if job.rank in (5, 9) else MANIFEST]))
    assert set(found) == {"q: rank 0 has 8, ranks 5, 9 7; start all ranks with the same settings"}
    assert count <= 3 * 32 + 1
