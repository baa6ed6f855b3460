"""A language model as a problem: whose examples, who is asked, what is measured, and which bits are equal.

Tolerances of fused forwards: losses of order 1 differ by what float32 rounds on the way, below 1e-6 each;
1e-5 is ten times that, and a slope may differ by 1e-5 / μ.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from llm.tiny import tiny_folder  # noqa: E402
from zocosmo.core.support import Direction  # noqa: E402
from zocosmo.errors import InputError  # noqa: E402
from zocosmo.graphs.graph import complete, ring  # noqa: E402
from zocosmo.llm.backbone import Backbone  # noqa: E402
from zocosmo.llm.batches import Examples  # noqa: E402
from zocosmo.llm.evaluate import evaluate  # noqa: E402
from zocosmo.llm.problem import LanguageModel  # noqa: E402
from zocosmo.methods import Cosmo, EdgeLocal, MarinaType  # noqa: E402
from zocosmo.oracle import Problem, Query  # noqa: E402
from zocosmo.problems.draws import private  # noqa: E402
from zocosmo.problems.language import llm  # noqa: E402
from zocosmo.sim.engine import Run, Simulation  # noqa: E402
from zocosmo.torch.rows import Rows  # noqa: E402

CLOSE, MU, Q, BATCH, ROWS = 1e-5, 0.01, 5, 2, 17
SMALL = {"rank": 2, "batch": BATCH, "train_rows": 40, "validation_rows": ROWS, "threads": 1, "eval_batch": 4}
ONE_BY_ONE, FUSED = "one_by_one", "fused"


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Problems on one tiny model."""
    model = str(tiny_folder(tmp_path_factory.mktemp("models") / "tiny"))

    def build(n=3, seed=1, queries=ONE_BY_ONE, **given):
        return llm(n, seed, model=model, queries=queries, **{**SMALL, **given})

    return build


