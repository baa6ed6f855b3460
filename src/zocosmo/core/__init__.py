"""The protocol core: what peers agree on to the bit, what crosses a link, what it costs."""

from zocosmo.core.balanced import balanced_support, epoch_length
from zocosmo.core.coupling import COUPLINGS, Coupling
from zocosmo.core.cover import Gap, check_cover, find_gaps
from zocosmo.core.fields import Message
from zocosmo.core.frame import FRAME_BITS, Header, check_header, frame, unframe
from zocosmo.core.ledger import Ledger
from zocosmo.core.manifest import Difference, Manifest, check_same_session
from zocosmo.core.message import CODECS, Codec
from zocosmo.core.payload import (
    Bits,
    entropy_bound,
    index_bits,
    index_share,
    log2_binomial,
    refresh_multiplier,
    reuse_multiplier,
    seed_overhead,
)
from zocosmo.core.support import Direction, Support, SupportRule, draw_direction, draw_signs, draw_support
from zocosmo.core.tape import Coins, Tape
from zocosmo.core.values import VALUE_TYPES, ValueType

__all__ = [
    "CODECS",
    "COUPLINGS",
    "FRAME_BITS",
    "VALUE_TYPES",
    "Bits",
    "Codec",
    "Coins",
    "Coupling",
    "Difference",
    "Direction",
    "Gap",
    "Header",
    "Ledger",
    "Manifest",
    "Message",
    "Support",
    "SupportRule",
    "Tape",
    "ValueType",
    "balanced_support",
    "check_cover",
    "check_header",
    "check_same_session",
    "draw_direction",
    "draw_signs",
    "draw_support",
    "entropy_bound",
    "epoch_length",
    "find_gaps",
    "frame",
    "index_bits",
    "index_share",
    "log2_binomial",
    "refresh_multiplier",
    "reuse_multiplier",
    "seed_overhead",
    "unframe",
]
