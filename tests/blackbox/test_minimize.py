import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blackbox.cases import PROBLEM, SMALL, build, local, make
from zocosmo.blackbox.functions import Functions
from zocosmo.blackbox.minimize import minimize
from zocosmo.blackbox.optimizer import Optimizer
from zocosmo.errors import GraphError, InputError, OracleError
from zocosmo.graphs import ring
from zocosmo.methods import DECAYS, METHODS, Cosmo, Dense, EdgeLocal


def bowl(x):
    return float(x @ x)


OPTIONS = {"q": 1, "eta": 0.1, "mu": 0.1}


def test_minimize_is_the_optimizer_to_the_bit_and_longer_runs_begin_like_shorter_ones():
    funs, seen = [local(i) for i in range(4)], []
    run = make(build("cosmo"), ring(4))
    for _ in range(10):
        run.advance(Functions(funs, 4))
    options = {**SMALL, "seed": 3, "log_every": 1}
    short = minimize(funs, PROBLEM.x0, rounds=10, **options)
    long = minimize(funs, PROBLEM.x0, rounds=20, callback=lambda now: seen.append(now.x), **options)
    assert (short.x == run.mean).all()
    assert (seen[9] == short.x).all()
    assert long.log.head(11).equals(short.log)


@pytest.mark.parametrize("workers", [1, 3])
def test_one_function_a_list_and_a_vectorised_one_are_the_same_run(workers):
    options = {**SMALL, "rounds": 20, "n": 4, "method": "edge_local", "graph": "star"}
    one = minimize(bowl, [1.0, 2.0], workers=workers, **options)
    each = minimize([bowl] * 4, [1.0, 2.0], **options)
    vector = minimize(lambda x: [bowl(row) for row in x], [1.0, 2.0], vectorized=True, **options)
    assert (one.states == each.states).all()
    assert (one.states == vector.states).all()
    assert one.nfev == each.nfev == vector.nfev == 20 * 2 * 2 + 4


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 5000), st.sampled_from(["ring", "star", "path"]), st.sampled_from(["cosmo", "edge_local"])
)
def test_a_budget_is_never_exceeded_and_never_left_when_a_round_fits(budget, graph, method):
    options = {"graph": graph, "n": 4, "method": method, "q": 1, "eta": 0.1, "mu": 0.1}
    spent = minimize(bowl, [1.0, 2.0], budget_bits=budget, **options)
    one_more = minimize(bowl, [1.0, 2.0], rounds=spent.nit + 1, **options)
    assert spent.bits <= budget < one_more.bits
    assert spent.status == 1
    assert not (spent.success and spent.nit < 4)  # what was hardly asked about is no success


def test_rounds_and_budget_together_stop_at_the_first():
    options = {"n": 4, "q": 1, "eta": 0.1, "mu": 0.1}  # a round on the ring: 2 messages of 64 bits
    few = minimize(bowl, [1.0, 2.0], rounds=3, budget_bits=10 * 128, **options)
    poor = minimize(bowl, [1.0, 2.0], rounds=10, budget_bits=3 * 128, **options)
    assert (few.status, few.nit, poor.status, poor.nit) == (0, 3, 1, 3)
    assert (few.states == poor.states).all()


def test_the_result_adds_up():
    asked = []
    result = minimize(
        lambda x: asked.append(x) or bowl(x), [1.0, 2.0, 3.0], n=4, rounds=25, q=1, eta=0.1, mu=0.1
    )
    assert result.nfev == len(asked) == 25 * 8 + 4
    assert result.bits == result.bits_by_kind["values"] == 25 * 2 * 64
    assert result.fun == bowl(result.x)
    assert (result.x == result.states.mean(axis=0)).all()
    assert result.log["round"].tolist() == [0, 10, 20, 25]
    assert result.log["queries"].tolist() == [0, 80, 160, 200]
    assert (result.success, result.status, result.suggestion) == (True, 0, None)


def test_query_loss_is_the_mean_of_what_was_answered():
    answers = []
    result = minimize(
        lambda x: answers.append(bowl(x)) or answers[-1], [1.0, 2.0], rounds=1, q=1, eta=0.1, mu=0.5
    )
    assert result.log["query_loss"].tolist()[1:] == [(answers[0] + answers[1]) / 2]


