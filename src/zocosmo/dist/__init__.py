"""The runtime: nodes in processes of their own, equal to the simulator bit for bit.

What needs torch imports it through `dist.torched`; channels, frames and seals do without.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from zocosmo.dist.peer import Peer

__all__ = ["Peer"]


def __getattr__(name: str) -> _typing.Any:
    """`Peer` is imported when first asked for: it brings torch with it."""
    if name == "Peer":
        from zocosmo.dist.peer import Peer

        return Peer
    raise AttributeError(f"module 'zocosmo.dist' has no attribute {name!r}")