def states(*shape, seed=0, dtype=np.float32):
    """Far enough from the start that adapters do something."""
    return (0.2 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def query(x, *, seed=0, active=None):
    """A direction of its own for each node."""
    rng = np.random.default_rng(seed)
    lead, d = x.shape[:-1], x.shape[-1]
    index = np.sort(rng.permuted(np.broadcast_to(np.arange(d), (*lead, d)), axis=-1)[..., :Q], axis=-1)
    signs = rng.choice([-1.0, 1.0], (*lead, Q)).astype(x.dtype)
    return Query(x, (Direction(index, d, signs),), MU, active)


def part_of(asked, pick):
    """A query of some nodes only."""
    return Query(asked.x[pick], (asked.u.pick(lambda rows: rows[pick]),), MU)


def advance(simulation, rounds):
    for _ in range(rounds):
        simulation.round()
    return simulation


def run_of(problem, method=None, graph=None, seed=1):
    step = method or Cosmo(q=Q, eta=20.0, mu=MU, beta=0.5)
    return Run(step, graph or complete(problem.n), problem, seed)


@pytest.fixture
def drawn(monkeypatch):
    """Which training examples were asked for, forward by forward."""
    seen, batch = [], Examples.batch

    def see(self, rows, device, multiple=1):
        seen.append(np.array(rows).tolist())
        return batch(self, rows, device, multiple=1)

    monkeypatch.setattr(Examples, "batch", see)
    return seen


@pytest.fixture
def asked(monkeypatch):
    """How many adapters each forward had."""
    seen, losses = [], Backbone._losses

    def see(self, adapters, batch):
        seen.append(len(adapters))
        return losses(self, adapters, batch)

    monkeypatch.setattr(Backbone, "_losses", see)
    return seen


# The same bits in any company


def test_a_node_alone_computes_what_it_does_among_all(make):
    whole = make()
    x = states(3, whole.d)
    both, each = query(x), whole.measures(x)
    slopes, losses = whole.slopes(both, 4), whole(x, 5)
    for i in range(3):
        one = make().at([i])
        assert one.slopes(part_of(both, [i]), 4).tobytes() == slopes[[i]].tobytes()
        assert one(x[[i]], 5).tobytes() == losses[[i]].tobytes()
        told = one.measures(x[[i]])
        assert [told[name][0] for name in ("objective", "accuracy")] == [
            each[name][i] for name in ("objective", "accuracy")
        ]


def test_nodes_of_nodes_keep_their_numbers(make):
    whole = make()
    x = states(3, whole.d)
    assert whole.at([1, 2]).at([1]).nodes == (2,)
    assert whole.at([1, 2]).at([1])(x[[2]], 3)[0] == whole(x, 3)[2]


def test_stacked_trials_one_by_one_are_each_alone(make):
    stacked = LanguageModel.stack([make(seed=seed, split="iid") for seed in range(3)])  # own shards each
    x = states(3, 3, stacked.d)
    both = query(x)
    together, told = stacked.slopes(both, 2), stacked.measures(x)
    for k in range(3):
        alone = make(seed=k, split="iid")
        assert alone.slopes(part_of(both, k), 2).tobytes() == together[k].tobytes()
        assert all(
            (told[name][k] == each).all() for name, each in alone.measures(x[k]).items() if name != "snr"
        )


def test_stacked_trials_in_one_forward_are_each_alone_but_for_rounding(make):
    stacked = LanguageModel.stack([make(seed=seed, queries=FUSED) for seed in range(3)])
    x = states(3, 3, stacked.d)
    losses, told, exact = stacked(x, 2), stacked.measures(x), [make(seed=k) for k in range(3)]
    assert np.abs(losses - [one(x[k], 2) for k, one in enumerate(exact)]).max() < CLOSE
    apart = told["objective"] - [one.measures(x[k])["objective"] for k, one in enumerate(exact)]
    assert np.abs(apart).max() < CLOSE
    slopes = [one.slopes(part_of(query(x), k), 2) for k, one in enumerate(exact)]
    assert np.abs(stacked.slopes(query(x), 2) - slopes).max() < CLOSE / MU


def test_a_batch_of_runs_is_each_run_alone(make):
    runs = [run_of(make(2, seed=seed, clip=0.8), seed=seed) for seed in range(2)]
    together = advance(Simulation(runs, dtype="float32"), 12).states()
    for k, run in enumerate(runs):
        alone = advance(Simulation([run], dtype="float32"), 12).states()[0]
        assert alone.tobytes() == together[k].tobytes()


def test_only_problems_of_one_setting_stack(make):
    for other in (make(batch=1), make(n=2), LanguageModel.stack([make()])):
        with pytest.raises(InputError, match="only single problems of one setting and the same nodes stack"):
            LanguageModel.stack([make(), other])


@pytest.mark.parametrize("queries", [ONE_BY_ONE, FUSED])
def test_draws_made_while_a_forward_runs_are_those_made_at_once(make, queries):
    found = []
    for ahead in (True, False):
        simulation = Simulation([run_of(make(queries=queries))], dtype="float32")
        assert simulation.draws.at_once == 1
        simulation.problem.asynchronous = ahead
        advance(simulation, 8)
        assert simulation.draws._now[0] == 7 + ahead
        jumps = [simulation.draws.at(t).u.index.tolist() for t in (30, 2, 8, 9)]  # as after a restart
        found.append((simulation.states().tobytes(), jumps))
    assert found[0] == found[1]


# Queries


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("queries", [ONE_BY_ONE, FUSED])
def test_a_slope_is_the_difference_of_two_queries(make, queries, dtype):
    problem = make(queries=queries)
    x = states(3, problem.d, dtype=dtype)
    both = query(x)
    plus, minus = (problem(point, 3) for point in both.points())
    told, slope = problem.slopes(both, 3), both.slope(plus, minus)
    assert told.dtype == dtype
    if queries == ONE_BY_ONE:
        assert told.tobytes() == slope.tobytes()
    else:  # two forwards of 3 rows, or one of 6
        assert np.abs(told - slope).max() < CLOSE / MU
    assert np.abs(slope).min() > 0


@pytest.mark.parametrize("queries", [ONE_BY_ONE, FUSED])
def test_queries_leave_the_states_alone(make, queries):
    problem = make(queries=queries)
    x = states(3, problem.d)
    before = x.tobytes()
    problem.slopes(query(x), 0)
    problem(x, 0)
    problem.measures(x)
    assert x.tobytes() == before


@pytest.mark.parametrize(("queries", "forwards"), [(ONE_BY_ONE, [1] * 4), (FUSED, [4])])
def test_inactive_nodes_have_no_slope_and_are_not_asked(make, asked, queries, forwards):
    problem, active = make(queries=queries), np.array([True, False, True])
    x = states(3, problem.d)
    x[1] = np.nan  # whoever asks it finds out
    slopes = problem.slopes(query(x, active=active), 0)
    assert asked == forwards
    assert slopes[1].tolist() == [0.0]
    assert np.isfinite(slopes).all()
    assert problem.record.count.tolist() == [1, 0, 1]
    assert problem.record.visited.sum(axis=1).tolist() == [Q, 0, Q]


def test_an_active_node_answers_as_it_does_when_all_are(make):
    x, problem = states(3, make().d), make()
    everyone = problem.slopes(query(x), 6)
    some = make().slopes(query(x, active=np.array([False, True, True])), 6)
    assert some[1:].tobytes() == everyone[1:].tobytes()
    answers = problem(x, 6, active=np.array([True, False, False]))
    assert (answers[0], np.isnan(answers).tolist()) == (problem(x, 6)[0], [False, True, True])


def test_examples_made_ready_for_others_are_not_used(make):
    """In one forward the next round's examples are drawn ahead for those who were asked now."""
    x = states(3, make().d)
    ahead, fresh = make(queries=FUSED), make(queries=FUSED)
    first, some = (query(x, active=np.array(who)) for who in ([True, True, False], [False, True, True]))
    ahead.slopes(first, 0)
    ahead.look_ahead(some.u, first, 1)
    assert (ahead.sampler.ready.t, ahead.sampler.ready.rows.tolist()) == (1, [0, 1])
    assert ahead.slopes(some, 1).tobytes() == fresh.slopes(some, 1).tobytes()
    assert ahead.slopes(some, 9).tobytes() == fresh.slopes(some, 9).tobytes()


# Examples


def test_examples_depend_on_seed_node_and_round_alone(make, drawn):
    def seen(problem, t, seed=0):
        drawn.clear()
        problem.slopes(query(states(problem.n, problem.d, seed=seed)), t)
        return [tuple(rows) for rows in drawn]

    first = seen(make(), 7)
    assert len(set(first)) == 3
    assert seen(make(), 7, seed=5) == first  # whatever the states
    assert seen(make().at([2]), 7) == first[2:]
    assert seen(make(queries=FUSED), 7)[0] == sum(first, ())
    assert [seen(make(), 8)[i] == first[i] for i in range(3)] == [False] * 3
    assert [seen(make(seed=2), 7)[i] == first[i] for i in range(3)] == [False] * 3


@pytest.mark.parametrize("split", ["contiguous", "iid", "dirichlet"])
def test_examples_come_from_the_nodes_own_shard(make, drawn, split):
    """120 draws of each node: of 13 examples or so each is seen, so a node has its whole shard."""
    problem = make(split=split, seed=3)
    owned = problem.subject.shards(3, private(3))
    x = states(3, problem.d)
    for t in range(60):
        problem.sampler.batch(t, np.arange(3), 1)
    by_node = np.array(drawn).reshape(60, 3, BATCH)
    found = [set(by_node[:, i].ravel().tolist()) for i in range(3)]
    assert all(found[i] <= set(owned[i].tolist()) for i in range(3))
    assert sum(map(len, found)) > 0.9 * 40
    drawn.clear()
    problem(x, 59)
    assert drawn == by_node[59].tolist()  # those are what a query sees


# Measures


@pytest.mark.parametrize("queries", [ONE_BY_ONE, FUSED])
@pytest.mark.parametrize(("n", "rows"), [(3, ROWS), (5, 3)])
def test_the_mean_over_nodes_is_one_evaluation_of_all_examples(make, queries, n, rows):
    """17 examples of three nodes have unequal parts, and of five nodes with three examples two have none."""
    problem = make(n, queries=queries, validation_rows=rows)
    x = states(problem.d)
    told = problem.measures(np.broadcast_to(x, (n, problem.d)))
    whole = evaluate(problem.subject.backbone, problem.subject.validation, x, each=rows)
    assert told["objective"].mean() == pytest.approx(whole.nll, abs=CLOSE)
    right = told["accuracy"] * rows / n  # of each node, a count
    assert np.abs(right - right.round()).max() < 1e-12
    assert right.round().sum() == round(whole.accuracy * rows)
    assert 0 < whole.accuracy < 1


def test_every_example_is_measured_once(make, drawn):
    problem = make()
    problem.measures(np.broadcast_to(states(problem.d), (3, problem.d)))
    seen = sorted(k for rows in drawn for k in rows)
    assert seen == list(range(ROWS))  # one by one nothing is repeated to fill a row


def test_what_a_node_has_seen_is_the_mean_of_its_queries(make):
    problem = make()
    x = states(3, problem.d)
    assert np.isnan(problem.local(x)).all()
    means = []
    for t in range(2):
        plus, minus = (problem(point, t) for point in query(x, seed=t).points())
        problem.slopes(query(x, seed=t), t)
        means.append((plus + minus) / 2)
    assert np.abs(problem.local(x) - np.mean(means, axis=0)).max() < 1e-15


def test_the_report_has_the_norm_and_the_way_from_the_start(make):
    problem = make()
    start = problem.x0.astype(np.float64)
    step = np.zeros(problem.d)
    step[[3, 8]] = 3.0, 4.0
    told = problem.report(start + step)
    assert told["moved"] == pytest.approx(5.0, rel=1e-12)
    assert told["norm"] == pytest.approx(np.linalg.norm(start + step), rel=1e-12)


def test_every_trial_starts_where_the_setting_says(make):
    first, other = make(seed=1), make(seed=2)
    assert (first.x0 == other.x0).all()
    assert (first.x0 == first.subject.layout.start(0)).all()
    assert not (make(start=4).x0 == first.x0).all()
    assert LanguageModel.stack([first, other]).x0.shape == (2, first.d)


# From round to round


def test_what_is_remembered_comes_back_to_the_bit(make):
    """Twelve rounds, so that the clip has begun; then on in a problem that was told, and in this one."""
    first, x = make(clip=0.6, noise=1e-7), states(3, make().d)
    for t in range(12):
        first.slopes(query(x, seed=t), t)
    second, forgetful = make(clip=0.6, noise=1e-7), make(clip=0.6, noise=1e-7)
    second.restore(first.snapshot())
    slopes = [each.slopes(query(x, seed=t), t) for t in range(12, 24) for each in (first, second, forgetful)]
    assert all((a == b).all() for a, b in zip(slopes[::3], slopes[1::3], strict=True))
    assert any((a != b).any() for a, b in zip(slopes[::3], slopes[2::3], strict=True))  # it mattered
    assert all((first.snapshot()[k] == v).all() for k, v in second.snapshot().items())


@pytest.mark.parametrize("queries", [ONE_BY_ONE, FUSED])
def test_a_run_restored_in_the_middle_is_the_uninterrupted_one(make, queries):
    """On a ring of three a node is asked in two rounds of three: after 18 the clip has begun."""
    method = EdgeLocal(q=Q, eta=20.0, mu=MU, beta=0.5)
    run = run_of(make(queries=queries, clip=0.6), method, ring(3))
    straight, resumed = (Simulation([run], dtype="float32", codecs=["values", "indexed"]) for _ in range(2))
    advance(straight, 18)
    resumed.restore({name: array.copy() for name, array in straight.arrays().items()})
    measured = [advance(each, 9).checkpoint() for each in (straight, resumed)]
    kept = [{name: array.tobytes() for name, array in each.arrays().items()} for each in (straight, resumed)]
    assert kept[0] == kept[1]
    assert [now.objective.tobytes() for now in measured] == [measured[0].objective.tobytes()] * 2
    assert straight.problem.record.cut.sum() > 0


@pytest.mark.parametrize(
    ("method", "each"),
    [(Cosmo(q=Q, eta=20.0, mu=MU, beta=0.5), 6), (EdgeLocal(q=Q, eta=20.0, mu=MU, beta=0.5), 4)],
    ids=["cosmo", "edge_local"],
)
def test_a_round_changes_q_coordinates_of_a_node_and_takes_two_queries(make, asked, method, each):
    """On a ring of three a matching has one pair, and the third node is idle."""
    simulation = Simulation([run_of(make(), method, ring(3))], dtype="float32")
    for t in range(1, 5):
        before = simulation.states()
        after = advance(simulation, 1).states()
        changed = (before != after).sum(axis=-1)
        assert changed.max() <= Q
        assert changed.sum() >= each // 2  # somebody moved, and at most as many as were asked
        assert simulation.queries.tolist() == [each * t] == [sum(asked)]


# States on a device


DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]


