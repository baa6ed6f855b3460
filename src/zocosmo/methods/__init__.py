"""Methods: one file each, and the table that names them all."""

from zocosmo.entries import Table as _Table
from zocosmo.methods.base import Draw, Method, State, World
from zocosmo.methods.base import as_method as _as_method
from zocosmo.methods.choco import Choco
from zocosmo.methods.com_dszo import ComDszo
from zocosmo.methods.cosmo import Cosmo
from zocosmo.methods.decay import DECAYS
from zocosmo.methods.decomfl import DeComFL
from zocosmo.methods.dense import Dense
from zocosmo.methods.edge_local import EdgeLocal
from zocosmo.methods.ef21 import Ef21
from zocosmo.methods.fedkseed import FedKSeed
from zocosmo.methods.feedsign import FeedSign
from zocosmo.methods.flood import Flood
from zocosmo.methods.fzoo import Fzoo
from zocosmo.methods.marina import Marina
from zocosmo.methods.marina_type import MarinaType
from zocosmo.methods.meerkat import Meerkat
from zocosmo.methods.mezo import Mezo
from zocosmo.methods.moniqua import Moniqua
from zocosmo.methods.perm_k import PermK
from zocosmo.methods.rand_k import RandK
from zocosmo.methods.rand_k_average import RandKAverage
from zocosmo.methods.seedflood import SeedFlood
from zocosmo.methods.sparse_mezo import SparseMezo
from zocosmo.methods.subcge import Subcge
from zocosmo.methods.subzero import Subzero
from zocosmo.methods.tree_gather import TreeGather
from zocosmo.methods.tree_mean import TreeMean
from zocosmo.methods.tree_sum import TreeSum

METHODS: _Table[type[Method]] = _Table(
    {
        "cosmo": Cosmo,
        "edge_local": EdgeLocal,
        "rand_k": RandK,
        "rand_k_average": RandKAverage,
        "dense": Dense,
        "com_dszo": ComDszo,
        "marina_type": MarinaType,
        "flood": Flood,
        "seedflood": SeedFlood,
        "subcge": Subcge,
        "tree_gather": TreeGather,
        "tree_mean": TreeMean,
        "tree_sum": TreeSum,
        "moniqua": Moniqua,
        "mezo": Mezo,
        "fzoo": Fzoo,
        "sparse_mezo": SparseMezo,
        "subzero": Subzero,
        "decomfl": DeComFL,
        "feedsign": FeedSign,
        "meerkat": Meerkat,
        "fedkseed": FedKSeed,
        "choco": Choco,
        "ef21": Ef21,
        "marina": Marina,
        "perm_k": PermK,
    },
    "zocosmo.methods",
    _as_method,
)

__all__ = [
    "DECAYS",
    "METHODS",
    "Choco",
    "ComDszo",
    "Cosmo",
    "DeComFL",
    "Dense",
    "Draw",
    "EdgeLocal",
    "Ef21",
    "FedKSeed",
    "FeedSign",
    "Flood",
    "Fzoo",
    "Marina",
    "MarinaType",
    "Meerkat",
    "Method",
    "Mezo",
    "Moniqua",
    "PermK",
    "RandK",
    "RandKAverage",
    "SeedFlood",
    "SparseMezo",
    "State",
    "Subcge",
    "Subzero",
    "TreeGather",
    "TreeMean",
    "TreeSum",
    "World",
]
