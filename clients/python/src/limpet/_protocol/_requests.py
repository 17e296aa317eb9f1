"""Every request there is: its body and how its reply is read. Both clients send what is made here."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from .._calls._asks import ToolTime
from .._calls._stream import Stream
from .._connection._recovery import ONCE
from .._version import VERSION
from ..errors import BadRequest, ProtocolMismatch, from_wire
from ..packages import Installed
from ..results import Between, ControllerInfo, Result, SessionInfo
from ..state import Checkpoint, Committed, Namespace, Rollback
from . import _wire

HELLO = {"protocol": _wire.VERSION, "peer": f"limpet-python/{VERSION}"}

OnError = Literal["keep", "rollback"]
Body = dict[str, Any]
Message = tuple[int, Body]  # kind and body
Opening = Mapping[str, Any]  # what is said of a session that has been opened
T = TypeVar("T")


class Request(Generic[T]):
    """A message to the controller, and what makes its reply the value of a call."""

    __slots__ = ("kind", "body", "read", "once")

    def __init__(self, kind: int, body: Body, read: Callable[[Body], T], once: str | None = None) -> None:
        """``once``: it may not be asked twice, and is called so."""
        self.kind, self.body, self.read, self.once = kind, body, read, once or ONCE.get(kind)

    def of(self, target: Mapping[str, str]) -> Request[T]:
        """The same about a session: its name and, where it is known, its instance."""
        return Request(self.kind, {**target, **self.body}, self.read, self.once)


def given(**values: Any) -> Body:
    """Those that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def open_session(name: str, chosen: Body) -> Request[Opening]:
    return Request(_wire.OPEN, {"session": name, **chosen}, _body)


def restore_session(name: str, chosen: Body) -> Request[Opening]:
    """One that is to be given what was saved, over the same connection: it ends with that until ``load`` succeeds."""
    return Request(_wire.OPEN, {"session": name, "restoring": True, **chosen}, _body)


def attach(name: str) -> Request[Opening]:
    return Request(_wire.OPEN, {"session": name, "attach": True}, _body)


def new_name() -> str:
    return f"session-{os.urandom(6).hex()}"


def new_run_id() -> str:
    return os.urandom(16).hex()


def run(
    target: Mapping[str, str],
    code: str,
    timeout: float | None,
    run_id: str,
    stream: Stream | None,
    on_error: OnError = "keep",
    asks: ToolTime | None = None,
) -> Request[Result]:
    body: Body = {**target, "code": code, "run_id": run_id}
    if timeout is not None:
        body["timeout"] = timeout
    if stream is not None and stream.wanted:
        body["stream"] = True
    if on_error != "keep":
        body["on_error"] = on_error
    if asks is not None:
        body["asks"] = asks
    return Request(_wire.RUN, body, Result.from_record)


def exec_(
    target: Mapping[str, str], program: Body, timeout: float | None, run_id: str, stream: Stream | None
) -> Request[Result]:
    body: Body = {**target, **program, "run_id": run_id}
    if timeout is not None:
        body["timeout"] = timeout
    if stream is not None and stream.wanted:
        body["stream"] = True
    return Request(_wire.EXEC, body, Result.from_record)


def install(packages: str, timeout: float, stream: bool) -> Request[Installed]:
    body: Body = {"packages": packages, "timeout": timeout}
    if stream:
        body["stream"] = True
    return Request(_wire.INSTALL, body, Installed.from_wire)


def sessions(all_users: bool = False) -> Request[list[SessionInfo]]:
    body = {"all": True} if all_users else {}
    return Request(
        _wire.SESSIONS, body, lambda body: [SessionInfo.from_wire(row) for row in field(body, "sessions")]
    )


def info() -> Request[ControllerInfo]:
    return Request(_wire.SESSIONS, {}, lambda body: ControllerInfo.from_wire(field(body, "controller")))


def result(run_id: str, timeout: float | None = None) -> Request[Result | None]:
    return Request(_wire.RESULT, given(run_id=run_id, timeout=timeout), _stored_record)


def shutdown() -> Request[None]:
    return Request(_wire.SHUTDOWN, {}, _nothing)


def interrupt(run_id: str | None = None) -> Request[bool]:
    return Request(_wire.INTERRUPT, given(run_id=run_id), lambda body: bool(field(body, "interrupted")))


def reset() -> Request[None]:
    return Request(_wire.RESET, {}, _nothing)


def close() -> Request[Between | None]:
    return Request(_wire.CLOSE, {}, _last_words)


def put(path: str | bytes, offset: int, data: bytes, last: bool) -> Request[None]:
    return Request(_wire.PUT, {"path": path, "offset": offset, "data": data, "last": last}, _nothing)


def put_through(path: str | bytes) -> Request[None]:
    """Asks for a descriptor to write a new file through; put() at its end then finishes it."""
    body = {"path": path, "offset": 0, "data": b"", "descriptor": True}
    return Request(_wire.PUT, body, _nothing)


