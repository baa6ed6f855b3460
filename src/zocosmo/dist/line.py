"""Lines: the frames between this process and one peer."""

from zocosmo.core.fields import Message
from zocosmo.core.frame import Header, frame_parts, unframe
from zocosmo.dist.seal import Seal


class Line:
    """Frames to and from one peer process: their sequence numbers in a round, and their seals."""

    def __init__(self, session: bytes) -> None:
        self.session = session
        self.sent, self.received = 0, 0  # messages in this round
        self.closing: Seal | None = None
        self.opening: Seal | None = None

    def frame(self, header: Header, message: Message, d: int) -> tuple[bytes, bytes]:
        """The next message to the peer, number `sent`, as head and body."""
        self.sent += 1
        return frame_parts(header, message, d=d, session=self.session, seal=self.closing)

    def unframe(self, data: bytes | memoryview, expect: Header, d: int) -> Message:
        """The next message from the peer, number `received`, which must have this header."""
        self.received += 1
        return unframe(data, d=d, session=self.session, expect=expect, seal=self.opening)[1]
