"""Calls of user code: what they raise, how long they may take, and what they remember."""

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from zocosmo.errors import InputError, OracleError
from zocosmo.oracle import Arrays

BRIEF = 200  # longest quote of a foreign message, in characters


@runtime_checkable
class Remembers(Protocol):
    """A user's loss with a memory; its `state_dict` must be JSON."""

    def state_dict(self) -> Any: ...
    def load_state_dict(self, state: Any) -> None: ...


class TooLate(Exception):
    """Not TimeoutError, which a function may raise itself."""


def within(seconds: float, call: Callable[[], Any]) -> Any:
    """The result of a call, or TooLate; in a daemon thread, because a function cannot be stopped."""
    answer: Future[Any] = Future()

    def target() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=target, daemon=True).start()
    if not wait([answer], seconds).done:
        raise TooLate
    return answer.result()


def guarded(node: int | str, what: str, call: Callable[[], Any]) -> Any:
    """The result of user code, or an OracleError that names the node."""
    try:
        return call()
    except Exception as error:
        raise OracleError(f"node {node}: {what} raised {said(error)}; make it work for every node") from error


def snapshot(answering: Mapping[str, Any]) -> Arrays:
    """What those with a memory remember, by name, as JSON."""
    kept = memories(answering)
    return {"memory": np.frombuffer(json.dumps(kept).encode(), np.uint8)} if kept else {}


def memories(answering: Mapping[str, Any]) -> dict[str, Any]:
    """The state of those with a memory, by name."""
    return {name: _memory(name, each) for name, each in answering.items() if isinstance(each, Remembers)}


def remember(answering: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    """Give memories back to those whose state is known."""
    for name, each in answering.items():
        if name in kept and isinstance(each, Remembers):
            guarded(name, "load_state_dict", partial(each.load_state_dict, kept[name]))


def restore(answering: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Continue from what `snapshot` returned; memories of nodes hosted elsewhere are ignored."""
    kept = json.loads(arrays["memory"].tobytes()) if "memory" in arrays else {}
    for name, each in answering.items():
        if not isinstance(each, Remembers):
            continue
        if name not in kept:
            raise InputError(f"the snapshot lacks node {name}; it has {brief(', '.join(kept)) or 'none'}")
        guarded(name, "load_state_dict", partial(each.load_state_dict, kept[name]))


def _memory(node: str, loss: Remembers) -> Any:
    state = guarded(node, "state_dict", loss.state_dict)
    try:
        return json.loads(json.dumps(state))
    except (TypeError, ValueError) as error:
        found = f"node {node}: state_dict is not JSON: {brief(str(error))}"
        raise OracleError(f"{found}; return numbers, text, lists and mappings") from None


def said(error: BaseException) -> str:
    """What was raised, on one line."""
    return f"{type(error).__name__}: {brief(str(error))}"


def brief(text: str) -> str:
    """Text on one line, shortened if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= BRIEF else line[: BRIEF - 1] + "…"
