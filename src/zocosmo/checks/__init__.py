"""Theory against measurement: every formula that applies to a config, compared with what the code does."""

from zocosmo.checks.default import default_plans
from zocosmo.checks.measurement import Measurement
from zocosmo.checks.run import check_plans

__all__ = ["Measurement", "check_plans", "default_plans"]
