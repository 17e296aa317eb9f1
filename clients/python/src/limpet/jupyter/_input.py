"""input() and getpass() of a cell: the frontend is asked on Jupyter's stdin channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import zmq

LOOK = 100  # milliseconds until an interrupt is noticed
END = "\x04"  # what a frontend sends for the end of input


class Frontend:
    """The one whose cell runs. ``interrupts`` counts those that have arrived in the sandbox."""

    def __init__(self, kernel: Any, interrupts: Callable[[], int]) -> None:
        self._kernel = kernel
        self._interrupts = interrupts

    def line(self, prompt: str, password: bool = False) -> str | None:
        """What is typed there. None at the end of input, and once the cell is interrupted."""
        before = self._interrupts()
        self._forget_late_replies()
        self._request({"prompt": prompt, "password": password})
        while self._interrupts() == before:
            if self._kernel.stdin_socket.poll(LOOK):
                value = self._reply()
                if value is not None:
                    return None if value == END else value
        return None

    def _forget_late_replies(self) -> None:
        """To questions of cells that have ended meanwhile."""
        while self._kernel.stdin_socket.poll(0):
            self._kernel.stdin_socket.recv_multipart(zmq.NOBLOCK)

    def _request(self, content: dict[str, Any]) -> None:
        kernel = self._kernel
        ident = kernel._get_shell_context_var(kernel._shell_parent_ident)
        kernel.session.send(
            kernel.stdin_socket, "input_request", content, kernel.get_parent("shell"), ident=ident
        )

    def _reply(self) -> str | None:
        """None for what is no answer."""
        try:
            _, message = self._kernel.session.recv(self._kernel.stdin_socket)
            value = message["content"]["value"]
        except (ValueError, TypeError, KeyError):
            self._kernel.log.warning("a reply to input() is malformed", exc_info=True)
            return None
        return value if isinstance(value, str) else None
