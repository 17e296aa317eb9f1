"""Files of a form, as browsers and ``curl -F`` send them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from ... import BadRequest
from .._problems import Problem
from ._call import Call

_AROUND = 1 << 20  # bytes of a form beside the contents of its files
_PIECE = 1 << 20


async def files_of(call: Call, most: int) -> AsyncIterator[tuple[str, AsyncIterator[bytes]]]:
    """Each with its name. What is larger than one megabyte lies on the disk meanwhile.

    Args:
        call: The request.
        most: Bytes of all of them; 0 is any number.
    """

    async def bounded() -> AsyncIterator[bytes]:
        size = 0
        async for piece in call.pieces():
            size += len(piece)
            if most and size > most + _AROUND:
                raise Problem(413, "TooLarge", f"a session has {most} bytes for /data (SESSION_MAX_BYTES)")
            yield piece

    headers = Headers(raw=list(call.headers.items()))
    try:
        form = await MultiPartParser(headers, bounded(), max_files=100, max_fields=100).parse()  # type: ignore[arg-type]
    except (MultiPartException, KeyError) as error:
        raise BadRequest(f"the form is malformed: {getattr(error, 'message', error)}") from None
    try:
        for _, item in form.multi_items():
            if isinstance(item, UploadFile):
                yield item.filename or "", _pieces(item)
    finally:
        await form.close()


async def _pieces(file: UploadFile) -> AsyncIterator[bytes]:
    while piece := await file.read(_PIECE):
        yield piece
