"""The mean over a tree: what nodes do one by one, the exact mean, K numbers a message whatever q is."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from literal import public_dither, tree_peers
from methods.by_node import ETA, MU, SEED, Nodes
from methods.cases import GRAPHS, small, small_run, states
from methods.forward import seen
from zocosmo.core.balanced import balanced_support, epoch_length
from zocosmo.core.payload import Bits
from zocosmo.core.signs import draw_sign_vectors
from zocosmo.core.support import draw_support
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, path, ring, star
from zocosmo.problems.quadratic import Quadratic, quadratic
from zocosmo.problems.rosenbrock import rosenbrock
from zocosmo.sim.engine import Run, Simulation
from zocosmo.traffic import sum_messages

ALL_OF_IT = {"signs": "orthogonal", "sides": 1}
FOUR_STEPS = (1.0, 1.25, 1.5, 1.75)


def on_grid(values, bits, r):
    """What a wire of b bits makes of one message: the least of all its steps that reaches, and dither."""
    half, largest = 2 ** (bits - 1), max(abs(v) for v in values)
    if largest == 0:
        return [0.0] * len(values)
    steps = sorted(m * 2.0**e for e in range(-44, 20) for m in FOUR_STEPS)
    step = next(s for s in steps if largest <= (half - 0.5) * s)
    return [
        step * (np.floor(v / step + (shift - 0.5)) + (1.0 - shift))
        for v, shift in zip(values, r, strict=True)
    ]


def summed(nodes, t, rows, bits):
    """The total of rows of numbers as all read it: up the tree, the last child first, and down again."""
    peers, order, parent = tree_peers(nodes.graph), [0], {0: None}
    for i in order:
        below = [j for j in peers[i] if j not in parent]
        parent |= dict.fromkeys(below, i)
        order += below

    def read(i, values):
        return on_grid(values, bits, public_dither(nodes.tape, "dither", t, i, size=len(values)))

    sums = [list(row) for row in rows]
    for i in reversed(order[1:]):
        sums[parent[i]] = [a + b for a, b in zip(sums[parent[i]], read(i, sums[i]), strict=True)]
    return read(0, sums[0])


def of_length(total, v, q, rounds):
    """−η Σ/√(qK v) for sums of slopes over some rounds, and v with their mean square."""
    mean = total[0] / rounds * (total[0] / rounds)
    for one in total[1:]:
        mean += one / rounds * (one / rounds)
    mean /= len(total)
    v = mean if v == 0 else 0.95 * v + 0.05 * mean
    factor = -ETA * (1 / np.sqrt(q * len(total) * v))
    return [factor * one for one in total], v


def rounds_by_node(nodes, rounds, *, q, K, hold, bits, rule, step="plain"):
    """x of all nodes after each round, from slopes of two sides and independent signs."""
    draw, v = {"uniform": draw_support, "balanced": balanced_support}[rule], 0.0
    for t in range(rounds):
        index = draw(nodes.tape, t // hold, d=nodes.d, q=q).index
        eps = draw_sign_vectors(nodes.tape, t // hold, q=index.size, directions=K, signs="independent")
        vectors = [each.reshape(-1).astype(float) for each in eps]
        if t % hold == 0:
            start, c = [x.copy() for x in nodes.x], [[0.0] * K for _ in range(nodes.n)]
        for i in range(nodes.n):
            for k, signs in enumerate(vectors):
                u = np.zeros(nodes.d)
                u[index] = signs
                slope = nodes.slope(i, nodes.x[i], u, t)
                c[i][k] += slope if step == "normalised" else -ETA * (nodes.d / (index.size * K) * slope)
        moves = c
        if (t + 1) % hold == 0:
            moves = [[one / nodes.n for one in summed(nodes, t, c, bits)]] * nodes.n
        if step == "normalised":
            moves, scales = zip(*(of_length(row, v, index.size, t % hold + 1) for row in moves), strict=True)
            v = scales[0] if (t + 1) % hold == 0 else v
        for i in range(nodes.n):
            along = moves[i][0] * vectors[0]
            for one, signs in zip(moves[i][1:], vectors[1:], strict=True):
                along = along + one * signs
            nodes.x[i] = nodes.x[i].copy()
            nodes.x[i][index] = start[i][index] + along
        yield np.stack(nodes.x)


@pytest.mark.parametrize("graph", [ring(6), star(4), path(3), complete(2)], ids=lambda g: f"{g.name} {g.n}")
@pytest.mark.parametrize("step", ["plain", "normalised"])
@pytest.mark.parametrize(
    ("hold", "K", "bits", "rule"), [(1, 1, 3, "uniform"), (3, 3, 2, "balanced"), (2, 4, 8, "uniform")]
)
def test_it_is_what_nodes_do_one_by_one_on_a_grid(graph, hold, K, bits, rule, step):
    options = {"directions": K, "hold": hold, "rule": rule, "wire": f"grid{bits}", "step_rule": step}
    method = small("tree_mean", eta=ETA, mu=MU, q=3, **options)
    nodes = Nodes(graph, 7)
    simulation = Simulation([Run(method, graph, nodes.problem, SEED)])
    for expected in rounds_by_node(nodes, 9, q=3, K=K, hold=hold, bits=bits, rule=rule, step=step):
        simulation.round()
        assert_array_equal(simulation.states()[0], expected)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("wire", ["f32", "f16", "grid2", "grid5"])
@pytest.mark.parametrize("hold", [1, 4])
def test_nodes_that_start_alike_are_alike_after_each_exchange_and_only_then(wire, dtype, hold):
    run = small_run("tree_mean", "random", directions=2, hold=hold, wire=wire)
    for t, x in enumerate(seen(run, 12, dtype=dtype)[0]):
        assert (x == x[:1]).all() == ((t + 1) % hold == 0)


@pytest.mark.parametrize("graph", [complete(4), ring(8), star(4)], ids=lambda g: f"{g.name} {g.n}")
def test_as_many_orthogonal_directions_as_coordinates_give_the_mean_of_what_nodes_hold(graph):
    """q = K = 4 spans the support. All numbers are short dyadic ones and n is a power of two: nothing rounds.

    The losses are linear, so a slope is exact, and L steps of η (d/q) b_i on S leave x − η (d/q) L b̄ there.
    """
    rng = np.random.default_rng(1)
    b = rng.integers(-8, 8, (graph.n, 8)).astype(float)
    problem = Quadratic(np.zeros_like(b), b, 0.0, None)
    method = small("tree_mean", eta=0.25, mu=0.5, q=4, directions=4, hold=2, rule="balanced", **ALL_OF_IT)
    simulation = Simulation([Run(method, graph, problem, 3)])
    x = rng.integers(-8, 8, 8) / 4.0
    simulation.state = method.init(np.broadcast_to(x, (1, graph.n, 8)).copy())
    for _ in range(2 * epoch_length(8, 4)):  # each coordinate twice, in the two rounds of one support
        simulation.round()
    expected = x - 0.25 * (8 / 4) * 2 * b.mean(axis=0)
    assert (simulation.states()[0] == expected).all()


def ends(graph, losses, rounds=40, **options):
    """How far the average moved in each of some rounds of normalised steps, and the last states."""
    method = small("tree_mean", mu=2.0**-8, q=4, directions=4, step_rule="normalised", **options, **ALL_OF_IT)
    simulation = Simulation([Run(method, graph, losses, 1)])
    at, moved = simulation.states()[0].mean(axis=0), []
    for _ in range(rounds):
        simulation.round()
        before, at = at, simulation.states()[0].mean(axis=0)
        moved.append(np.sqrt(((at - before) ** 2).sum()))
    return np.array(moved), simulation.states()


@pytest.mark.parametrize("graph", [complete(2), ring(6), star(16)], ids=lambda g: f"{g.name} {g.n}")
def test_eta_is_how_far_the_average_moves_however_many_nodes_there_are(graph):
    """Of linear losses whose average has the slope 1 along every coordinate: v is the same in all rounds.

    10⁻⁹ is a few million roundings.
    """
    b = 1.0 + quadratic(graph.n, 1, d=8, zeta=2.0).b
    moved, _ = ends(graph, Quadratic(np.zeros_like(b), b, 0.0, None), eta=0.25)
    assert moved == pytest.approx(np.full(40, 0.25), rel=1e-9)


@pytest.mark.parametrize("more", [{"wire": "grid3"}, {"wire": "f64", "hold": 3}], ids=str)
def test_normalised_steps_do_not_depend_on_the_size_of_the_loss(more):
    """A power of two changes no bit of a loss but the exponent, nor of a message but the head."""
    losses = quadratic(6, 1, d=8, omega=0.3, zeta=2.0)
    one, other = (
        ends(ring(6), Quadratic(factor * losses.half, factor * losses.b, 0.0, None), eta=0.25, **more)[1]
        for factor in (1.0, 2.0**-20)
    )
    assert (one == other).all()


def test_a_scale_of_its_own_is_refused_as_all_know_the_common_one():
    with pytest.raises(InputError, match="'normalised_local' is not known; choose from plain, normalised\\."):
        small("tree_mean", step_rule="normalised_local")


def test_a_node_alone_walks_and_sends_nothing():
    run = small_run("tree_mean", path(1), directions=2, hold=3)
    found, simulation = seen(run, 6)
    assert (found[-1] != found[0]).any()
    assert simulation.channel.ledger("scalars").network() == Bits()
    assert run.method.stages(run.world) == 0


@pytest.mark.parametrize("kind", ["tree_mean", "tree_sum"])
def test_a_wire_that_a_node_alone_does_not_use_changes_nothing(kind):
    more = {"tree_mean": {"hold": 2, "q": 4}, "tree_sum": {"bits": 32}}[kind]
    coarse, exact = (states([small_run(kind, path(1), wire=wire, **more)], 5) for wire in ("grid2", "f64"))
    assert_array_equal(coarse, exact)


@pytest.mark.parametrize("graph", [complete(5), ring(6), star(4), path(3)], ids=lambda g: g.name)
@pytest.mark.parametrize(("q", "K"), [(2, 3), (6, 3), (6, 1)])
def test_a_link_of_the_tree_carries_K_numbers_every_L_rounds_whatever_q_is(graph, q, K):
    method = small("tree_mean", q=q, directions=K, hold=4, wire="grid3")
    simulation = Simulation([Run(method, graph, rosenbrock(graph.n, 1, d=6), 1)])
    for _ in range(11):  # exchanges in rounds 3 and 7
        simulation.round()
    ledger, tree = simulation.channel.ledger("scalars"), sum_messages(graph)
    expected = Bits(values=3 * K, control=8).padded().plus(Bits(framing=256)).times(2)
    for link in ledger.links:
        assert ledger.link(*link) == (expected if link in tree else Bits())
    assert simulation.queries.tolist() == [11 * 2 * K * graph.n]


def test_the_last_support_of_an_epoch_has_fewer_directions_and_numbers():
    """d = 7 and q = 4: supports of 4 and 3, which have 4 orthogonal directions each; q = 6: of 6 and 1."""
    for q, sizes in ((4, (4, 4)), (6, (8, 1))):
        method = small("tree_mean", q=q, directions=sizes[0], rule="balanced", wire="f32", **ALL_OF_IT)
        simulation = Simulation([Run(method, path(2), rosenbrock(2, 1, d=7), 1)])
        for size in sizes:
            before = simulation.channel.ledger("scalars").link(0, 1).values
            simulation.round()
            assert simulation.channel.ledger("scalars").link(0, 1).values - before == 32 * size


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_round_waits_on_the_way_to_the_root_and_back(graph):
    depth = {"complete": 1, "ring": 2, "random": 2}[graph]
    assert small("tree_mean").stages(small_run("tree_mean", graph).world) == 2 * depth


def test_rounds_without_an_exchange_keep_no_more_than_they_need():
    held, plain = (Simulation([small_run("tree_mean", directions=2, hold=hold)]).state for hold in (2, 1))
    assert (plain.c, plain.before) == (None, None)
    assert (held.c.shape, held.before.shape) == ((1, 4, 2), (1, 4, 6))


def test_a_run_that_steps_out_of_what_a_wire_reaches_diverges_and_says_so():
    run = small_run("tree_mean", eta=1e12, wire="grid2")
    found = states([run], 1)
    assert np.isnan(found).any()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hold": 0}, "hold must be 1 or more, got 0"),
        ({"directions": 0}, "directions must be 1 or more, got 0"),
        ({"sides": 3}, "sides must be between 1 and 2, got 3"),
        ({"rule": "odd"}, "rule 'odd' is not known; choose from uniform, balanced"),
        ({"codec": "values"}, "codec of tree_mean 'values' is not known; choose from scalars"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changes, says):
    with pytest.raises(InputError, match=says) as error:
        small("tree_mean", **changes)
    assert "\n" not in str(error.value)


def test_more_directions_than_orthogonal_rows_and_wires_read_against_a_receiver_are_refused():
    with pytest.raises(
        InputError, match=r"^5 orthogonal directions do not fit on q = 3 coordinates; there are 4"
    ):
        small("tree_mean", q=3, directions=5, signs="orthogonal").check(small_run("tree_mean").world)
    with pytest.raises(InputError, match=r"^tree_mean cannot use wire mod4"):
        small("tree_mean").wire_for("mod4", "float64")
