"""The server: everything to those who have the token, 403 to all others; events as they come."""

import json
import os
import subprocess
import sys
import urllib.request

import pytest
from watched import Writer

pytest.importorskip("starlette", reason="the extra watch is not installed")
pytest.importorskip("uvicorn", reason="the extra watch is not installed")

from served import TOKEN, get, served

from zocosmo.watch.server import PAGE
from zocosmo.watch.study import Study

PATHS = [*PAGE, "/events", "/events?metric=objective"]


@pytest.fixture
def writer(tmp_path):
    return Writer(tmp_path / "run")


@pytest.fixture
def root(writer):
    with served(Study(writer.folder)) as where:
        yield where.partition("/?")[0]


def test_nothing_is_shown_without_the_token(root):
    for path in PATHS:
        for wrong in ("", "?token=", "?token=a-token-for-test", "?token=%C3%A9"):
            code, headers, text = get(f"{root}{path.partition('?')[0]}{wrong}")
            assert code == 403
            assert text.startswith("403: this page needs its token")
            assert "set-cookie" not in headers
        assert get(f"{root}{path}", Cookie="zocosmo-watch-1=x; other=y")[0] == 403
    assert get(f"{root}/nothing?token={TOKEN}")[0] == 404


def test_the_address_sets_a_cookie_and_hides_the_token(root):
    code, headers, _ = get(f"{root}/?token={TOKEN}")
    assert (code, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    for path in PAGE:
        code, headers, _ = get(root + path, Cookie=cookie.partition(";")[0])
        assert code == 200
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["cache-control"] == "no-store"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root, to become another user")
def test_another_user_of_the_machine_gets_403(root):
    port = root.rpartition(":")[2]
    text = f"""
import os, socket, encodings.idna
os.setgid(65534); os.setuid(65534)
link = socket.create_connection(("127.0.0.1", {port}), 20)
link.sendall(b"GET /events HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nConnection: close\\r\\n\\r\\n")
print(os.getuid(), link.recv(100).split()[1].decode())
"""
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert (found.stdout.split(), found.stderr) == (["65534", "403"], "")


def events(where, count):
    """The first events of a stream."""
    found = []
    with urllib.request.urlopen(where, timeout=30) as stream:
        for line in stream:
            if line.startswith(b"data: "):
                found.append(json.loads(line[6:]))
                yield found[-1]
                if len(found) == count:
                    return


def test_events_carry_what_is_new(root, writer):
    writer.row(0)
    stream = events(f"{root}/events?token={TOKEN}", 2)
    first = next(stream)
    assert first["anew"]
    assert first["points"]["0"]["round"] == [0]
    writer.row(10)
    second = next(stream)
    assert "anew" not in second
    assert "curves" not in second
    assert second["points"]["1"]["round"] == [10]
    stream.close()


def test_an_unknown_metric_is_an_error_and_no_traceback(root, writer):
    writer.row(0)
    assert "is not known" in next(events(f"{root}/events?token={TOKEN}&metric=x", 1))["error"]


def test_pages_load_nothing_from_elsewhere():
    from importlib.resources import files

    for name, _ in PAGE.values():
        text = files("zocosmo.watch").joinpath("page", name).read_text(encoding="utf-8")
        assert "//" not in text.replace("http://www.w3.org/2000/svg", "").replace("// ", "")
        assert "url(" not in text.replace("url(#tip-of-arrow)", "")
        assert "style=" not in text
