# Generated from limpet/_async/commands.py by scripts/generate-blocking: change that file.
"""Commands of a session: programs that run beside its Python."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .._calls._stream import stream_of
from .._connection import _ports
from .._protocol import _process_requests, _requests
from .._protocol._opened import Opened
from .._protocol._programs import REQUEST, Command, Input, program, reading
from .._protocol._requests import Request
from ..errors import NoSuchRun
from ..processes import ProcessRow
from ..results import Result
from .connecting import in_thread
from .processes import Process

if TYPE_CHECKING:
    from .client import Client
    from .session import Session

T = TypeVar("T")


class Commands(Opened):
    """What a session does with programs. They run in its container, as its Python does, and at the same time."""

    _client: Client

    def exec(
        self,
        command: Command,
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        stdin: Input | None = None,
        on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None,
        run_id: str | None = None,
        check: bool | None = None,
        echo: bool = False,
    ) -> Result:
        """Runs a command and returns its result, whatever the command did.

        It has the session's files, environment and limits, and runs beside the code: neither waits for the other. A
        rollback, a reset or a crash of Python does not affect it. Processes that it leaves behind keep running.

        ``status`` is ``ok`` for exit code 0, and ``error`` for others; ``exit_code`` has it, and 127 means that the
        program does not exist. ``state`` is ``kept``, ``execution_count`` None and ``kind`` ``command``.

        Ctrl-C interrupts the command, not just the wait: once its result has come KeyboardInterrupt is raised,
        with the result as ``limpet_result``. A second Ctrl-C stops waiting at once. Whatever else a signal
        handler or a callback raises does the same.

        Args:
            command: A line for ``bash -c``, or a list: a program and its arguments.
            cwd: Where it runs, by default and relative to ``/session``.
            env: Added to the session's environment.
            timeout: Seconds, by default the session's. Then its process group gets SIGTERM, and two seconds later
                SIGKILL.
            stdin: Its standard input, by default empty: text, bytes, or a binary file object. What is more than 4 MiB
                is put into a file below ``/session``, which is removed when the command has opened it.
            on_stdout: Gets text while the command runs.
            on_stderr: Likewise.
            run_id: 32 hexadecimal digits. The same one never runs twice but gets the same result.
            check: See :meth:`Session.run`.
            echo: See :meth:`Session.run`.
        """
        self._check()
        run_id = run_id or _requests.new_run_id()
        data = stdin.encode() if isinstance(stdin, str) else stdin
        if data is not None and not (isinstance(data, bytes) and len(data) <= REQUEST):
            program(command, cwd, env, None)  # raises what is wrong with it before anything is copied
            file = f"/session/.limpet-stdin-{run_id}"
            cast("Session", self).put(data, file)
            command, data = reading(command, file), None
        stream = stream_of(on_stdout, on_stderr, None, None, echo)
        call = _requests.exec_(self._target, program(command, cwd, env, data), timeout, run_id, stream)
        return self._checked(self._client._run(call, stream), check)

    def start(
        self,
        command: Command,
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        pty: bool | tuple[int, int] | None = None,
        name: str | None = None,
        run_id: str | None = None,
    ) -> Process:
        """Starts a program in the background and returns at once.

        It runs like a command of :meth:`exec`, but without a time limit, until it ends by itself, by a signal, or with
        the session. An idle session ends after its ``ttl``, whatever runs in it; waiting for the process and following
        its output count as use. At most 64 commands and processes run at once.

        Args:
            command: A line for ``bash -c``, or a list: a program and its arguments.
            cwd: Where it runs, by default and relative to ``/session``.
            env: Added to the session's environment.
            stdin: Its first input, 4 MiB at most. Its standard input stays open for :meth:`Process.send`.
            pty: Gives it a terminal of its own: its size as columns and rows, or True for 80 and 24.
            name: What people may call it; no other process of that name may be running.
            run_id: 32 hexadecimal digits. The same one is never started twice.

        Raises:
            Busy: Too many run already.
            BadRequest: The name is in use.
        """
        self._check()
        run_id = run_id or _requests.new_run_id()
        said = program(command, cwd, env, stdin)
        id = self._request(_process_requests.start(said, name, pty, run_id))
        return self.process(id)

    def process(self, which: str | int) -> Process:
        """Returns the process of an id, a name or a pid, whichever client has started it.

        Raises:
            NoSuchRun: There is none; the message lists those that run.
        """
        return Process(self, self._process_row(str(which)))

    def processes(self) -> list[Process]:
        """Lists the commands and processes that run, processes that ended lately, and what these left behind."""
        return [Process(self, row) for row in self._request(_process_requests.processes())]

    def _process_row(self, which: str) -> ProcessRow:
        rows = self._request(_process_requests.processes())
        found = [row for row in rows if which in (row.id, row.name, str(row.pid))]
        if found:
            return max(found, key=lambda row: (row.running, row.created or 0))
        result = self._result_of_process(which)
        if result is not None:
            return ProcessRow.from_result(result)
        running = ", ".join(row.name or row.id for row in rows if row.running)
        raise NoSuchRun(
            f"the session has no process {which!r}; " + (f"these run: {running}" if running else "none runs")
        )

    def _result_of_process(self, id: str) -> Result | None:
        """That of a process which only its result still tells of. A name is never one of these."""
        if not _process_requests.is_id(id):
            return None
        try:
            result = self._client.result(id, 0)
        except NoSuchRun:
            return None
        if result is None or result.kind != "command" or result.session != self.name.partition("/")[0]:
            return None
        return result

    def connect(self, port: int) -> socket.socket:
        """Connects to a port of the sandbox's loopback, on which something in the session listens.

        The socket is a real one: what goes through it passes neither the controller nor this client, and a new
        controller changes nothing about it. For a controller that a command reaches, such as ``ssh://HOST``, it is
        that of another such command, and ends as the server ends its side. The socket blocks;
        ``asyncio.open_connection(sock=...)`` takes it.

        Args:
            port: Port of TCP, at 127.0.0.1 or ::1.

        Raises:
            NotListening: Nothing takes connections there. Also a ConnectionRefusedError.
            Unavailable: There is no controller on this machine that passes connections on.
        """
        self._check()
        self._client.features()  # finds or starts a controller
        _ports.check_port(port)
        return in_thread(_ports.connected, self._client.address, self._target, port)

    def forward(
        self, port: int, path: str | os.PathLike[str] | None = None, *, local_port: int = 0
    ) -> _ports.Forwarding:
        """Makes a port of the sandbox's loopback reachable on this machine.

        At 127.0.0.1 all users of this machine can connect, and at the path of a socket only this user.

        Args:
            port: TCP port in the session. Nothing needs to listen there yet.
            path: Path of a unix socket to make, in place of a port of this machine.
            local_port: Port of 127.0.0.1. Defaults to any that is free.

        Returns:
            An object with the address. It works until ``close()``, or to the end of a ``with`` block, whose value is
            the address.
        """
        self._check()
        _ports.check_port(port)
        to = local_port if path is None else os.fspath(path)
        return _ports.Forwarding(lambda: _ports.connected(self._client.address, self._target, port), to)

    def _request(self, request: Request[T]) -> T:
        self._check()
        return self._client._request(request.of(self._target))
