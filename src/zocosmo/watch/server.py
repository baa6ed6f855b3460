"""The server of the page: static files and one stream of events, to those who have the token.

It listens on the loopback address unless told otherwise. Other users of a machine can reach that too, so
every request needs the token: in a cookie that the first visit sets, or in the address.
"""

import asyncio
import hmac
import json
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from zocosmo.errors import InputError
from zocosmo.watch.source import Source
from zocosmo.watch.view import News, View

POLL = 0.25  # seconds between looks at the files
QUIET = 10.0  # seconds after which a reader gets a sign of life
MOST_READERS = 64
PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/watch.css": ("watch.css", "text/css; charset=utf-8"),
    "/watch.js": ("watch.js", "text/javascript; charset=utf-8"),
    "/plot.js": ("plot.js", "text/javascript; charset=utf-8"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
REFUSED = "403: this page needs its token; open the address that zocosmo watch printed\n"

Handler = Callable[[Request], Awaitable[Response]]


class Hub:
    """One source for all readers: its files are read at most once in POLL seconds."""

    def __init__(self, source: Source) -> None:
        self.source, self._lock, self._read = source, threading.Lock(), -POLL
        self.readers = 0

    def news(self, view: View) -> News | None:
        with self._lock:
            if time.monotonic() - self._read >= 0.9 * POLL:
                self.source.refresh()
                self._read = time.monotonic()
            return view.news()


def make_app(source: Source, token: str) -> Starlette:
    """The application; `token` opens it."""
    hub = Hub(source)

    async def events(request: Request) -> Response:
        if hub.readers >= MOST_READERS:
            return PlainTextResponse(f"{MOST_READERS} pages are open already; close one\n", 503, HEADERS)
        view = View(source, request.query_params.get("metric", ""))
        more = {**HEADERS, "X-Accel-Buffering": "no"}
        return StreamingResponse(_stream(hub, view), media_type="text/event-stream", headers=more)

    async def page(request: Request) -> Response:
        name, kind = PAGE[request.url.path]
        text = files("zocosmo.watch").joinpath("page", name).read_text(encoding="utf-8")
        return Response(text, media_type=kind, headers=HEADERS)

    routes = [Route(path, guarded(page, token)) for path in PAGE]
    return Starlette(routes=[*routes, Route("/events", guarded(events, token))])


def guarded(handler: Handler, token: str) -> Handler:
    """Refuse requests without the token; an address with it sets a cookie and is left out of the history."""

    async def check(request: Request) -> Response:
        name = f"zocosmo-watch-{request.url.port}"  # cookies do not tell ports apart
        shown = request.query_params.get("token")
        if not _is_same(shown or request.cookies.get(name) or "", token):
            return PlainTextResponse(REFUSED, 403, HEADERS)
        if shown is None or request.url.path != "/":
            return await handler(request)
        response = RedirectResponse("/", 303, HEADERS)
        response.set_cookie(name, token, httponly=True, samesite="strict")
        return response

    return check


def _is_same(shown: str, token: str) -> bool:
    return hmac.compare_digest(shown.encode(), token.encode())


async def _stream(hub: Hub, view: View) -> AsyncIterator[bytes]:
    hub.readers += 1
    try:
        said = time.monotonic()
        while True:
            try:
                news = await asyncio.to_thread(hub.news, view)
            except InputError as error:  # an unknown metric
                yield _event({"error": str(error)})
                return
            if news is not None:
                yield _event(news)
                said = time.monotonic()
            elif time.monotonic() - said > QUIET:
                yield b": still here\n\n"
                said = time.monotonic()
            await asyncio.sleep(POLL)
    finally:
        hub.readers -= 1


def _event(news: News) -> bytes:
    return b"data: " + json.dumps(news, separators=(",", ":"), allow_nan=False).encode() + b"\n\n"


def new_token() -> str:
    return secrets.token_urlsafe(24)


def make_server(source: Source, token: str) -> uvicorn.Server:
    """A server that is not running yet; quiet, and quick to stop."""
    config = uvicorn.Config(
        make_app(source, token),
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=1,
        lifespan="off",
    )
    return uvicorn.Server(config)


def address(listener: socket.socket, host: str, token: str) -> str:
    """The address that opens the page."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}/?token={token}"
