"""Comms of a notebook: what joins widgets to their pictures in the browser.

What a cell sends goes to the notebook's kernel by a function of the host. What the browser sends comes as a call of its
own, which runs receive().
"""

import json
import sys
import threading
from collections import deque

import _limpet
from limpet_runtime import asks, errors

CARRIER = "jupyter_comm"
PIECE = 768 << 10  # bytes that go at once
WAITING = 1000  # messages kept while nobody takes them

waiting = deque(maxlen=WAITING)
sending = threading.Lock()


class Kernel:
    """What ipywidgets asks of a kernel: where output goes now, and what it is told of an error in a callback."""

    iopub_socket = None

    @staticmethod
    def get_parent(channel=None):
        return {"header": {"msg_id": "now"}}  # the kernel puts the right one in its place

    @staticmethod
    def send_response(stream, kind, content, **how):
        if kind == "error":
            show_error()


class Shell:
    """What the callbacks of widgets ask of IPython's shell."""

    @staticmethod
    def showtraceback():
        show_error()


def show_error():
    """Shows the exception that is being handled."""
    name, message, text = errors.describe(sys.exc_info()[1])
    publish("error", "", {"name": name, "message": message, "traceback": text})


def publish(kind, comm_id, data=None, metadata=None, buffers=None, target=None):
    """Sends a message, behind those that wait. Who comes while another one sends leaves it to that one."""
    head = {"type": kind, "id": comm_id, "data": data or {}, "metadata": metadata or {}, "target": target}
    buffers = [memoryview(buffer).cast("B") for buffer in buffers or ()]
    waiting.append([json.dumps(head, default=str).encode("utf-8", "backslashreplace"), *buffers])
    flush()


def flush():
    while waiting and is_answered() and sending.acquire(blocking=False):
        message = waiting.popleft()
        try:
            carry(message)
        except AttributeError:  # who answers is no notebook
            waiting.appendleft(message)
            return
        finally:
            sending.release()


def is_answered():
    try:
        return _limpet.is_answered()
    except RuntimeError:  # the call of this thread has ended
        return False


def wait():
    """Until all that this call has printed and shown so far is on its way to the notebook."""
    if is_answered():
        try:
            asks.ask("tool", CARRIER, ([-1, b"", None], {}))
        except AttributeError:
            pass


def carry(parts):
    data = b"".join(parts)
    sizes = [len(part) for part in parts]
    for at in range(0, len(data), PIECE):
        is_last = at + PIECE >= len(data)
        asks.ask("tool", CARRIER, ([at, data[at : at + PIECE], sizes if is_last else None], {}))


def make_classes(base):
    """Comm and CommManager; ``base`` is the module comm.base_comm."""

    class Comm(base.BaseComm):
        kernel = Kernel

        def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **more):
            publish(msg_type, self.comm_id, data, metadata, buffers, more.get("target_name"))

    return Comm, base.CommManager()


def adapt_comm(module):
    """The package comm, whose own comms lead nowhere."""
    from comm import base_comm

    comm, manager = make_classes(base_comm)
    module.create_comm = comm
    module.get_comm_manager = lambda: manager


def adapt_ipywidgets(module):
    module.register_comm_target()
    for name in ("ipywidgets.widgets.widget", "ipywidgets.widgets.interaction"):
        sys.modules[name].get_ipython = Shell
    sys.modules["ipywidgets.widgets.widget_output"].get_ipython = lambda: None  # it asks the kernel


def receive(kind, comm_id, text, buffers=(), path=None):
    """A message of the browser: its data as JSON, and its buffers, which may be in a file that is removed."""
    import comm

    said = json.loads(text)
    metadata = said.pop("metadata") or {}
    message = {"content": {"comm_id": comm_id, **said}, "buffers": take(buffers, path), "metadata": metadata}
    flush()
    manager = comm.get_comm_manager()
    if kind == "comm_msg" and comm_id in manager.comms:
        manager.comms[comm_id].handle_msg(message)
    elif kind != "comm_msg":
        getattr(manager, kind)(None, None, message)


def take(buffers, path):
    import base64
    import os

    if path is None:
        return [base64.b64decode(buffer) for buffer in buffers]
    path = os.path.expanduser(path)
    with open(path, "rb") as file:
        data = memoryview(file.read())
    os.unlink(path)
    ends = [0]
    for size in buffers:
        ends.append(ends[-1] + size)
    return [data[start:end] for start, end in zip(ends, ends[1:])]


def tell(ids):
    """Shows which of these comms are here, as JSON; those of widgets send their state."""
    from limpet_runtime import display

    comms = sys.modules["comm"].get_comm_manager().comms if "comm" in sys.modules else {}
    here = [comm_id for comm_id in ids if comm_id in comms]
    widgets = getattr(sys.modules.get("ipywidgets.widgets.widget"), "_instances", {})
    for comm_id in here:
        if comm_id in widgets:
            widgets[comm_id].send_state()
    display.send({"text/plain": json.dumps(here)}, {})
