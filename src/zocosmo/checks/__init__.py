"""Theory against measurement: every formula that applies to a config, held against what the code does."""

from zocosmo.checks.default import default_plans
from zocosmo.checks.row import Row
from zocosmo.checks.run import check_plans

__all__ = ["Row", "check_plans", "default_plans"]