def test_measuring_adds_the_objective_and_counts_its_queries():
    result = minimize(bowl, [1.0, 2.0], n=2, rounds=20, q=1, eta=0.1, mu=0.1, measure=True)
    assert result.log["objective"].tolist()[0] == 5.0
    assert result.log["objective"].tolist()[-1] == result.fun
    assert result.nfev == 20 * 4 + 3 * 2
    assert result.log["queries"].tolist() == [2, 44, 86]


def test_problems_can_be_minimised_as_they_are():
    result = minimize(PROBLEM, PROBLEM.x0, rounds=300, **{**SMALL, "eta": 0.01}, measure=True)
    assert result.log["objective"].iloc[-1] < result.log["objective"].iloc[0] / 10


def stop_by_error(now):
    raise StopIteration


@pytest.mark.parametrize("callback", [lambda now: now.nit == 1, stop_by_error])
def test_a_callback_stops_the_run(callback):
    result = minimize(bowl, [1.0, 2.0], rounds=20, q=1, eta=0.1, mu=0.1, callback=callback)
    assert (result.status, result.success, result.nit) == (2, False, 1)


def test_a_callback_sees_where_the_run_is():
    seen = []
    minimize(bowl, [1.0, 2.0], n=2, rounds=3, q=1, eta=0.1, mu=0.1, callback=seen.append)
    assert [(now.nit, now.nfev, now.bits) for now in seen] == [(1, 4, 64), (2, 8, 128), (3, 12, 192)]
    assert seen[0].fun > seen[2].fun


@pytest.mark.parametrize(("funs", "eta"), [([bowl] * 2, 1e3), ([np.sum, lambda x: -x.sum()], 1.7e308)])
def test_a_run_that_diverges_ends_and_says_so(funs, eta):
    """By its loss, or by states that overflow in the first round, to infinities of both signs."""
    result = minimize(funs, [1.0, 2.0], rounds=500, q=1, eta=eta, mu=0.1, measure=True)
    assert (result.status, result.success) == (3, False)
    assert result.nit < 500
    assert np.isnan([result.fun, result.log["objective"].iloc[-1]]).all()
    assert "lower eta" in result.message


def test_oracle_errors_are_not_swallowed():
    with pytest.raises(OracleError, match=r"node 1, round 0, query x \+ μu: the loss is nan"):
        minimize([bowl, lambda x: np.nan], [1.0], rounds=2, q=1, eta=0.1, mu=0.1)


SLOW = {  # what is left of the loss after a hundred rounds, at most, where it is more than a tenth
    **dict.fromkeys(["meerkat", "sparse_mezo", "subcge", "subzero"], 1.0),  # a part of x, or a subspace
    "ef21": 1.0,  # one noisy estimate is told over many rounds
    **dict.fromkeys(["feedsign", "fzoo"], 1.0),  # steps do not shorten
}


@pytest.mark.parametrize("name", sorted(METHODS))
def test_what_is_missing_is_suggested_and_every_method_then_descends(name):
    more = {"rank": 2} if name in ("subcge", "subzero") else {}
    result = minimize(bowl, np.linspace(1, 2, 16), n=3, rounds=100, method=name, **more)
    assert result.fun < bowl(np.linspace(1, 2, 16)) * SLOW.get(name, 0.1)
    assert (result.method.eta, result.method.mu) == (result.suggestion.eta, result.suggestion.mu)
    assert result.suggestion.q == getattr(result.method, "q", 16)
    assert result.nfev >= result.suggestion.queries + 2 * 100


@pytest.mark.parametrize(("name", "size"), [("cosmo", 2), ("rand_k", 2), ("dense", 16), ("com_dszo", 16)])
def test_probes_are_as_wide_as_the_method_s_directions(name, size):
    """uᵀ(2I)u = 2 × the coordinates of u; com_dszo queries all of them and sends q."""
    found = minimize(bowl, np.ones(16), rounds=0, method=name, wire="f64").suggestion
    assert found.curvature == pytest.approx(2 * size, rel=1e-9)
    assert found.q == (16 if name == "dense" else 2)


@pytest.mark.parametrize("given", [{}, {"eta": 0.1, "mu": 0.1}])
def test_what_nothing_suggests_is_asked_for_before_any_query(given):
    asked = []
    with pytest.raises(InputError, match="method subcge needs 'rank', which cannot be suggested"):
        minimize(lambda x: asked.append(x) or 1.0, np.ones(16), n=3, rounds=1, method="subcge", **given)
    assert asked == []


