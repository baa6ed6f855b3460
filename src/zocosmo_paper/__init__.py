"""The paper, rerun: every synthetic table, figure and constant, with computed verdicts."""

from zocosmo_paper.claim import Claim
from zocosmo_paper.item import Evidence, Findings, Item, Picture, Table
from zocosmo_paper.run import ItemResult, reproduce

__all__ = ["Claim", "Evidence", "Findings", "Item", "ItemResult", "Picture", "Table", "reproduce"]
