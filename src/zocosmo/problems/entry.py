"""Losses of a Python function, object or class that a config names as module:name."""

import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

from zocosmo.blackbox.functions import Functions, brief
from zocosmo.core.tape import Seed
from zocosmo.errors import InputError, OracleError, check_whole
from zocosmo.oracle import Values
from zocosmo.problems.external import External, start_point

BY_NAME = ("node", "t", "seed")  # what a loss is told, if it declares a parameter of that name
STATE = ("state_dict", "load_state_dict")


@dataclass(frozen=True, eq=False)
class Loss:
    """One node's loss, called as `Functions` calls it: f(x, t)."""

    call: Callable[..., Any]
    names: frozenset[str]
    known: Mapping[str, Any]  # node and seed

    def __call__(self, x: Values, t: int) -> Any:
        told = {**self.known, "t": t}
        return self.call(x, **{name: told[name] for name in self.names})


class Remembering(External):
    """Losses of objects with a memory, which a checkpoint must hold too."""

    def state(self) -> list[dict[str, Any]]:
        """For each trial, node number → what its `state_dict` gives; as JSON reads it back."""
        return [
            {str(node): _snapshot(node, loss) for node, loss in self._losses(k)}
            for k in range(len(self.makes))
        ]

    def restore(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Go on from what `state` gave; states of nodes that are not hosted here are left alone."""
        if len(state) != len(self.makes):
            raise InputError(f"the state is of {len(state)} trials, but there are {len(self.makes)}")
        for k, kept in enumerate(state):
            for node, loss in self._losses(k):
                if str(node) not in kept:
                    raise InputError(f"the state lacks node {node}; it has {brief(', '.join(kept))}")
                _guarded(node, "load_state_dict", partial(loss.load_state_dict, kept[str(node)]))

    def _losses(self, trial: int) -> list[tuple[int, Any]]:
        """Those with a memory, and their nodes."""
        oracle = self.oracles[trial]
        assert isinstance(oracle, Functions)
        pairs = zip(oracle.nodes, oracle.funs, strict=True)
        return [(node, f.call) for node, f in pairs if isinstance(f, Loss) and _remembers(f.call)]


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
    """A Python function of yours for each query: module:name, found from the current folder.

    It is called as f(x); parameters called node, t and seed are told the node's number, the round (−1 at a
    checkpoint, which asks every node at the average and at its own state) and the seed of the trial. A list
    or tuple has one function for each of the n nodes. Of a class, every node of every trial gets an object of
    its own, made with node and seed where the class declares them. `start` is a number, or text of d numbers
    separated by commas; `timeout` and `workers` are those of `zocosmo.minimize`.

    >>> python(2, 0, entry="math:fsum", d=3, start=0.5).local([[1, 2, 3], [4, 5, 6]]).tolist()
    [6.0, 15.0]
    """
    found = find(entry)
    each = list(found) if isinstance(found, list | tuple) else [found] * check_whole("n", n, 1)
    if len(each) != n:
        raise InputError(f"{entry} lists {len(each)} functions for {n} nodes; list one for each")
    for one in {id(loss): loss for loss in each}.values():
        _check(entry, one)
    Functions(_never, n, timeout=timeout, workers=workers)  # finds mistakes now
    make = partial(_functions, each, seed, timeout, workers)
    kind = Remembering if any(map(_remembers, each)) else External
    return kind([make], range(n), start_point(start, d))


def find(entry: str) -> Any:
    """What module:name is; the current folder comes first, as for `python -m`."""
    if not re.fullmatch(r"[\w.]+:[\w.]+", entry):
        raise InputError(f"entry is module:name, such as rig:loss; got {entry!r:.80}")
    module, name = entry.split(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            lost = f"there is no module {error.name!r} in this folder or installed; start where it is"
            raise InputError(lost) from None
        said = f"{type(error).__name__}: {brief(str(error))}"
        raise InputError(f"importing {module!r} raised {said}; make it import without error") from error
    try:
        return reduce(getattr, name.split("."), found)
    except AttributeError:
        raise InputError(f"module {module!r} has no {name!r}; name what it defines") from None


def _functions(
    each: Sequence[Any], seed: Seed, timeout: float | None, workers: int, nodes: Sequence[int]
) -> Functions:
    """The oracle of some nodes; objects of a class are made here."""
    losses = [_loss(each[node], node, seed) for node in nodes]
    return Functions(losses, len(losses), keyed=True, timeout=timeout, workers=workers, nodes=nodes)


def _loss(found: Any, node: int, seed: Seed) -> Loss:
    known = {"node": node, "seed": seed}
    if isinstance(found, type):
        names = _declared(found, ("node", "seed"))
        found = _guarded(node, found.__name__, partial(found, **{name: known[name] for name in names}))
    return Loss(found, frozenset(_declared(found, BY_NAME)), known)


def _check(entry: str, found: Any) -> None:
    """Refuse what cannot be called as a loss, before any work starts."""
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
        rule = f"it is called with ({', '.join(first)}), and with {', '.join(by_name)} where it names them"
        raise InputError(f"{entry} cannot be a loss: {error}; {rule}") from None
    except ValueError:  # some built-in functions have no signature
        return


def _declared(call: Callable[..., Any], by_name: Sequence[str]) -> list[str]:
    """Which of the names it has parameters for."""
    try:
        parameters = inspect.signature(call).parameters
    except (TypeError, ValueError):
        return []
    return [name for name in by_name if name in parameters]


def _remembers(found: Any) -> bool:
    return all(callable(getattr(found, name, None)) for name in STATE)


def _snapshot(node: int, loss: Any) -> Any:
    state = _guarded(node, "state_dict", loss.state_dict)
    try:
        return json.loads(json.dumps(state))
    except (TypeError, ValueError) as error:
        found = f"node {node}: state_dict gave what JSON cannot hold: {brief(str(error))}"
        raise OracleError(f"{found}; return numbers, text, lists and mappings", node=node) from None


def _guarded(node: int, what: str, call: Callable[[], Any]) -> Any:
    """What people's code gives, or an OracleError with the node."""
    try:
        return call()
    except Exception as error:
        said = f"{type(error).__name__}: {brief(str(error))}"
        raise OracleError(
            f"node {node}: {what} raised {said}; make it work for every node", node=node
        ) from error


def _never(x: Values) -> float:
    raise AssertionError("never called")