@pytest.mark.parametrize(
    ("name", "more"), [("decomfl", {"perturbations": 3}), ("meerkat", {"local_steps": 9})]
)
def test_probes_are_no_wider_than_x_where_a_round_has_several_directions(name, more):
    found = minimize(bowl, np.ones(16), rounds=0, method=name, **more).suggestion
    assert found.curvature == pytest.approx(2 * 16, rel=1e-9)


@pytest.mark.parametrize("method", ["mezo", "subzero", "sparse_mezo"])
def test_a_budget_alone_ends_no_run_that_sends_nothing(method):
    with pytest.raises(InputError, match=f"{method} sends nothing, so no budget ends its run"):
        minimize(bowl, np.ones(16), n=3, budget_bits=100, method=method)


def test_a_budget_alone_ends_the_run_of_one_node_with_a_server():
    result = minimize(bowl, np.ones(16), budget_bits=100, method="feedsign")
    assert (result.status, result.nit) == (1, 50)


@pytest.mark.parametrize("codec", ["indexed", "delta", "entropy"])
def test_a_budget_is_not_exceeded_where_sizes_are_private(codec):
    result = minimize(bowl, np.linspace(1, 2, 40), n=4, budget_bits=20_000, method="ef21", q=3, codec=codec)
    assert result.status == 1
    assert result.bits <= 20_000


@pytest.mark.parametrize("unit", [2.0**-20, 1.0, 2.0**20])
def test_steps_that_no_slope_scales_are_suggested_in_the_unit_of_x(unit):
    """Losses in another unit have other slopes and curvatures, and FeedSign's path is the same."""
    result = minimize(lambda x: unit * bowl(x), np.linspace(1, 2, 16), n=3, rounds=100, method="feedsign")
    assert result.fun < unit * bowl(np.linspace(1, 2, 16)) / 2


def test_q_alone_is_suggested_without_a_query():
    result = minimize(bowl, np.ones(80), rounds=5, eta=0.01, mu=0.1)
    assert (result.method.q, result.suggestion.q, result.suggestion.queries) == (10, 10, 0)
    assert result.nfev == 5 * 2 + 1


def test_what_is_given_is_kept():
    result = minimize(bowl, np.ones(8), rounds=5, mu=0.125, q=3, beta=0.5)
    assert (result.method.mu, result.method.q, result.method.beta) == (0.125, 3, 0.5)


def test_default_graphs_are_one_node_a_pair_and_a_ring():
    def bits(n):
        return minimize(bowl, [1.0], n=n, rounds=1, q=1, eta=0.1, mu=0.1).bits / 64

    assert [bits(n) for n in (1, 2, 3, 5)] == [0, 1, 2, 2]


OK = {"rounds": 1, "q": 1, "eta": 0.1, "mu": 0.1}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rounds": None}, "give rounds, budget_bits"),
        ({"rounds": None, "budget_bits": 100}, "a single node sends nothing"),
        ({"rounds": -1}, "rounds must be 0 or more, got -1"),
        ({"budget_bits": -1}, "budget_bits must be a finite number at least 0, got -1"),
        ({"log_every": 0}, "log_every must be 1 or more"),
        ({"method": "adam"}, "method 'adam' is not known; choose from cosmo"),
        ({"method": "dense"}, "method dense has no 'q'"),
        ({"coupling": "G"}, "method cosmo has no 'coupling'"),
        ({"method": Cosmo(**SMALL)}, "a finished method does not take q, eta, mu"),
        ({"graph": "web", "n": 3}, "graph 'web' is not known"),
        ({"graph": "erdos_renyi", "n": 3}, "zocosmo.graphs.erdos_renyi(3, …)"),
        ({"graph": ring(4), "n": 3}, "n: 3, graph: 4"),
        ({"wire": "f8"}, "wire 'f8' is not known"),
        ({"q": 5}, "q = 5 coordinates of d = 2"),
        ({"eta": "a"}, "eta must be a number, got 'a'"),
        ({"callback": 3}, "callback must be a function, got 3"),
        ({"bound": 0}, "bound must be above 0, got 0"),
        ({"timeout": "5"}, "timeout is a number of seconds above 0, got '5'"),
        ({"reach": -1.0}, "reach, the largest mu to probe, must be above 0, got -1.0"),
        ({"method": Cosmo}, "method must be a name or a finished method such as Cosmo(q=…), got <class"),
        ({"decay": "cosine"}, "decay must be one made of a class in zocosmo.methods.DECAYS, got 'cosine'"),
        ({"decay": {"kind": "cosine"}}, "decay must be one made of"),
        ({"decay": DECAYS["cosine"]}, "decay must be one made of"),
    ],
)
def test_mistakes_are_refused_before_anything_is_asked(options, words):
    asked = []
    with pytest.raises(InputError) as caught:
        minimize(lambda x: asked.append(x) or 1.0, [1.0, 2.0], **{**OK, **options})
    assert words in str(caught.value)
    assert asked == []


