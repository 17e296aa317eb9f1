"""Files of a form, as browsers and ``curl -F`` send them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.datastructures import UploadFile

from ... import BadRequest
from .._http import bounded
from .._http import files_of as form_files
from .._problems import Problem
from ._call import Call

_AROUND = 1 << 20  # bytes of a form beside the contents of its files
_PIECE = 1 << 20
_MOST_FILES = 100


async def files_of(call: Call, most: int) -> AsyncIterator[tuple[str, AsyncIterator[bytes]]]:
    """Each with its name. What is larger than one megabyte lies on the disk meanwhile.

    Args:
        call: The request.
        most: Bytes of all of them; 0 is any number.
    """
    pieces = call.pieces()
    if most:
        refusal = Problem(413, "TooLarge", f"a session has {most} bytes for /data (SESSION_MAX_BYTES)")
        pieces = bounded(pieces, most + _AROUND, refusal)
    try:
        async with form_files(call.headers.items(), pieces, _MOST_FILES) as files:
            for file in files:
                yield file.filename or "", _pieces(file)
    except ValueError as error:
        raise BadRequest(f"the form is malformed: {error}") from None


async def _pieces(file: UploadFile) -> AsyncIterator[bytes]:
    while piece := await file.read(_PIECE):
        yield piece