def in_rows(device):
    return lambda self, *opened: Rows(Problem.states(self, *opened), torch.device(device))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("queries", [ONE_BY_ONE, FUSED])
@pytest.mark.parametrize("kind", [Cosmo, EdgeLocal])
def test_states_in_rows_give_the_bits_of_states_in_an_array(make, monkeypatch, kind, queries, device):
    found, method = [], kind(q=Q, eta=20.0, mu=MU, beta=0.5)
    kinds = (Problem.states, in_rows(device))
    for states_of in kinds:
        monkeypatch.setattr(LanguageModel, "states", states_of)
        problem = make(queries=queries, device=device)
        simulation = Simulation([run_of(problem, method, ring(3))], dtype="float32")
        now = advance(simulation, 6).checkpoint()
        assert isinstance(simulation.state.x, Rows) == (states_of is kinds[1])
        kept = {name: array.tobytes() for name, array in simulation.arrays().items()}
        found.append((kept, now.objective.tobytes(), now.extra["coverage"].tobytes()))
    assert found[0] == found[1]


def test_states_are_arrays_on_the_cpu(make):
    problem = make()
    made = problem.states(Cosmo(q=Q, eta=1.0, mu=MU), (1,), np.float32)
    assert isinstance(made, np.ndarray)
    assert (made.dtype, made.shape) == (np.float32, (1, 3, problem.d))


@pytest.mark.parametrize("queries", [ONE_BY_ONE, FUSED])
def test_a_process_whose_only_node_is_idle_asks_nothing(make, asked, queries):
    alone = make(queries=queries).at([1])
    slope = alone.slopes(query(states(1, alone.d), active=np.array([False])), 0)
    assert slope.tolist() == [[0.0]]
    assert asked == []


def test_a_method_that_adds_up_whole_states_gets_arrays(make, monkeypatch):
    """On a GPU states lie in rows, which only supports can read."""
    monkeypatch.setattr("zocosmo.llm.problem.pick_device", lambda device: "cuda")
    monkeypatch.setattr("zocosmo.llm.problem.Rows", lambda x, device: Rows(x, torch.device("cpu")))
    shared = {"q": 4, "eta": 1e-3, "mu": MU}
    methods = [MarinaType(period=2, **shared), Cosmo(**shared)]
    made = [Simulation([Run(m, complete(3), make(), 1)], dtype=np.float32, wire="f32") for m in methods]
    for sim in made:
        sim.round()
    assert [type(sim.state.x) for sim in made] == [np.ndarray, Rows]