@pytest.mark.parametrize(
    "options", [{"method": "edge_local"}, {"method": "marina_type", "n": 4, "graph": "star"}]
)
def test_a_world_that_a_method_cannot_run_in_is_refused_before_probing(options):
    asked = []
    with pytest.raises(GraphError):
        minimize(lambda x: asked.append(x) or 1.0, [1.0, 2.0], rounds=1, **options)
    assert asked == []


def test_nodes_may_start_apart():
    x0 = np.array([[0.0, 0.0], [4.0, 8.0]])
    result = minimize(bowl, x0, rounds=1, method=EdgeLocal(q=2, eta=0.0, mu=0.1))
    assert result.states.tolist() == [[2.0, 4.0], [2.0, 4.0]]
    assert minimize(bowl, x0, rounds=0, method=Dense(eta=0.1, mu=0.1)).disagreement == 20.0


def breaks_at(count, error):
    """A bowl that raises at its query of that number."""
    calls = iter(range(10**6))

    def fun(x):
        if next(calls) == count:
            raise error
        return bowl(x)

    return fun


def test_a_failed_query_hands_over_what_was_reached():
    """Rounds of 2 queries: the one of number 41 is the second of round 20."""
    fine = minimize(bowl, [1.0, 2.0], rounds=20, **OPTIONS)
    with pytest.raises(OracleError) as caught:
        minimize(breaks_at(41, ValueError("cable")), [1.0, 2.0], rounds=99, **OPTIONS)
    result = caught.value.result
    assert (result.status, result.success, result.nit) == (4, False, 20)
    assert (result.states == fine.states).all()
    assert result.log["round"].tolist() == [0, 10, 20]
    assert result.message.startswith("The oracle failed in round 20: node 0, round 20, query x − μu")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143)])
def test_an_interrupt_hands_over_what_was_reached(error):
    with pytest.raises(type(error)) as caught:
        minimize(breaks_at(41, error), [1.0, 2.0], rounds=99, **OPTIONS)
    assert (caught.value.result.status, caught.value.result.nit) == (5, 20)


def test_a_failed_last_measurement_does_not_lose_the_run():
    with pytest.raises(OracleError) as caught:
        minimize(breaks_at(40, ValueError()), [1.0, 2.0], rounds=20, **OPTIONS)
    assert (caught.value.result.nit, np.isnan(caught.value.result.fun)) == (20, True)


def test_a_run_goes_on_from_its_states():
    first = minimize(bowl, [1.0, 2.0], n=3, rounds=5, **OPTIONS)
    second = minimize(bowl, first.states, rounds=0, **OPTIONS)
    assert (second.states == first.states).all()


@pytest.mark.parametrize("method", ["decomfl", "fedkseed", "meerkat"])
def test_a_run_with_a_server_goes_on_from_the_server_s_model(method):
    options = {"n": 4, "method": method, "participants": 1}
    first = minimize(bowl, np.linspace(1, 2, 8), rounds=9, **options)
    second = minimize(bowl, first.states, rounds=0, **options)
    assert (second.x == first.x).all()


def test_a_loss_that_starts_far_below_zero_has_not_diverged():
    """Query losses near −1e6 against a bound of 10: bound × max(1, |first|) is what counts."""
    result = minimize(lambda x: bowl(x) - 1e6, [1.0, 2.0], rounds=5, bound=10, **OPTIONS)
    assert result.status == 0


def test_a_value_that_a_wire_cannot_hold_is_named():
    options = {**OPTIONS, "wire": "f16", "n": 2}
    result = minimize(lambda x: float(((x - 7e4) ** 2).sum()), [6e4, 6e4], rounds=200, **options)
    assert result.status == 3
    assert "a value passed 65504, the most that wire f16 holds" in result.message
    assert "wire" not in minimize(bowl, [1.0], rounds=500, q=1, eta=1e3, mu=0.1).message


