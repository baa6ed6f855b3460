"""Labels: the names of methods, graphs and problems in logs and tables."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from zocosmo.methods import Method
from zocosmo.methods.base import as_config


def described(method: Method) -> dict[str, Any]:
    """A method's parameters as text, for labels."""
    values = method.settings
    if values["codec"] == method.codecs[0]:
        values["codec"] = ""
    decay = values["decay"]
    parts = ", ".join(f"{name}={value}" for name, value in dataclasses.asdict(decay).items())
    values["decay"] = "" if decay.kind == "constant" else f"{decay.kind}({parts})"
    return {"kind": method.kind, **as_config(values)}


def labels_of(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Kinds, with the parameters in which entries of the same kind differ."""
    out = []
    for spec in specs:
        alike = [other for other in specs if other["kind"] == spec["kind"]]
        telling = [k for k in spec if k != "kind" and len({repr(other.get(k)) for other in alike}) > 1]
        words = [
            str(spec[k]) if k == "codec" else f"{k}={_short(spec[k])}"
            for k in telling
            if spec[k] not in ("", None)
        ]
        out.append(" ".join([spec["kind"], *words]))
    return out


def _short(value: Any) -> str:
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
