"""The paper, rerun: every synthetic table, figure and constant, with verdicts that are computed."""

from zocosmo.reproduce.claim import Claim
from zocosmo.reproduce.item import Evidence, Findings, Item, Picture, Table
from zocosmo.reproduce.run import Result, reproduce

__all__ = ["Claim", "Evidence", "Findings", "Item", "Picture", "Result", "Table", "reproduce"]
