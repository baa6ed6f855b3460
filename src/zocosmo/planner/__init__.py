"""Planning a run: what each method costs, what a budget buys, and which q and schedule to use."""

from zocosmo.planner.choice import Choice, bits_for_exposure, choose_q
from zocosmo.planner.costs import Deployment, MethodCost, rows
from zocosmo.planner.crossover import Crossover, crossover
from zocosmo.planner.network import NetworkShape, Pairing, network, pairing
from zocosmo.planner.outlook import Outlook, Wish, as_report, outlook
from zocosmo.planner.propose import Proposal, Spending, propose
from zocosmo.planner.tree import TreeProposal, propose_tree
from zocosmo.planner.units import as_bits, as_rate, as_seconds, show_bits, show_seconds

__all__ = [
    "Choice",
    "Crossover",
    "Deployment",
    "MethodCost",
    "NetworkShape",
    "Outlook",
    "Pairing",
    "Proposal",
    "Spending",
    "TreeProposal",
    "Wish",
    "as_bits",
    "as_rate",
    "as_report",
    "as_seconds",
    "bits_for_exposure",
    "choose_q",
    "crossover",
    "network",
    "outlook",
    "pairing",
    "propose",
    "propose_tree",
    "rows",
    "show_bits",
    "show_seconds",
]
