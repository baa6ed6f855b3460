"""Losses from a Python function, object or class that a config names as module:name."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from zocosmo.blackbox.calls import Remembers, brief, guarded
from zocosmo.blackbox.functions import Functions
from zocosmo.core.tape import Seed
from zocosmo.entries import find
from zocosmo.errors import InputError, check_whole
from zocosmo.oracle import Values
from zocosmo.problems.external import External, start_point

BY_NAME = ("node", "t", "seed")  # passed to a loss that has a parameter of that name


@dataclass(frozen=True, eq=False)
class Loss:
    """One node's loss, called as `Functions` calls it: f(x, t)."""

    call: Callable[..., Any]
    names: frozenset[str]
    known: Mapping[str, Any]  # node and seed

    def __call__(self, x: Values, t: int) -> Any:
        told = {**self.known, "t": t}
        return self.call(x, **{name: told[name] for name in self.names})


class RememberingLoss(Loss):
    """The loss of an object with a state, which checkpoints save."""

    def state_dict(self) -> Any:
        return self.call.state_dict()  # type: ignore[attr-defined]

    def load_state_dict(self, state: Any) -> None:
        self.call.load_state_dict(state)  # type: ignore[attr-defined]


def python(
    n: int,
    seed: Seed,
    *,
    entry: str,
    d: int,
    start: float | str = 0.0,
    timeout: float | None = None,
    workers: int = 1,
) -> External:
    """Your own Python function for each query: module:name, found from the current folder.

    It is called as f(x). Parameters called node, t and seed get the node's number, the round (−1 at
    a checkpoint, which queries every node at the average and at its own state) and the seed of the trial.
    A list or tuple has one function for each of the n nodes. A class is instantiated for every node of every
    trial, with node and seed if it declares them. `start` is a number, or text of d numbers separated by
    commas; `timeout` and `workers` are those of `zocosmo.minimize`.

    >>> python(2, 0, entry="math:fsum", d=3, start=0.5).local([[1, 2, 3], [4, 5, 6]]).tolist()
    [6.0, 15.0]
    """
    found = find(entry)
    each = list(found) if isinstance(found, list | tuple) else [found] * check_whole("n", n, 1)
    if len(each) != n:
        raise InputError(f"{entry} lists {len(each)} functions for {n} nodes; list one per node")
    for one in {id(loss): loss for loss in each}.values():
        _check(entry, one)
    Functions(lambda x: 0.0, n, timeout=timeout, workers=workers)  # reports mistakes now
    make = partial(_functions, each, seed, timeout, workers)
    return External([make], range(n), start_point(start, d))


def _functions(
    each: Sequence[Any], seed: Seed, timeout: float | None, workers: int, nodes: Sequence[int]
) -> Functions:
    """The oracle of some nodes; classes are instantiated here."""
    losses = [_loss(each[node], node, seed) for node in nodes]
    return Functions(losses, len(losses), keyed=True, timeout=timeout, workers=workers, nodes=nodes)


def _loss(found: Any, node: int, seed: Seed) -> Loss:
    known = {"node": node, "seed": seed}
    if isinstance(found, type):
        names = _declared(found, ("node", "seed"))
        found = guarded(node, found.__name__, partial(found, **{name: known[name] for name in names}))
    kind = RememberingLoss if isinstance(found, Remembers) else Loss
    return kind(found, frozenset(_declared(found, BY_NAME)), known)


def _check(entry: str, found: Any) -> None:
    """Raise InputError if it cannot be called as a loss."""
    if isinstance(found, type):
        _bind(entry, found, (), ("node", "seed"))
        call = next((vars(kind)["__call__"] for kind in found.__mro__ if "__call__" in vars(kind)), None)
        if not callable(call):
            raise InputError(f"{entry} is a class without __call__; define __call__(self, x) to be the loss")
        _bind(f"{entry}.__call__", call, ("self", "x"), BY_NAME)
    elif callable(found):
        _bind(entry, found, ("x",), BY_NAME)
    else:
        raise InputError(f"{entry} must be a function, a list of them, or a class; got {brief(repr(found))}")


def _bind(entry: str, call: Callable[..., Any], first: Sequence[str], by_name: Sequence[str]) -> None:
    names = _declared(call, by_name)
    try:
        inspect.signature(call).bind(*first, **dict.fromkeys(names))
    except TypeError as error:
        rule = f"it is called with ({', '.join(first)}), and with {', '.join(by_name)} if it has them"
        raise InputError(f"{entry} cannot be a loss: {error}; {rule}") from None
    except ValueError:  # some built-in functions have no signature
        return


def _declared(call: Callable[..., Any], by_name: Sequence[str]) -> list[str]:
    """The names that are parameters of a callable."""
    try:
        parameters = inspect.signature(call).parameters
    except (TypeError, ValueError):
        return []
    return [name for name in by_name if name in parameters]
