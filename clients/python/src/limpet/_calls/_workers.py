"""Threads for functions of the caller, and an event loop for those that are coroutines.

All are daemons: a function that hangs is left behind when its call has ended, and holds up no exit.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import os
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Any


class Ended(Exception):
    """A function has raised what ends a program: it ends none from a thread. ``error``: that."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class Workers:
    """Up to ``most`` threads, begun when they are needed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0

    def submit(self, function: Callable[[], Any]) -> concurrent.futures.Future[Any]:
        """Runs it in a copy of the caller's context."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        context = contextvars.copy_context()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(context.run(function))
            except (SystemExit, KeyboardInterrupt) as error:
                future.set_exception(Ended(error))
            except BaseException as error:
                future.set_exception(error)

        self._work.put(work)
        if not self._idle.acquire(blocking=False) and self._count < self._most:
            self._count += 1
            threading.Thread(target=self._serve, name="limpet-tool", daemon=True).start()
        return future

    def close(self) -> None:
        """They end when they have done what they do."""
        for _ in range(self._count):
            self._work.put(None)

    def _serve(self) -> None:
        while True:
            work = self._work.get()
            if work is None:
                return
            work()
            self._idle.release()


class Loop:
    """The event loop of the process on which a blocking client runs coroutines."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def submit(self, awaitable: Awaitable[Any]) -> concurrent.futures.Future[Any]:
        return asyncio.run_coroutine_threadsafe(_wait_for(awaitable), self._running())

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name="limpet-loop", daemon=True).start()
            return self._loop


LOOP = Loop()


async def _wait_for(awaitable: Awaitable[Any]) -> Any:
    try:
        return await awaitable
    except (SystemExit, KeyboardInterrupt) as error:
        raise Ended(error) from error