@pytest.mark.parametrize("method", ["cosmo", "dense", "com_dszo"])
def test_states_that_overflow_are_found_though_only_touched_ones_are_looked_at(method):
    size = {} if method == "dense" else {"q": 1}
    result = minimize(np.sum, [1.0, 2.0], n=3, rounds=50, method=method, eta=1.7e308, mu=0.1, **size)
    assert (result.status, result.success) == (3, False)


@pytest.mark.parametrize("method", ["decomfl", "fedkseed"])
def test_a_server_s_model_that_overflows_in_the_last_round_is_found(method):
    options = {"eta": 1.7e308, "mu": 0.1}
    result = minimize(lambda x: 1e3 * x.sum(), np.ones(4), n=3, rounds=1, method=method, **options)
    assert (result.status, result.success) == (3, False)


def test_huge_losses_diverge_without_a_warning():
    """Their sum over nodes is beyond floats; warnings are errors here."""
    result = minimize(lambda x: 5e307 * np.tanh(x.sum()), [1.0, 2.0], n=4, rounds=9, q=1, eta=1e9, mu=1e-9)
    assert (result.status, result.message[:24]) == (3, "The run diverged in roun")


def test_a_loss_keeps_its_own_warnings():
    with pytest.raises(OracleError, match="raised RuntimeWarning: divide by zero"):
        minimize(lambda x: float(np.log(x * 0).sum()), [1.0], rounds=1, **OPTIONS)


def test_reach_bounds_where_probes_go():
    seen = []
    minimize(lambda x: seen.append(np.abs(x - 1).max()) or bowl(x), np.ones(4), rounds=0, reach=0.01)
    assert 0.01 * (1 - 1e-9) < max(seen) < 0.01 * (1 + 1e-9)


def test_a_plain_oracle_is_minimised_as_it_is():
    def oracle(x, t, *, active=None):
        return (x**2).sum(axis=-1)

    plain = minimize(oracle, [1.0, 2.0], n=3, rounds=30, measure=True, **OPTIONS)
    same = minimize(lambda x: (x**2).sum(), [1.0, 2.0], n=3, rounds=30, measure=True, **OPTIONS)
    assert (plain.states == same.states).all()
    assert plain.nfev == same.nfev


def test_a_callback_s_x_is_made_once_a_round_and_only_for_a_callback(monkeypatch):
    made = []
    mean = Optimizer.mean.fget
    monkeypatch.setattr(Optimizer, "mean", property(lambda run: made.append(run.t) or mean(run)))
    minimize(bowl, [1.0, 2.0], rounds=9, log_every=100, **OPTIONS)
    without = len(made)
    minimize(bowl, [1.0, 2.0], rounds=9, log_every=100, callback=lambda now: None, **OPTIONS)
    assert len(made) - 2 * without == 9


def test_importing_the_optimizer_is_quick():
    """Heavy libraries are imported where a result is made, not before."""
    heavy = "('scipy', 'pandas', 'typer')"
    code = f"import sys, zocosmo.blackbox.minimize; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "[]\n"


class Drifting:
    """A loss whose answers depend on how often it was asked."""

    def __init__(self):
        self.asked = 0

    def __call__(self, x):
        self.asked += 1
        return float((x**2).sum() + 0.01 * np.sin(self.asked))

    def state_dict(self):
        return {"asked": self.asked}

    def load_state_dict(self, state):
        self.asked = state["asked"]


def drifting(rounds, **options):
    return minimize([Drifting() for _ in range(4)], [1.0, 2.0, 3.0], rounds=rounds, **options)


def test_a_resumed_run_ends_in_the_bits_of_one_that_was_not_stopped():
    numbers = {"q": 1, "eta": 0.1, "mu": 0.01}
    whole, half = drifting(20, **numbers), drifting(9, **numbers)
    rest = drifting(20, method=half.method, resume=half.snapshot)
    assert (rest.states == whole.states).all()
    assert (rest.nfev, rest.bits) == (whole.nfev, whole.bits)


def test_resuming_needs_the_method_of_the_earlier_result():
    with pytest.raises(InputError, match=r"pass result\.method"):
        drifting(20, q=1, eta=0.1, mu=0.01, resume={})