def get_through(path: str | bytes) -> Request[None]:
    """Asks for a descriptor to read a file through."""
    return Request(_wire.GET, {"path": path, "descriptor": True}, _nothing)


def get(path: str | bytes, offset: int, end: int | None = None) -> Request[tuple[bytes, int]]:
    """A piece of the file, and the size of all of it."""
    size = _wire.FILE_CHUNK if end is None else min(max(end - offset, 0), _wire.FILE_CHUNK)
    body = {"path": path, "offset": offset, "size": size}
    return Request(_wire.GET, body, lambda body: (field(body, "data"), field(body, "size")))


def artifact(run_id: str, path: str, offset: int) -> Request[tuple[bytes, int]]:
    """A piece of a published file, and the size of all of it."""
    body = {"run_id": run_id, "path": os.fsencode(path), "offset": offset, "size": _wire.FILE_CHUNK}
    return Request(_wire.ARTIFACT, body, lambda body: (field(body, "data"), field(body, "size")))


def checkpoint(name: str | None, files: bool) -> Request[Checkpoint]:
    return Request(_wire.CHECKPOINT, given(name=name, files=files or None), _new_checkpoint)


def checkpoints() -> Request[list[Checkpoint]]:
    return Request(
        _wire.CHECKPOINTS, {}, lambda body: [Checkpoint.from_wire(row) for row in field(body, "checkpoints")]
    )


def rollback(which: Checkpoint | str) -> Request[Rollback]:
    return Request(_wire.ROLLBACK, {"checkpoint": _checkpoint_id(which)}, Rollback.from_wire)


def drop(which: Checkpoint | str) -> Request[None]:
    return Request(_wire.DROP, {"checkpoint": _checkpoint_id(which)}, _nothing)


def branch(name: str, at: Checkpoint | str | None) -> Request[Opening]:
    return Request(
        _wire.BRANCH, given(name=name, checkpoint=None if at is None else _checkpoint_id(at)), _body
    )


def context(name: str | None, language: str | None, cwd: str | None) -> Request[Opening]:
    return Request(_wire.CONTEXT, given(name=name, language=language, cwd=cwd), _body)


def fork_names(name: str | int | list[str] | None) -> tuple[Sequence[str], str | None]:
    """Names of new sessions, and what is to become of those whose names nobody gave."""
    if isinstance(name, str):
        return [name], None
    if isinstance(name, int) and name < 1:
        raise BadRequest(f"fork() makes one session or more, not {name}")
    if name is None or isinstance(name, int):
        return [new_name() for _ in range(1 if name is None else name)], "close"
    return name, None


def fork(
    names: Sequence[str], ttl_action: str | None, data: Sequence[str] | None = None
) -> Request[list[Opening]]:
    body = given(names=list(names), ttl_action=ttl_action, data=data)
    return Request(_wire.FORK, body, lambda body: field(body, "sessions"))


def sleep() -> Request[None]:
    return Request(_wire.SLEEP, {}, _nothing)


def commit(name: str) -> Request[Committed]:
    return Request(_wire.COMMIT, {"branch": name}, Committed.from_wire)


def namespace() -> Request[Namespace]:
    return Request(_wire.NAMESPACE, {}, Namespace.from_wire)


def features() -> Request[frozenset[str]]:
    return Request(_wire.HELLO, dict(HELLO), lambda body: frozenset(body.get("features") or ()))


def check_hello(body: Mapping[str, Any]) -> str | None:
    """The controller's warning, when it has one."""
    if body.get("protocol") != _wire.VERSION:
        raise ProtocolMismatch(
            f"the controller speaks version {body.get('protocol')} of the protocol, this client "
            f"{_wire.VERSION}; upgrade the older one"
        )
    return body.get("warning")


def answer(message: Message) -> Body:
    """The body of a reply; raises what an error says."""
    kind, body = message
    if kind == _wire.ERROR:
        raise from_wire(body)
    return body


def field(body: Mapping[str, Any], name: str) -> Any:
    try:
        return body[name]
    except KeyError:
        raise ProtocolMismatch(f"the controller's answer lacks '{name}'") from None


def _body(body: Body) -> Opening:
    return body


def _nothing(body: Body) -> None:
    return None


def _last_words(body: Body) -> Between | None:
    if "stdout" not in body and "stderr" not in body:
        return None
    return Between(body.get("stdout", ""), body.get("stderr", ""), 0)


def _stored_record(body: Body) -> Result | None:
    record = body.get("record")
    return None if record is None else Result.from_record(record)


def _new_checkpoint(body: Body) -> Checkpoint:
    return Checkpoint.from_wire(field(body, "checkpoint"), body.get("dropped") or ())


def _checkpoint_id(which: Checkpoint | str) -> str:
    return which.id if isinstance(which, Checkpoint) else which
