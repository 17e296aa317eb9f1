"""Ctrl-C for blocking agents.

LangGraph runs their tools in threads; Ctrl-C reaches the main thread alone, which then waits for those threads to
end: a KeyboardInterrupt on its way out of a graph interrupts the calls that run there. So does leaving the stream of
a graph, which is what is seen of a Ctrl-C while somebody looks at an event.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

from .. import Client, Error
from ._both import AnyClient

_EVERY = 0.1  # seconds between looks at the main thread, while calls run


@contextlib.contextmanager
def noted(client: AnyClient, run_id: str) -> Iterator[None]:
    """While the call of that run_id runs in this thread."""
    if not isinstance(client, Client) or threading.current_thread() is threading.main_thread():
        yield
        return
    _watch.add(run_id, client)
    try:
        yield
    finally:
        _watch.discard(run_id)


class _Watch:
    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, Client] = {}
        self._runs = False  # whether a thread looks

    def add(self, run_id: str, client: Client) -> None:
        with self._lock:
            self._calls[run_id] = client
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._look, name="limpet-ctrl-c", daemon=True).start()

    def discard(self, run_id: str) -> None:
        with self._lock:
            self._calls.pop(run_id, None)

    def _look(self) -> None:
        """Until no call runs. Interrupts each once; one that is not running yet, at the next look."""
        while True:
            time.sleep(_EVERY)
            with self._lock:
                if not self._calls:
                    self._runs = False
                    return
                calls = list(self._calls.items())
            if not _interrupted():
                continue
            for run_id, client in calls:
                with contextlib.suppress(Error):
                    if client.interrupt(run_id):
                        self.discard(run_id)


_watch = _Watch()


def _interrupted() -> bool:
    """Whether the main thread is leaving a graph because of one, and not dealing with one that is over."""
    main = threading.main_thread().ident or 0
    error = _raised(sys._current_exceptions().get(main))
    frame = sys._current_frames().get(main)
    if not isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        return False
    left = set(_frames(error.__traceback__))
    while frame is not None and frame not in left:
        frame = frame.f_back
    if isinstance(error, GeneratorExit):  # other generators may be left within a graph
        return frame is not None and _of_langgraph(frame)
    while frame is not None and not _of_langgraph(frame):
        frame = frame.f_back
    return frame is not None


def _of_langgraph(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith("langgraph.")


def _raised(current: Any) -> BaseException | None:
    """Python 3.11 and older give the type and the traceback as well."""
    error: BaseException | None = current[1] if isinstance(current, tuple) else current
    return error


def _frames(traceback: TracebackType | None) -> Iterator[FrameType]:
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next
