"""Lost messages of a config, and the wires that can repair them."""

from collections.abc import Mapping, Sequence
from typing import Any

from zocosmo.core.wires import WIRES
from zocosmo.experiments.config import Config
from zocosmo.methods import Method
from zocosmo.traffic import Link

COME_AND_GO = (
    "processes of a job stop together; where nodes come and go, use zocosmo host and zocosmo join, else stop"
)


def read_lost(config: Config, given: Sequence[Sequence[int]]) -> dict[int, list[Link]]:
    """Messages that do not arrive, by round, from entries [round, sender, receiver]."""
    lost: dict[int, list[Link]] = {}
    for k, each in enumerate(given):
        if len(each) != 3 or min(each) < 0:
            raise config.fail(("lost", k), f"a lost message is [round, sender, receiver], got {list(each)}")
        lost.setdefault(each[0], []).append((each[1], each[2]))
    return lost


def check_losses(config: Config, method: Method, settled: Mapping[str, Any]) -> None:
    """Refuse lost messages where nobody repairs them."""
    wire = method.wire_for(settled["wire"], settled["dtype"])
    if settled["lost"] and not WIRES[wire].linked:
        raise config.fail(("lost",), f"wire {wire} cannot repair lost messages; use mod2 to mod8")


def check_lost_peer(config: Config, given: str) -> None:
    """Refuse all but `stop`: a lost process ends the job."""
    if given != "stop":
        raise config.fail(("on_lost_peer",), f"on_lost_peer {given}: {COME_AND_GO}")
