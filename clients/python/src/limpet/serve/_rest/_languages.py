"""Languages of a session's code."""

from __future__ import annotations

from typing import Any

import msgspec

from ._call import Call
from ._operations import PREFIX, operation

_LISTED = ("/usr/bin/python3", "-I", "/usr/lib/limpet/python/limpet_languages/described.py")
_LIMIT = 10.0  # seconds
_EVERYWHERE = ["python", "bash"]


class Languages(msgspec.Struct):
    """Names, as ``language`` of a call takes them."""

    languages: list[str]


@operation("GET", PREFIX + "/sessions/{session}/languages", gives=Languages)
async def list_languages(call: Call) -> Any:
    """Lists the languages that code of the session may be in: those that its image has."""
    session = await call.session()
    if session.engine == "local":  # there is no image
        return Languages(_EVERYWHERE)
    listed = await session.exec(list(_LISTED), timeout=_LIMIT)
    return Languages(
        msgspec.json.decode(listed.stdout, type=list[str]) if listed.status == "ok" else _EVERYWHERE
    )
