"""Files of the page, and what browsers are told about them."""

from __future__ import annotations

import hashlib
import importlib.resources

from .._app import refuse
from .._http import Receive, Scope, Send, heads, respond
from .._problems import Problem

_TYPES = {
    "html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}  # fmt: skip
_PAGE = "; ".join(
    [
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data: blob:",
        "connect-src 'self'",
        "frame-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
    ]
)  # fmt: skip
# The frame in which scripts of a cell run: an origin of its own, and no network.
_FRAME = "; ".join(
    [
        "sandbox allow-scripts", "default-src 'none'", "script-src 'unsafe-inline' 'unsafe-eval' blob:",
        "worker-src blob:",
        "style-src 'unsafe-inline'", "img-src data: blob:", "font-src data:", "media-src data: blob:",
        "frame-src 'none'",
        "form-action 'none'", "base-uri 'none'", "frame-ancestors 'self'",
    ]
)  # fmt: skip


class Static:
    """Answers with a file of the package, by its name."""

    def __init__(self) -> None:
        folder = importlib.resources.files(__package__).joinpath("static")
        self._files = {
            f"/{file.name}": _File(file.name, file.read_bytes())
            for file in folder.iterdir()
            if file.is_file()
        }
        self._files["/"] = self._files["/index.html"]
        self._files["/favicon.ico"] = self._files["/icon.svg"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        file = self._files.get(scope["path"])
        if file is None:
            await refuse(scope, send, Problem(404, "NotFound", f"there is nothing at {scope['path']}"))
            return
        if scope["method"] not in ("GET", "HEAD"):
            await refuse(scope, send, Problem(405, "BadRequest", f"{scope['path']} takes GET"))
            return
        known = heads(scope).get(b"if-none-match") == file.tag
        await respond(
            send, 304 if known else 200, file.data, file.headers, known or scope["method"] == "HEAD"
        )


class _File:
    def __init__(self, name: str, data: bytes) -> None:
        self.data = data
        self.tag = f'"{hashlib.sha256(self.data).hexdigest()[:20]}"'.encode()
        policy = _FRAME if name == "frame.html" else _PAGE
        self.headers = [
            (b"content-type", _TYPES[name.rpartition(".")[2]].encode()),
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cache-control", b"no-cache"),
            (b"etag", self.tag),
        ]
