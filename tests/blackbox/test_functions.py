import threading
import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from zocosmo.blackbox.commands import Command
from zocosmo.blackbox.functions import Functions, Vectorized, as_oracle, as_start, count_nodes
from zocosmo.errors import InputError, OracleError
from zocosmo.problems import rosenbrock

X = np.arange(12.0).reshape(4, 3)


def fails_at(node, how):
    def fun(i):
        return lambda x: how() if i == node else float(x.sum())

    return [fun(i) for i in range(4)]


def raise_(error):
    raise error


def test_one_function_serves_all_nodes_and_a_list_serves_each():
    assert Functions(np.sum, 4)(X, 0).tolist() == [3.0, 12.0, 21.0, 30.0]
    assert Functions([np.sum, np.max, np.min, np.mean], 4)(X, 0).tolist() == [3.0, 5.0, 6.0, 10.0]


def test_leading_axes_are_runs():
    runs = np.stack([X, X + 100])
    assert (Functions(np.sum, 4)(runs, 0) == runs.sum(axis=-1)).all()
    assert (Vectorized(lambda x: x.sum(axis=1), 4)(runs, 0) == runs.sum(axis=-1)).all()


def test_a_keyed_function_sees_the_round():
    assert Functions(lambda x, t: t, 4, keyed=True)(X, 17).tolist() == [17.0] * 4
    assert Vectorized(lambda x, t: np.full(4, t), 4, keyed=True)(X, 17).tolist() == [17.0] * 4


def scribble(x):
    x[:] = np.nan
    return 1.0


@pytest.mark.parametrize(
    "oracle",
    [Functions(scribble, 4), Vectorized(lambda x: [scribble(x)] * 4, 4)],
    ids=["functions", "vector"],
)
def test_what_a_function_scribbles_on_is_its_own(oracle):
    x = X.copy()
    oracle(x, 0)
    assert (x == X).all()


@pytest.mark.parametrize("workers", [1, 3])
def test_idle_nodes_are_not_asked_and_not_counted(workers):
    asked = []
    oracle = Functions(lambda x: asked.append(x[0]) or 1.0, 4, workers=workers)
    active = np.array([True, False, False, True])
    assert oracle(X, 0, active=active).tolist() == [1.0, 0.0, 0.0, 1.0]
    assert sorted(asked) == [0.0, 9.0]
    assert oracle.queries.tolist() == [1, 0, 0, 1]


def test_a_vectorised_loss_may_say_anything_about_idle_nodes():
    oracle = Vectorized(lambda x: np.array([1.0, np.nan, 3.0, np.nan]), 4)
    active = np.array([True, False, True, False])
    assert oracle(X, 0, active=active).tolist() == [1.0, 0.0, 3.0, 0.0]
    assert oracle.queries.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize(
    "answer", [2, 2.0, np.float32(2), np.array(2.0), np.array([[2]]), Fraction(2), Decimal("2"), [2.0]]
)
def test_anything_that_is_one_number_is_accepted(answer):
    assert Functions(lambda x: answer, 1)(X[:1], 0).tolist() == [2.0]


BAD = [
    (lambda: np.nan, "the loss is nan; return a value a little worse than nearby ones"),
    (lambda: -np.inf, "the loss is -inf;"),
    (lambda: 10**400, "the loss is inf;"),
    (lambda: None, "the loss is None; return one finite number"),
    (lambda: True, "the loss is True;"),
    (lambda: "2.0", "the loss is '2.0';"),
    (lambda: 2j, "the loss is 2j;"),
    (lambda: np.zeros(3), "the loss is an array of shape (3,);"),
    (lambda: [1.0, [2.0]], "the loss is [1.0, [2.0]];"),
    (lambda: raise_(ZeroDivisionError("by\nzero")), "the function raised ZeroDivisionError: by zero;"),
    (lambda: raise_(StopIteration), "the function raised StopIteration: ;"),
]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("how", "words"), BAD, ids=[words for _, words in BAD])
def test_a_bad_answer_is_one_line_that_says_where(how, words, workers):
    oracle = Functions(fails_at(2, how), 4, workers=workers)
    with pytest.raises(OracleError) as caught:
        oracle(X, 17)
    assert str(caught.value).startswith(f"node 2, round 17, query x + μu: {words}")
    assert "\n" not in str(caught.value)
    assert oracle.queries.tolist() == [1, 1, 1, 0]


