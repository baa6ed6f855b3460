"""zocosmo watch: a live page, or a terminal, for a job that runs, was stopped or is finished."""

import socket
import sys
import tempfile
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from zocosmo.cli.common import app, say
from zocosmo.cli.options import RUNS, argument, option
from zocosmo.errors import InputError, check_whole

if TYPE_CHECKING:
    from zocosmo.watch.source import Source

LOOPBACK = ("127.0.0.1", "::1", "localhost")
RunArgument = Annotated[
    Path | None,
    argument("Folder, config or log of a run, or a journal of minimize.  [default: the newest]"),
]


@app.command()
def watch(
    run: RunArgument = None,
    terminal: Annotated[bool, option("Draw in this terminal, without a browser.", "--terminal")] = False,
    once: Annotated[bool, option("With --terminal: draw once, and stop.", "--once")] = False,
    metric: Annotated[str, option("With --terminal: what to show, such as accuracy.")] = "",
    port: Annotated[int, option("Port to listen on; 0 takes a free one.")] = 0,
    host: Annotated[
        str, option("Address to listen on; others than the loopback let other machines in.")
    ] = "127.0.0.1",
    open_: Annotated[bool, option("Open the page in a browser.", "--open")] = False,
) -> None:
    """Watch a job of run, compare, finetune, launch or minimize: curves, nodes, pairs, failures, time left.

    Prints the address of a live page. It needs the token in that address: without it the server answers 403,
    to other users of this machine too. The page loads nothing from elsewhere. Works on running, stopped and
    finished jobs, and needs nothing of the job but its files.

    \b
    Example: zocosmo example > a.yaml && zocosmo run a.yaml && zocosmo watch runs/a --terminal --once
    """
    from zocosmo.watch.find import find_source

    if once and not terminal:
        raise InputError("--once is for --terminal; leave it out, or give both")
    check_whole("--port", port, 0, 65535)
    source = find_source(run, RUNS)
    if terminal:
        from zocosmo.watch.terminal import draw

        draw(source, metric, once=once or not sys.stdout.isatty())
        return
    serve(source, host, port, open_)


def serve(source: "Source", host: str, port: int, open_: bool) -> None:
    """Serve until interrupted."""
    try:
        from zocosmo.watch.server import address, make_server, new_token
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("starlette", "uvicorn"):
            raise
        raise InputError(
            f"watch needs {missing}; run: pip install 'zocosmo[watch]', or add --terminal"
        ) from None
    listener, token = _listen(host, port), new_token()
    server = make_server(source, token)
    where = address(listener, host, token)
    if host not in LOOPBACK:
        say(f"{host} lets other machines in; whoever has the address sees the run, unencrypted")
    print(f"{where}\nCtrl-C stops the page; the run goes on without it.", flush=True)
    if open_:
        threading.Timer(0.3, _open, [where]).start()
    server.run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens before anything is printed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        raise InputError(f"cannot listen on {host} port {port}: {error.strerror}; choose another") from None
    return listener


def _open(where: str) -> None:
    """Open the page by a private file: other users can read the command line of a browser."""
    text = f'<!doctype html><meta http-equiv="refresh" content="0; url={where}">'
    with tempfile.NamedTemporaryFile("w", suffix=".html", delete=False) as file:  # mode 600
        file.write(text)
    webbrowser.open(Path(file.name).as_uri())
    removal: Any = threading.Timer(20, Path(file.name).unlink, kwargs={"missing_ok": True})
    removal.daemon = True
    removal.start()
