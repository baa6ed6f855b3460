"""A server of the live page in a thread."""

import socket
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

from zocosmo.watch.server import address, make_server

TOKEN = "a-token-for-tests"


@contextmanager
def served(source):
    """The address of the page, token included."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = make_server(source, TOKEN)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    until = time.monotonic() + 30
    while not server.started and time.monotonic() < until:
        time.sleep(0.01)
    try:
        yield address(listener, "127.0.0.1", TOKEN)
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def get(where, **headers):
    """Status, headers and text, without following redirects."""
    request = urllib.request.Request(where, headers=headers)
    try:
        with urllib.request.build_opener(Stay).open(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode()
