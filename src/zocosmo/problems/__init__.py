"""Problems: the private losses of nodes, built in or from the user's own code, and their builders by name."""

import collections.abc
import typing

from zocosmo.problems.entry import python
from zocosmo.problems.external import command
from zocosmo.problems.language import llm
from zocosmo.problems.logistic import logistic
from zocosmo.problems.network import network
from zocosmo.problems.quadratic import quadratic
from zocosmo.problems.rosenbrock import rosenbrock

PROBLEMS: dict[str, collections.abc.Callable[..., typing.Any]] = {
    "rosenbrock": rosenbrock,
    "quadratic": quadratic,
    "logistic": logistic,
    "network": network,
    "llm": llm,
    "command": command,
    "python": python,
}

__all__ = ["PROBLEMS", "command", "llm", "logistic", "network", "python", "quadratic", "rosenbrock"]
