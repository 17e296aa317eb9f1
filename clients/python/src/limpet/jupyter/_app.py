"""The process that Jupyter starts: ipykernel's sockets and threads around our kernel."""

from __future__ import annotations

import signal
import threading
import time
import types
from typing import Any

import zmq
from ipykernel.kernelapp import IPKernelApp
from ipykernel.thread import CONTROL_THREAD_NAME
from traitlets import Type

from .._adapters.arguments import WrongOption
from . import _options
from ._kernel import LimpetKernel

UNREAD = 256  # messages that a listener may leave unread; text comes in pieces of 64 KiB
PATIENCE = 30.0  # seconds with one that reads nothing
PAUSE = 0.01  # between two looks whether it has read


class SharedSocket:
    """A socket that several threads send on. ipykernel has a thread for that, which each message must wake.

    Whoever sends waits for listeners that have much unread: one that is slow misses nothing, and little is held for
    it. One that reads nothing for long misses what comes until it has read half of that, and nobody waits for it.
    """

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        socket.sndhwm = UNREAD
        socket.setsockopt(zmq.XPUB_NODROP, True)
        self._lock = threading.Lock()
        self._holds = False
        self._held: list[tuple[Any, dict[str, Any]]] = []

    def hold(self) -> None:
        """The next message goes out together with the one behind it: whoever listens wakes once for both."""
        self._holds = True

    def send_multipart(self, message: Any, **how: Any) -> None:
        """Nothing once it is closed: the control thread may have one more status to tell."""
        with self._lock:
            self._held.append((message, how))
            if self._holds:
                self._holds = False
                return
            held, self._held = self._held, []
        for each, its in held:
            self._send(each, its)

    def _send(self, message: Any, how: dict[str, Any]) -> None:
        end = time.monotonic() + PATIENCE
        while not self._reaches_all(message, how):
            if threading.current_thread().name == CONTROL_THREAD_NAME:
                return  # nobody needs its statuses, and interrupts are not to wait
            if time.monotonic() > end:
                self._send_to_others(message, how)
                return
            time.sleep(PAUSE)

    def _reaches_all(self, message: Any, how: dict[str, Any]) -> bool:
        """Whether it is sent. A listener that has missed something does not count until it has read."""
        with self._lock:
            try:
                if not self._socket.closed:
                    self._socket.send_multipart(message, zmq.DONTWAIT, **how)
            except zmq.Again:
                return False
            return True

    def _send_to_others(self, message: Any, how: dict[str, Any]) -> None:
        with self._lock:
            if not self._socket.closed:
                self._socket.setsockopt(zmq.XPUB_NODROP, False)
                self._socket.send_multipart(message, **how)
                self._socket.setsockopt(zmq.XPUB_NODROP, True)

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
