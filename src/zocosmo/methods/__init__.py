"""Methods: one file each, and the table that names them all."""

from zocosmo.methods.base import Draw, Method, State, World
from zocosmo.methods.com_dszo import ComDszo
from zocosmo.methods.cosmo import Cosmo
from zocosmo.methods.decay import DECAYS
from zocosmo.methods.dense import Dense
from zocosmo.methods.edge_local import EdgeLocal
from zocosmo.methods.flood import Flood
from zocosmo.methods.marina_type import MarinaType
from zocosmo.methods.rand_k import RandK

METHODS: dict[str, type[Method]] = {
    "cosmo": Cosmo,
    "edge_local": EdgeLocal,
    "rand_k": RandK,
    "dense": Dense,
    "com_dszo": ComDszo,
    "marina_type": MarinaType,
    "flood": Flood,
}

__all__ = [
    "DECAYS",
    "METHODS",
    "ComDszo",
    "Cosmo",
    "Dense",
    "Draw",
    "EdgeLocal",
    "Flood",
    "MarinaType",
    "Method",
    "RandK",
    "State",
    "World",
]
