"""The process that Jupyter starts: ipykernel's sockets and threads around our kernel."""

from __future__ import annotations

import signal
import threading
import types
from typing import Any

import zmq
from ipykernel.kernelapp import IPKernelApp
from traitlets import Type

from .._adapters.arguments import WrongOption
from . import _options
from ._kernel import LimpetKernel

UNREAD = 256  # messages that a listener may leave unread; text comes in pieces of 64 KiB
PATIENCE_MS = 5000  # with one that reads nothing


class SharedSocket:
    """A socket that several threads send on. ipykernel has a thread for that, which each message must wake.

    Whoever sends waits for listeners that have much unread: one that is slow misses nothing, and little is held for
    it. One that reads nothing for long misses what comes until it reads again.
    """

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        socket.sndhwm, socket.sndtimeo = UNREAD, PATIENCE_MS
        self._wait(True)
        self._lock = threading.Lock()
        self._holds = False
        self._held: list[Any] = []

    def hold(self) -> None:
        """The next message goes out together with the one behind it: whoever listens wakes once for both."""
        self._holds = True

    def be_patient(self) -> None:
        """Waits for everybody again."""
        with self._lock:
            self._wait(True)

    def _wait(self, wait: bool) -> None:
        if not self._socket.closed:
            self._socket.setsockopt(zmq.XPUB_NODROP, wait)

    def _send(self, message: Any, how: dict[str, Any]) -> None:
        try:
            self._socket.send_multipart(message, **how)
        except zmq.Again:
            self._wait(False)
            self._socket.send_multipart(message, **how)

    def send_multipart(self, message: Any, **how: Any) -> None:
        """Nothing once it is closed: the control thread may have one more status to tell."""
        with self._lock:
            self._held.append((message, how))
            if self._holds:
                self._holds = False
            elif not self._socket.closed:
                for each, its in self._held:
                    self._send(each, its)
                self._held.clear()

    def close(self) -> None:
        with self._lock:
            self._socket.close()


class LimpetApp(IPKernelApp):  # type: ignore[misc]
    iopub_port: Any

    name = "limpet-kernel"
    kernel_class = Type(LimpetKernel, klass=LimpetKernel).tag(config=True)

    def init_io(self) -> None:
        """Cells print elsewhere: standard output of this process is for Jupyter's log."""
        self.displayhook = types.SimpleNamespace()

    def init_iopub(self, context: Any) -> None:
        socket = context.socket(zmq.PUB)
        socket.linger = 1000
        if hasattr(self, "_apply_curve_server_options"):
            self._apply_curve_server_options(socket)
        self.iopub_socket = SharedSocket(socket)
        self.iopub_port = self._bind_socket(socket, self.iopub_port)
        self.configure_tornado_logger()

    def close(self) -> None:
        if self.iopub_socket:  # none where another port was taken
            self.iopub_socket.close()
        super().close()

    def init_control(self, context: Any) -> None:
        super().init_control(context)
        self.shell_channel_thread = None  # no subshells: the calls of a session go one at a time

    def init_signal(self) -> None:
        signal.signal(signal.SIGINT, lambda number, frame: self.kernel and self.kernel.sandbox.interrupt())

    def init_kernel(self) -> None:
        self.log.setLevel(self.log_level)  # its handler drops the rest, but only after it was made
        super().init_kernel()

    def init_pdb(self) -> None:
        pass

    def init_path(self) -> None:
        pass


def run(arguments: list[str]) -> None:
    problem = ""
    try:
        options, rest = _options.read(arguments)
    except WrongOption as error:
        problem = str(error)
        rest = _options.connection_file(arguments)
        options, _ = _options.read(rest)
    LimpetKernel.options, LimpetKernel.problem = options, problem
    LimpetApp.launch_instance(rest)
