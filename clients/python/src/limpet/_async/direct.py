"""put() and get() of large files by what the controller has opened. The blocking one is generated from this file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._connection import _passing
from .._connection._recovery import ConnectionLost
from .._copying import _files
from .._protocol import _requests
from ..errors import Unavailable
from .connecting import in_thread

if TYPE_CHECKING:
    from .session import AsyncSession

Progress = Callable[[int, int], Any]


async def put_file(
    session: AsyncSession, local: str, path: str | bytes, on_progress: Progress | None
) -> bool:
    """Whether it has copied the file; otherwise it is to go in pieces."""
    target = session._target
    with contextlib.ExitStack() as stack:
        source = await in_thread(_passing.large, local)
        if source is None:
            return False
        passing = await in_thread(_passing.connect, session._client.address)
        if passing is None:
            return False
        stack.callback(passing.close)
        with contextlib.suppress(ConnectionLost, ConnectionError):
            file = await in_thread(passing.descriptor, _requests.put_through(path), target)
            if file is None:
                return False
            size = await _copy_up(passing, session, source, file, path, on_progress)
            await in_thread(passing.ask, _requests.put(path, size, b"", last=True), target)
            return True
        raise Unavailable("the controller went away; it is unknown whether put() was carried out")


async def get_file(
    session: AsyncSession, path: str | bytes, local: str, on_progress: Progress | None
) -> bool:
    """Whether it has copied the file; otherwise it is to come in pieces."""
    with contextlib.ExitStack() as stack:
        passing = await in_thread(_passing.connect, session._client.address)
        if passing is None or not await in_thread(_passing.is_plain, local):
            return False
        stack.callback(passing.close)
        try:
            file = await in_thread(passing.descriptor, _requests.get_through(path), session._target)
        except (ConnectionLost, ConnectionError):
            return False
        if file is None:
            return False
        with _files.writable(local) as target:
            await _copy(file, _passing.Held(os.dup(target.fileno())), on_progress)
        return True


async def _copy_up(
    passing: _passing.Passing,
    session: AsyncSession,
    source: _passing.Held,
    file: _passing.Held,
    path: str | bytes,
    on_progress: Progress | None,
) -> int:
    """How large the file has become. Where it cannot be copied, what there is of it makes room again."""
    try:
        await _copy(source, file, on_progress)
        return file.size()
    except BaseException as error:
        passing.give_up(_requests.put(path, 0, b"", last=False), session._target)
        if isinstance(error, OSError):
            _passing.refuse(error, path)
        raise


async def _copy(source: _passing.Held, target: _passing.Held, on_progress: Progress | None) -> None:
    size, steps = source.size(), _passing.copied(source, target)
    while (done := await in_thread(next, steps, None)) is not None:
        if on_progress is not None:
            on_progress(done, size)
