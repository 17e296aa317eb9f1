"""What is answered when something cannot be done: RFC 9457, with the stable name of the error."""

from __future__ import annotations

import errno
import http
import json

from .. import errors
from ..errors import Error, FileFailed

_STATUS: dict[type[Error], int] = {
    errors.BadRequest: 400,
    errors.ProtocolMismatch: 502,
    errors.TooLarge: 413,
    errors.Denied: 403,
    errors.NoSuchSession: 404,
    errors.SessionClosed: 404,
    errors.OptionsDiffer: 409,
    errors.Busy: 429,
    errors.NoSuchRun: 404,
    errors.NoSuchCheckpoint: 404,
    errors.NoSuchFile: 404,
    errors.CheckpointFailed: 409,
    errors.BranchExists: 409,
    errors.LimitReached: 429,
    errors.NotListening: 502,
    errors.InstallFailed: 422,
    errors.NoSuchTemplate: 404,
    errors.TemplateExists: 409,
    errors.TemplateFailed: 422,
    errors.SaveFailed: 409,
    errors.RestoreFailed: 409,
    errors.SessionExists: 409,
    errors.ImageMissing: 404,
    errors.EngineError: 502,
    errors.Unavailable: 503,
    errors.Internal: 500,
}
_OF_ERRNO = {
    errno.ENOENT: 404, errno.EACCES: 403, errno.EPERM: 403, errno.EISDIR: 409, errno.ENOTDIR: 409, errno.EEXIST: 409,
    errno.ENOTEMPTY: 409, errno.EBUSY: 409, errno.ENOSPC: 507, errno.EDQUOT: 507, errno.EFBIG: 413,
}  # fmt: skip


class Disconnected(Exception):
    """The client has left."""


class Problem(Exception):
    """An answer that is an error.

    Args:
        status: Of HTTP.
        name: The stable name: that of an exception of the Python client, ``Unauthorized``, ``NotFound``, ...
        detail: A sentence for people.
        retry_after: Seconds after which it may go better.
        more: Further members of the document.
    """

    def __init__(
        self, status: int, name: str, detail: str, retry_after: float | None = None, **more: object
    ) -> None:
        super().__init__(detail)
        self.status, self.name, self.detail = status, name, detail
        self.retry_after, self.more = retry_after, more

    @property
    def retry(self) -> list[tuple[bytes, bytes]]:
        """The header that says when, if that is known."""
        if self.retry_after is None:
            return []
        return [(b"retry-after", str(max(1, round(self.retry_after + 0.5))).encode())]

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Of the answer, as ASGI has them."""
        headers = [(b"content-type", b"application/problem+json"), *self.retry]
        if self.status == 401:
            headers.append((b"www-authenticate", b'Bearer realm="limpet"'))
        return headers

    @property
    def body(self) -> bytes:
        """The document."""
        title = http.HTTPStatus(self.status).phrase
        document = {"type": "about:blank", "title": title, "status": self.status, "name": self.name}
        return json.dumps({**document, "detail": self.detail, **self.more}).encode()


def problem_of(error: Exception) -> Problem:
    """What an exception of the client is answered with. Anything else is ours to repair, and not told."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, Disconnected):
        return Problem(400, "BadRequest", "the client went away before the end of the body")
    if isinstance(error, FileFailed):
        return Problem(_OF_ERRNO.get(error.errno or 0, 400), error.name, error.message)
    if isinstance(error, errors.OptionsDiffer):
        return Problem(409, error.name, error.message, options=list(error.options))
    if isinstance(error, Error):
        status = _STATUS.get(type(error), 500)
        return Problem(status, error.name, error.message, 1 if status in (429, 503) else None)
    return Problem(500, "Internal", "the gateway failed; its log says more")