def test_the_cause_of_an_error_is_kept():
    with pytest.raises(OracleError) as caught:
        Functions(lambda x: raise_(KeyError("gain")), 1)(X[:1], 0)
    assert isinstance(caught.value.__cause__, KeyError)


def test_the_second_query_of_a_round_is_named_and_a_failed_round_starts_again():
    answers = iter([1.0, np.nan, np.nan, 1.0, 1.0, np.nan])
    oracle, found = Functions(lambda x: next(answers), 1), []
    for _ in range(6):
        try:
            oracle(X[:1], 5)
            found.append("fine")
        except OracleError as error:
            found.append(str(error).split(": ")[0].removeprefix("node 0, round 5, query "))
    assert found == ["fine", "x − μu", "x + μu", "fine", "fine", "x + μu"]


def test_measuring_says_so():
    oracle = Functions(lambda x: np.nan if x[0] else 1.0, 2)
    assert oracle.measure(np.zeros(3), 4).tolist() == [1.0, 1.0]
    with pytest.raises(OracleError, match="node 0, round 4, at the average: the loss is nan"):
        oracle.measure(np.ones(3), 4)


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_the_lowest_node_that_fails_is_reported_even_if_it_is_the_slowest(workers):
    def slow():
        time.sleep(0.05)
        raise ValueError("slow")

    funs = fails_at(3, lambda: raise_(ValueError("quick")))
    funs[1] = lambda x: slow()
    with pytest.raises(OracleError, match=r"node 1.*slow"):
        Functions(funs, 4, workers=workers)(X, 0)


def test_workers_are_kept_from_round_to_round():
    oracle = Functions(lambda x: threading.get_ident(), 4, workers=1 + 1)
    assert len({name for t in range(20) for name in oracle(X, t).tolist()}) <= 2


def test_workers_ask_at_the_same_time():
    """A barrier for four opens only if four are asked at once."""
    barrier = threading.Barrier(4, timeout=20)
    assert Functions(lambda x: barrier.wait() * 0 + x.sum(), 4, workers=4)(X, 0).tolist() == [3, 12, 21, 30]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_function_that_hangs_is_given_up(workers):
    release = threading.Event()
    oracle = Functions(fails_at(1, lambda: release.wait(20)), 4, timeout=0.05, workers=workers)
    with pytest.raises(OracleError, match=r"node 1, .*no answer within 0.05 s; raise timeout"):
        oracle(X, 0)
    release.set()


def test_a_function_s_own_timeout_is_its_own_error():
    with pytest.raises(OracleError, match="raised TimeoutError: mine"):
        Functions(lambda x: raise_(TimeoutError("mine")), 1, timeout=10)(X[:1], 0)
    assert Functions(np.sum, 4, timeout=10)(X, 0).tolist() == [3, 12, 21, 30]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            np.zeros(3),
            "all nodes, round 0, query x + μu: the losses are float64 of shape (3,); return numbers",
        ),
        (np.array([0, 0, np.inf, 0]), "node 2, round 0, query x + μu: the loss is inf"),
        (["a"] * 4, "all nodes, round 0, query x + μu: the losses are <U1"),
    ],
)
def test_a_bad_vectorised_answer_is_refused(answer, words):
    with pytest.raises(OracleError) as caught:
        Vectorized(lambda x: answer, 4)(X, 0)
    assert str(caught.value).startswith(words)


