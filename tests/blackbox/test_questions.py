"""Single answers in any order, from rigs of different speed; runs on disk."""

import random

import numpy as np
import pytest

from blackbox.cases import PROBLEM, build, local, make
from zocosmo import Optimizer
from zocosmo.errors import InputError, OracleError
from zocosmo.graphs import complete, ring, star
from zocosmo.methods import DECAYS, METHODS, Cosmo

FUNS = [local(i) for i in range(4)]


def tell_one_by_one(run, rounds, seed=0):
    """Answer a random open question until so many rounds are done."""
    rng = random.Random(seed)
    while run.t < rounds:
        question = rng.choice(run.questions())
        assert run.tell(FUNS[question.node](question.point), question.id) is True


@pytest.mark.parametrize("name", sorted(METHODS))
def test_single_answers_in_any_order_are_the_run_of_whole_rounds_to_the_bit(name):
    single, whole = make(build(name)), make(build(name))
    tell_one_by_one(single, 5)
    while whole.t < 5:
        whole.tell([[f(x) for f, x in zip(FUNS, side, strict=True)] for side in whole.ask().points])
    assert (single.x == whole.x).all()
    assert (single.nfev, single.bits, single.query_loss) == (whole.nfev, whole.bits, whole.query_loss)


@pytest.mark.parametrize("more", [{}, {"sides": 1, "directions": 2, "signs": "orthogonal"}])
def test_a_fast_rig_gets_all_its_questions_and_then_waits(more):
    run = Optimizer(PROBLEM.x0, graph=complete(4), method=Cosmo(q=2, eta=0.002, mu=0.01, **more))
    first = run.questions(3)
    assert [question.call for question in first] == list(range(3 if more else 2))
    for question in reversed(first):
        run.tell(FUNS[3](question.point), question)
    assert run.questions(3) == []
    assert {question.node for question in run.questions()} == {0, 1, 2}
    assert run.t == 0


def test_late_and_repeated_answers_are_not_used_and_strange_ones_are_refused():
    run = make(build("cosmo"))
    question = run.questions()[0]
    assert run.tell(1.0, question) is True
    assert run.tell(2.0, question) is False
    with pytest.raises(InputError, match="has not been asked"):
        run.tell(1.0, (7, 0, 0))
    with pytest.raises(InputError, match="nodes are 0 to 3"):
        run.tell(1.0, (0, 0, 9))
    with pytest.raises(OracleError, match="node 1, round 0, call 0: the loss is nan"):
        run.tell(float("nan"), (0, 0, 1))
    with pytest.raises(InputError, match="told one by one"):
        run.tell(np.zeros((2, 4)))
    tell_one_by_one(run, 1)
    assert run.tell(1.0, question) is False


def test_only_nodes_that_take_part_are_asked():
    run = make(build("edge_local"), star(4))
    active = np.flatnonzero(run.ask().active).tolist()
    assert sorted({question.node for question in run.questions()}) == active
    idle = next(node for node in range(4) if node not in active)
    with pytest.raises(InputError, match="has not been asked"):
        run.tell(1.0, (0, 0, idle))


@pytest.mark.parametrize("answers", [0, 3, 8, 11])
@pytest.mark.parametrize("name", ["cosmo", "edge_local", "choco", "decomfl", "meerkat"])
def test_a_saved_run_goes_on_to_the_same_bits_in_the_middle_of_a_round_too(tmp_path, name, answers):
    run = make(build(name))
    for _ in range(answers):
        question = run.questions()[-1]
        run.tell(FUNS[question.node](question.point), question)
    run.save(tmp_path / "run.npz")
    again = Optimizer.load(tmp_path / "run.npz")
    assert [q.id for q in again.questions()] == [q.id for q in run.questions()]
    tell_one_by_one(run, 6)
    tell_one_by_one(again, 6, seed=1)
    assert (again.x == run.x).all()
    assert (again.bits, again.nfev) == (run.bits, run.nfev)


def test_a_file_has_all_that_the_run_was_made_with(tmp_path):
    method = Cosmo(q=1, eta=0.1, mu=0.1, decay=DECAYS["drop"](at=3), rule="balanced")
    about = {"bounds": [(0, 2), (None, 5)], "scale": [1, 4], "wire": "f32", "seed": "a", "n": 3}
    run = Optimizer([1.0, 2.0], method=method, **about)
    run.save(tmp_path / "r")
    again = Optimizer.load(tmp_path / "r")
    assert (again.method, again.graph, again.wire) == (run.method, run.graph, run.wire)
    assert (again.ask().points == run.ask().points).all()


def test_names_and_numbers_do_as_for_minimize():
    named = Optimizer([1.0, 2.0], graph="ring", n=4, method="edge_local", q=1, eta=0.1, mu=0.1, coupling="G")
    assert (named.graph, named.method.kind, named.method.coupling) == (ring(4), "edge_local", "G")
    assert Optimizer(np.ones((3, 2)), eta=0.1, mu=0.1).graph.n == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"eta": 0.1}, "cannot suggest eta and mu; give both"),
        ({"eta": 0.1, "mu": 0.1, "gain": 3}, "method cosmo has no 'gain'"),
        ({"eta": 0.1, "mu": 0.1, "graph": "web", "n": 3}, "graph 'web' is not known"),
    ],
)
def test_what_is_missing_or_unknown_is_refused(options, words):
    with pytest.raises(InputError) as caught:
        Optimizer([1.0, 2.0], **options)
    assert words in str(caught.value)


def test_a_file_of_something_else_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", a=1)
    for path in (tmp_path / "x.npz", tmp_path / "none"):
        with pytest.raises(InputError, match="is not a saved optimizer"):
            Optimizer.load(path)
