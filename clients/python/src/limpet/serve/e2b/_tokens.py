"""Tokens of sandboxes, and signatures of addresses of files. Tokens follow from one secret, so they need no list."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import os
import secrets
import string
import time
from typing import Literal

_REMEMBERED = 4096
_LETTERS = string.ascii_lowercase + string.digits

Operation = Literal["read", "write"]


class Tokens:
    """Of all sandboxes of a gateway.

    Args:
        directory: Where the secret is kept, over restarts.
    """

    def __init__(self, directory: str) -> None:
        self._secret = _secret(os.path.join(directory, "secret"))
        self._of = functools.lru_cache(_REMEMBERED)(self._made)

    def envd(self, sandbox: str) -> str:
        """``X-Access-Token`` for processes, files and code."""
        return self._of("envd", sandbox)

    def traffic(self, sandbox: str) -> str:
        """``E2B-Traffic-Access-Token`` for ports."""
        return self._of("traffic", sandbox)

    def id(self, owner: str, key: str | None) -> str:
        """Of a new sandbox; the same one for the same idempotency key of the same owner."""
        if key is None:
            return "i" + "".join(secrets.choice(_LETTERS) for _ in range(19))
        number = int(self._of("id", f"{owner}:{key}"), 16)
        return "i" + "".join(_LETTERS[number // 36**place % 36] for place in range(19))

    def _made(self, purpose: str, of: str) -> str:
        return hmac.new(
            self._secret, f"{purpose}:{of}".encode("utf-8", "surrogateescape"), hashlib.sha256
        ).hexdigest()


def is_token(given: str | None, token: str) -> bool:
    """Whether a token is this one, in a time that says nothing."""
    return given is not None and hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())


def signature(path: str, operation: Operation, user: str, token: str, expires: str | None) -> str:
    """As E2B's SDKs make them."""
    text = ":".join([path, operation, user, token, *([] if expires is None else [expires])])
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
    return "v1_" + base64.b64encode(digest).decode().rstrip("=")


def is_expired(expires: str | None, now: float | None = None) -> bool:
    """Whether an address is not good any more; what is no time never was."""
    if expires is None:
        return False
    when = time.time() if now is None else now
    return not expires.isdigit() or len(expires) > 15 or int(expires) < when


def _secret(path: str) -> bytes:
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        with open(path, "rb") as known:
            return known.read()
    with open(file, "wb") as new:
        secret = secrets.token_bytes(32)
        new.write(secret)
    return secret