def test_a_vectorised_function_that_raises_is_an_oracle_error():
    with pytest.raises(OracleError, match=r"all nodes, round 3, query x . μu: the function raised KeyError"):
        Vectorized(lambda x: raise_(KeyError()), 4)(X, 3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Command("rig 'x", 1), "No closing quotation"),
        (lambda: Command("rig --x {y}", 1), "with {x} or {file}"),
        (lambda: Command("", 1), "with {x} or {file}"),
        (lambda: Functions([np.sum], 2), "2 nodes need 2 functions, or one for all; got 1"),
        (lambda: Functions([np.sum, 3], 2), "node 1 must be a function, got 3"),
        (lambda: Functions(np.sum, 0), "n must be 1 or more, got 0"),
        (lambda: Functions(np.sum, 1, workers=0), "workers must be 1 or more"),
        (lambda: Functions(np.sum, 1, timeout=0), "timeout is a number of seconds above 0, got 0"),
        (lambda: Functions(np.sum, 1, timeout="5"), "timeout is a number of seconds above 0, got '5'"),
        (lambda: Vectorized([np.sum], 1), "one function"),
        (lambda: Functions(np.sum, 3)(X, 0), "shape (…, 3, d), got (4, 3)"),
        (lambda: as_oracle(np.sum, 2, vectorized=True, workers=2), "leave out timeout and workers"),
        (lambda: as_oracle(rosenbrock(3, 0, d=4), 2), "answers for 3 nodes, but there are 2"),
        (
            lambda: as_oracle(Functions(np.sum, 2), 2, keyed=True),
            "takes vectorized, keyed, timeout and workers when it is made",
        ),
        (lambda: as_start([[1.0], [2.0]], 3), "2 rows for 3 nodes"),
        (lambda: as_start([np.nan], 1), "x0 must be finite"),
        (lambda: as_start(["a"], 1), "x0 must be numbers"),
        (lambda: as_start([], 1), "x0 must be numbers"),
        (lambda: as_start([[1.0], [1.0, 2.0]], 2), "got rows of [[1.0], [1.0, 2.0]]"),
        (lambda: count_nodes("echo {x}", [0.0], None, None), "zocosmo.blackbox.commands.Command(text, n)"),
        (lambda: count_nodes([np.sum] * 3, [0.0], None, 4), "n: 4, the list of functions: 3"),
        (lambda: count_nodes(7, [0.0], None, None), "got 7"),
    ],
)
def test_mistakes_are_refused_with_the_value(make, words):
    with pytest.raises(InputError) as caught:
        make()
    assert words in str(caught.value)


def test_nodes_are_counted_from_whatever_says_so():
    assert count_nodes(np.sum, [0.0], None, None) == 1
    assert count_nodes([np.sum] * 3, [0.0], 3, None) == count_nodes(np.sum, [[0.0]] * 3, None, None) == 3
    assert count_nodes(rosenbrock(5, 0, d=2), [0.0], None, None) == 5


def test_problems_and_oracles_pass_as_they_are():
    problem, oracle = rosenbrock(2, 0, d=3), Functions(np.sum, 2)
    assert as_oracle(problem, 2) is problem
    assert as_oracle(oracle, 2) is oracle


def plain(x, t, *, active=None):
    return x.sum(axis=-1).astype(np.float32) + t


def test_a_plain_oracle_is_told_by_its_signature_and_answers_in_float64():
    oracle = as_oracle(plain, 4)
    answers = oracle(X, 5, active=np.array([True, True, False, True]))
    assert (answers.tolist(), answers.dtype) == ([8.0, 17.0, 0.0, 35.0], np.float64)
    assert oracle.queries.tolist() == [1, 1, 0, 1]
    assert oracle.measure(np.ones(3), 0).tolist() == [3.0] * 4


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x: np.zeros(3), "all nodes, round 0, query x + μu: the losses are float64 of shape (3,)"),
        (lambda x: np.array([0, 0, np.nan, 0]), "node 2, round 0, query x + μu: the loss is nan"),
        (
            lambda x: raise_(KeyError("gain")),
            "all nodes, round 0, query x + μu: the function raised KeyError",
        ),
    ],
)
def test_a_plain_oracle_is_checked(answer, words):
    with pytest.raises(OracleError) as caught:
        as_oracle(lambda x, t, *, active=None: answer(x), 4)(X, 0)
    assert str(caught.value).startswith(words)
