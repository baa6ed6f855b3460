"""Problems: nodes' private losses with known exact values, and the table that names their builders."""

import collections.abc
import typing

from zocosmo.problems.logistic import logistic
from zocosmo.problems.network import network
from zocosmo.problems.quadratic import quadratic
from zocosmo.problems.rosenbrock import rosenbrock

PROBLEMS: dict[str, collections.abc.Callable[..., typing.Any]] = {
    "rosenbrock": rosenbrock,
    "quadratic": quadratic,
    "logistic": logistic,
    "network": network,
}

__all__ = ["PROBLEMS", "logistic", "network", "quadratic", "rosenbrock"]
