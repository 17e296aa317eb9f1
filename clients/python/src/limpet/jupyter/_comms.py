"""Comms between widgets in the sandbox and their pictures in the browser.

What the sandbox sends comes as calls of a function of the host, piece by piece, so that it waits for us and not we for
it. What the browser sends is given to the sandbox by calls of their own, which are no cells.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from .. import Asks, Display, ErrorInfo, Result
from . import _widgets
from ._pace import Pace
from ._sandbox import Sandbox
from ._widgets import Model, State, Unsafe, buffer_paths

Send = Callable[..., None]
Explain = Callable[[ErrorInfo], State]

MOST = 2000  # models of a notebook at a time
LARGEST = 32 << 20  # bytes of a message
WITHIN_CALL = 2 << 20  # bytes of a message of the browser; more go by way of a file
COMMS = "__import__('limpet_runtime.comms').comms"
CARRIER = "jupyter_comm"
TARGET, CONTROL = "jupyter.widget", "jupyter.widget.control"
ID = re.compile(r"[\w-]{1,64}\Z")
VERSION = {"version": "2.1.0"}
KINDS = ("comm_open", "comm_msg", "comm_close")
STALE = "This widget is stale: the variables are as they were before it was made, or are lost. Run its cell again."
DISCONNECTED = {"_dom_classes": ["jupyter-widgets-disconnected"], "disabled": True, "tooltip": STALE}


class Comms:
    """``send`` takes the type of a message, its content, metadata and buffers, and sends it to the browser.

    ``explain`` makes the content of a message of an error.
    """

    def __init__(self, sandbox: Sandbox, send: Send, explain: Explain, pace: Pace, trusted: bool) -> None:
        self._sandbox, self._send, self._explain = sandbox, send, explain
        self._pace, self._trusted = pace, trusted
        self._models: dict[str, Model] = {}
        self._controls: set[str] = set()
        self._shown: dict[str, str] = {}  # display_id: model
        self._pieces = bytearray()
        self.message_id = ""
        """Of the request that is being served: where its output goes."""

    def asks(self, on_input: Callable[..., Any] | None) -> Asks:
        """What answers a call that may send messages."""
        return Asks(on_input=on_input, tools={CARRIER: self.carry})

    # From the sandbox

    def carry(self, at: int, piece: bytes, sizes: list[int] | None) -> None:
        """Carries messages of widgets to the browser; called by what serves notebooks in the sandbox."""
        if at < 0:
            return  # it only waits until what it sent before has come
        if at == 0:
            self._pieces.clear()
        if at != len(self._pieces) or at + len(piece) > LARGEST:
            raise Unsafe(f"a message of a widget has at most {LARGEST} bytes")
        self._pieces += piece
        if sizes is None:
            return
        data, self._pieces = bytes(self._pieces), bytearray()
        head, *buffers = _parts(data, sizes)
        try:
            message = json.loads(head)
        except (ValueError, RecursionError) as error:
            raise Unsafe(f"a message of a widget is malformed: {error}") from error
        self._pass_on(message, buffers)

    def _pass_on(self, message: Any, buffers: list[bytes]) -> None:
        message = message if isinstance(message, dict) else {}
        kind, comm_id, data = message.get("type"), message.get("id"), message.get("data")
        if not isinstance(data, dict):
            raise Unsafe("a message of a widget is malformed")
        if kind == "error":
            said = [str(data.get(name)) for name in ("name", "message", "traceback")]
            self._tell(kind, self._explain(ErrorInfo(*said)), {}, [])
            return
        if kind not in KINDS or not isinstance(comm_id, str) or not ID.match(comm_id):
            raise Unsafe("a message of a widget is malformed")
        if kind == "comm_open":
            self._open(comm_id, message.get("target"), data, buffers)
        elif kind == "comm_close":
            self._forget(comm_id)
            self._tell(kind, {"comm_id": comm_id, "data": {}}, {}, [])
        elif comm_id in self._controls:
            self._restore(comm_id, data, buffers)
        elif comm_id in self._models:
            self._update(comm_id, data, buffers)

    def _open(self, comm_id: str, target: Any, data: State, buffers: list[bytes]) -> None:
        if target != TARGET:
            raise Unsafe(f"comms to {target!a} are not passed on, but those of widgets alone")
        if len(self._models) >= MOST and comm_id not in self._models:
            raise Unsafe(f"a notebook has at most {MOST} widgets and parts of widgets: close some")
        state = _state(data)
        model = Model(state, self._trusted)
        paths = self._paths(model, data)
        state = self._here(model, model.opened(state, self._models))
        self._models[comm_id] = model
        content = {"comm_id": comm_id, "target_name": TARGET, "data": {"state": state, "buffer_paths": paths}}
        self._tell("comm_open", content, VERSION, buffers)

    def _update(self, comm_id: str, data: State, buffers: list[bytes]) -> None:
        model, method = self._models[comm_id], data.get("method")
        if method in ("update", "echo_update"):
            state = self._here(model, model.changed(_state(data), self._models))
            data = {"method": method, "state": state, "buffer_paths": self._paths(model, data)}
        elif method != "custom" or not (self._trusted or _is_focus(data)):
            return
        if data.get("state") != {}:
            self._tell("comm_msg", {"comm_id": comm_id, "data": data}, VERSION, buffers)

    def _restore(self, comm_id: str, data: State, buffers: list[bytes]) -> None:
        """The answer to a page that was loaded again: all there is."""
        rows = data.get("states")
        states, paths, kept = {}, [], []
        for model_id, row in rows.items() if isinstance(rows, dict) else ():
            model = self._models.get(model_id)
            if model is not None and isinstance(row, dict):
                state = model.opened(_state(row), self._models)
                names = {
                    f"model_{name}": state[f"_model_{name}"] for name in ("name", "module", "module_version")
                }
                states[model_id] = {**names, "state": self._here(model, state)}
        for (model_id, *path), buffer in zip(data.get("buffer_paths") or (), buffers, strict=False):
            if (
                model_id in states
                and path[:1] == ["state"]
                and buffer_paths(self._models[model_id], [path[1:]])
            ):
                paths.append([model_id, *path])
                kept.append(buffer)
        answer = {"method": "update_states", "states": states, "buffer_paths": paths}
        self._tell("comm_msg", {"comm_id": comm_id, "data": answer}, {}, kept)

    def _here(self, model: Model, state: State) -> State:
        """What is printed while an Output widget is active has the request that is served now as its parent."""
        if model.name == "OutputModel" and "msg_id" in state:
            state["msg_id"] = self.message_id if state["msg_id"] else ""
        return state

    def _tell(self, kind: str, content: State, metadata: State, buffers: list[bytes]) -> None:
        """No faster than a server of Jupyter passes it on."""
        self._pace.message(len(repr(content)) + sum(map(len, buffers)))
        self._send(kind, content, metadata, buffers)

    def _paths(self, model: Model, data: State) -> Any:
        paths = data.get("buffer_paths") or []
        return paths if self._trusted else buffer_paths(model, paths)

    def _forget(self, comm_id: str) -> None:
        self._models.pop(comm_id, None)
        self._controls.discard(comm_id)
        for display_id in [each for each, model in self._shown.items() if model == comm_id]:
            del self._shown[display_id]

    # Their pictures

    def view(self, display: Display) -> State | None:
        """What a display says of a widget that is there."""
        return _widgets.view(display, self._models)

    def is_shown(self, display_id: str, view: State) -> None:
        self._shown[display_id] = view["model_id"]

    # From the browser

    def request(self, kind: str, message: State, buffers: list[bytes]) -> str | None:
        """The code that gives a message of the browser to the sandbox; None for what is nothing to it."""
        content = message["content"]
        comm_id, target = content.get("comm_id"), content.get("target_name")
        if not isinstance(comm_id, str) or not ID.match(comm_id):
            return None
        if kind == "comm_open":
            if target != CONTROL or not self._models:
                self._send("comm_close", {"comm_id": comm_id, "data": {}}, {}, [])
                return None
            self._controls.add(comm_id)
        elif comm_id not in self._models and comm_id not in self._controls:
            return None
        if kind == "comm_close":
            self._forget(comm_id)
        said = {"data": content.get("data"), "target_name": target, "metadata": message.get("metadata")}
        return f"{COMMS}.receive({kind!r}, {comm_id!r}, {json.dumps(said)!r}, {self._given(buffers)})"

    def _given(self, buffers: list[bytes]) -> str:
        data = b"".join(buffers)
        if len(data) <= WITHIN_CALL:
            return repr([base64.b64encode(buffer).decode() for buffer in buffers])
        return f"{list(map(len, buffers))}, {self._sandbox.put(data)!r}"

    # After the variables went elsewhere

    def question(self) -> str | None:
        """The code that shows which are still there, and has them send their state."""
        return f"{COMMS}.tell({list(self._models)})" if self._models else None

    def answered(self, result: Result) -> None:
        here = _ids(result)
        for comm_id in [each for each in self._models if each not in here]:
            self._say_stale(comm_id)
            self._forget(comm_id)

    def _say_stale(self, comm_id: str) -> None:
        """Where it stands alone its picture is replaced; within another one it is out of order, and says why."""
        model = self._models[comm_id]
        if model.has_view and not model.name.endswith("StyleModel"):
            data = {"method": "update", "state": DISCONNECTED, "buffer_paths": []}
            self._send("comm_msg", {"comm_id": comm_id, "data": data}, VERSION, [])
        for display_id in [each for each, shown in self._shown.items() if shown == comm_id]:
            content = {"data": {"text/plain": STALE}, "metadata": {}, "transient": {"display_id": display_id}}
            self._send("update_display_data", content, {}, [])


def _parts(data: bytes, sizes: Any) -> Iterator[bytes]:
    if not isinstance(sizes, list) or not sizes or not all(type(size) is int and size >= 0 for size in sizes):
        raise Unsafe("a message of a widget is malformed")
    at = 0
    for size in sizes:
        yield data[at : at + size]
        at += size


def _state(data: State) -> State:
    state = data.get("state")
    return state if isinstance(state, dict) else {}


def _is_focus(data: State) -> bool:
    return data.get("content") in ({"do": "focus"}, {"do": "blur"})


def _ids(result: Result) -> set[str]:
    """It may say anything: of what is no widget of ours nothing follows."""
    try:
        return set(json.loads(result.displays[0].data["text/plain"]))
    except (LookupError, TypeError, ValueError, RecursionError):
        return set()
