"""A question to a host: who is there?"""

import json
from typing import Any

from zocosmo.errors import InputError
from zocosmo.net.sockets import make_socket, zmq

WITHIN = 5.0  # seconds


def ask_members(host: tuple[str, bytes], secret: bytes) -> list[dict[str, Any]]:
    """The members of a job; an InputError if its host does not answer."""
    context: zmq.Context[Any] = zmq.Context()
    socket = make_socket(context, zmq.DEALER, secret, host[1])
    socket.immediate = False
    socket.connect(host[0])
    try:
        socket.send_multipart([b"who"])
        if not socket.poll(1000 * WITHIN):
            where = host[0].removeprefix("tcp://")
            raise InputError(f"no answer from {where}; is the host running, and does it know this key?")
        found: list[dict[str, Any]] = json.loads(socket.recv_multipart()[1])["members"]
        return found
    finally:
        socket.close()
        context.term()
