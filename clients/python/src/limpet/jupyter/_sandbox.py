"""The session behind a kernel: when it is opened, interrupted, kept alive and closed."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .. import Asks, Client, Display, Error, NoSuchSession, Result, Session
from . import _options

AGAIN = 0.02  # seconds until an interrupt that came before its call is tried again
NOTEBOOK = "__import__('limpet_runtime.notebook').notebook"
"""What serves notebooks in the sandbox."""
ASK_TIMEOUT = 3.0  # seconds for what a frontend asks while one types


class Sandbox:
    """Opens its session when it is first needed.

    ``connection_file`` names the notebook: a kernel that is started again on it, in whatever way the last one
    ended, finds the session of its own and begins in it with no variables.
    """

    def __init__(self, options: argparse.Namespace, connection_file: str) -> None:
        notebook = hashlib.sha256(os.path.abspath(connection_file).encode()).hexdigest()[:16]
        self.own = options.session is None
        self.name = f"jupyter-{notebook}" if self.own else options.session
        self.session: Session | None = None
        """The one that cells run in: a branch after ``%limpet branch``."""
        self.origin: Session | None = None
        self.notes: list[str] = []
        """What a person should be told once."""
        self.interrupts = 0
        """How many calls were interrupted, or had ended when they were to be."""
        self.has_begun = False
        """Whether the session knows that it is a notebook's; one that lost its variables does not."""
        self._options = options
        self._client = Client(options.address)
        # For what nobody waits for: it neither starts a controller nor looks for one that has gone.
        self._quick = Client(options.address, autostart=False, reconnect_timeout=0)
        self._epoch: tuple[str, int] | None = None
        self._running: str | None = None

    @property
    def client(self) -> Client:
        return self._client

    def opened(self) -> Session:
        if self.session is None:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self.session = self.origin = self._open()
            self.notes += [str(warning.message) for warning in caught]
            if self.own and self.session.options["ttl"]:
                threading.Thread(target=self._keep_alive, args=(self.session,), daemon=True).start()
        return self.session

    def _open(self) -> Session:
        left_behind = self.own and any(row.session == self.name for row in self._client.sessions())
        options = _options.of_session(self._options)
        if self.own:  # the next kernel would begin without its variables
            options["ttl_action"] = options["ttl_action"] or "close"
        session = self._client.open(self.name, **options)
        if left_behind:
            session.reset()
        return session

    @contextlib.contextmanager
    def expecting(self) -> Iterator[None]:
        """A cell has begun: an interrupt is for the call that it will make, however much later."""
        self._running = os.urandom(16).hex()
        try:
            yield
        finally:
            self._running = None

    def run(
        self,
        code: str,
        on_stdout: Callable[[str], Any],
        on_stderr: Callable[[str], Any],
        on_display: Callable[[Display], Any],
        asks: Asks,
    ) -> Result:
        self._running = run_id = self._running or os.urandom(16).hex()
        try:
            return self.opened().run(
                code,
                self._options.timeout,
                on_stdout=on_stdout,
                on_stderr=on_stderr,
                on_display=on_display,
                run_id=run_id,
                tools=asks,
            )
        finally:
            self._running = None

    def begin(self) -> int | None:
        """The number of the call by which the session learns that it is a notebook's; None when it knows.

        One that did not end well is made again before the next cell.
        """
        if self.has_begun:
            return None
        result = self.opened().run(f"{NOTEBOOK}.begin()", self._options.timeout)
        self.has_begun = result.ok
        return result.execution_count

    def names(self) -> list[str]:
        """The variables, which runs no code; none when the session is in use or not open."""
        session = self._idle()
        return [] if session is None else [variable.name for variable in self._aside(session).namespace()]

    def ask(self, code: str, timeout: float = ASK_TIMEOUT) -> Result | None:
        """Runs code of ours, as one more call; None when the session is in use or not open."""
        session = self._idle()
        return None if session is None else session.run(code, timeout)

    def answer(self, code: str, asks: Asks) -> Result:
        """Runs code of ours as one more call, however long others take."""
        return self.opened().run(code, self._options.timeout, tools=asks)

    def put(self, data: bytes) -> str:
        """Into a file of the sandbox, whose path there is returned."""
        session = self.opened()
        name = f".jupyter-{os.urandom(8).hex()}"
        session.put(data, name)
        return f"~/{name}" if session.engine == "local" else f"/session/{name}"

    def has_moved(self, result: Result) -> bool:
        """Whether the variables are not those that the last call left, as far as this notebook knows."""
        now = str(result.session), result.epoch
        before, self._epoch = self._epoch, now
        return before is not None and before != now

    def _aside(self, session: Session) -> Session:
        """The same session for what nobody waits for; NoSuchSession when another one has its name now."""
        aside = self._quick.attach(session.name)
        if aside.instance != session.instance:
            raise NoSuchSession(f"the session '{session.name}' is another one now")
        return aside

    def _idle(self) -> Session | None:
        """The session, unless a question would have to wait: for a call of somebody else, or for a controller."""
        if self.session is None:
            return None
        statuses = [row.status for row in self._quick.sessions() if row.session.split("/")[0] == self.name]
        return self.session if set(statuses) == {"idle"} else None

    def interrupt(self) -> None:
        """Interrupts the cell that runs, also one whose session is still being opened; nothing otherwise.

        It returns at once, and names the call: what others run in a shared session is not touched.
        """
        if self._running is not None:
            threading.Thread(target=self._interrupt, args=(self._running,), daemon=True).start()

    def _interrupt(self, run_id: str) -> None:
        while self._running == run_id and not self._has_interrupted(run_id):
            time.sleep(AGAIN)
        self.interrupts += 1

    def _has_interrupted(self, run_id: str) -> bool:
        """False when the call has not come to the controller yet, or there is no controller yet."""
        with contextlib.suppress(Error):
            self._quick.interrupt(run_id)
            return True
        return False

    def end(self, restart: bool) -> None:
        """The kernel ends. A session of its own ends with it, or loses its variables for a restart."""
        with contextlib.suppress(Error):
            if not restart and self.own:  # by name: the kernel before a restart may have opened it
                self._quick.close_session(self.name)
            elif restart and self.origin is not None:
                self.origin.reset()

    def _keep_alive(self, session: Session) -> None:
        """An own session ends its ttl after its kernel, not its ttl after the last cell."""
        while self.origin is session:
            time.sleep((session.options["ttl"] or 0) / 3)
            with contextlib.suppress(Error):
                self._aside(session).namespace()
