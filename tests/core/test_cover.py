import numpy as np
import pytest

from zocosmo.core import Support, Tape, check_cover, draw_support, find_gaps
from zocosmo.errors import InputError, SupportMismatch
from zocosmo.graphs import metropolis, path, ring


def support(*coordinates, d=9):
    return Support(np.array(coordinates), d)


def test_a_global_support_covers_every_node():
    graph, shared = ring(5), draw_support(Tape(0), 3, d=9, q=4)
    sent = dict.fromkeys(graph.links, shared)
    targets, W = dict.fromkeys(range(5), shared), metropolis(graph).matrix()
    assert find_gaps(targets, sent, W) == []
    check_cover(targets, sent, W)


def test_pairs_with_supports_of_their_own_are_covered():
    W = np.kron(np.eye(2), np.full((2, 2), 0.5))
    one, two = support(1, 2), support(3, 4)
    sent = {(0, 1): one, (1, 0): one, (2, 3): two, (3, 2): two}
    assert find_gaps({0: one, 1: one, 2: two, 3: two}, sent, W) == []


def test_node_supports_leave_gaps_and_the_error_is_w_times_r():
    """Independent supports per node, all of them public, still cannot be mixed exactly."""
    W = metropolis(path(3)).matrix()
    own = {0: support(1, 2), 1: support(2, 3), 2: support(1, 2)}
    gaps = find_gaps(own, {(i, j): own[i] for i, j in path(3).links}, W, radius=6.0)
    found = [(g.receiver, g.sender, g.missing.tolist(), g.error) for g in gaps]
    assert found == [(0, 1, [1], 2.0), (1, 0, [3], 2.0), (1, 2, [3], 2.0), (2, 1, [1], 2.0)]


def test_a_larger_message_covers():
    assert find_gaps({0: support(2)}, {(1, 0): support(1, 2, 3)}, np.full((2, 2), 0.5)) == []


def test_a_message_that_is_not_sent_covers_nothing():
    with pytest.raises(
        SupportMismatch, match="node 0 mixes on 2 coordinates, but the message from node 1 lacks 2"
    ):
        check_cover({0: support(2, 5)}, {}, np.full((2, 2), 0.5))


def test_peers_of_weight_zero_need_send_nothing():
    assert find_gaps({0: support(2)}, {}, np.eye(3)) == []


def test_the_error_bound_is_attained_and_cannot_be_beaten():
    """Two peer states, ±R on the missing coordinate, look alike: any answer errs by w R on one of them."""
    w, R = 0.25, 8.0
    (gap,) = find_gaps({0: support(4)}, {(1, 0): support(3)}, np.array([[0.75, w], [w, 0.75]]), radius=R)
    worst = [max(abs(answer - w * R), abs(answer + w * R)) for answer in np.linspace(-9, 9, 181)]
    assert min(worst) == gap.error == w * R


def test_supports_of_two_spaces_are_refused():
    with pytest.raises(InputError, match="single supports of the same d"):
        find_gaps({0: support(2)}, {(1, 0): support(2, d=8)}, np.full((2, 2), 0.5))


@pytest.mark.parametrize("target", [Support(np.array([[1, 2], [3, 4]]), 9), support(1, 2)])
def test_a_batch_of_supports_is_refused(target):
    with pytest.raises(InputError, match="single supports"):
        find_gaps({0: target}, {(1, 0): Support(np.array([[1, 5], [2, 6]]), 9)}, np.full((2, 2), 0.5))


def test_negative_weights_count_by_their_size():
    (gap,) = find_gaps({0: support(2)}, {}, np.array([[1.5, -0.5], [-0.5, 1.5]]), radius=4.0)
    assert gap.error == 2.0


@pytest.mark.parametrize(
    ("weights", "radius", "receiver"),
    [
        (np.full((2, 2), np.nan), 1.0, 0),
        (np.ones((2, 3)), 1.0, 0),
        (metropolis(path(2)), 1.0, 0),
        (np.full((2, 2), 0.5), -1.0, 0),
        (np.full((2, 2), 0.5), np.nan, 0),
        (np.full((2, 2), 0.5), 1.0, 2),
        (np.full((2, 2), 0.5), 1.0, -1),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(weights, radius, receiver):
    with pytest.raises(InputError):
        find_gaps({receiver: support(2)}, {}, weights, radius=radius)
