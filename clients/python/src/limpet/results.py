"""The record of a call, as an object. Field names are those of the protocol and of ``limpet run --json``."""

from __future__ import annotations

import base64
import dataclasses
import mimetypes
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from . import _rich
from .errors import CallFailed, CallTimeout
from .state import CHANGED, Changed, made, shape

Status = Literal["ok", "error", "timeout", "interrupted", "exited", "crashed", "oom", "failed"]
State = Literal["kept", "rolled_back", "lost"]
SessionStatus = Literal["starting", "idle", "running", "saved", "closing"]


class Protection(TypedDict, total=False):
    """The protection of a call: what happens if the interpreter is lost. Empty if the call never ran."""

    level: Literal["checkpoint", "none"]
    execution_count: int | None
    """With ``checkpoint``: the last call whose effects a rollback would keep."""
    reason: str | None
    """Why there is no checkpoint, or why none of a newer state could be taken."""


@dataclass(frozen=True)
class ErrorInfo:
    """Why a call failed: a Python exception, or ``TimeoutKilled``, ``Exited``, ``Crashed`` …"""

    name: str
    message: str
    traceback: str


@dataclass(frozen=True)
class Display:
    """A rich value in one or more forms, like Jupyter's ``display_data``."""

    data: dict[str, Any] = field(hash=False)
    """MIME type to value: text, bytes for binary types, plain data for JSON types."""
    metadata: dict[str, Any] = field(hash=False)
    display_id: str | None
    is_result: bool
    """Whether this is the value of the last expression."""
    update: bool = False
    """In ``on_display``: replaces the display with the same ``display_id``. Without ``display_id`` and data, it clears
    all output; if ``metadata`` has ``wait``, when new output arrives."""

    @property
    def image(self) -> Image | None:
        """The figure in its best form, PNG before SVG; None if it is something else."""
        for kind in (*_RASTER, _SVG):
            data = self.data.get(kind)
            if isinstance(data, (str, bytes)):
                return Image(kind, data.encode() if isinstance(data, str) else data)
        return None

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, like :meth:`Result.to_dict`."""
        names = ("data", "metadata", "display_id", "is_result")
        return {name: _plain(getattr(self, name)) for name in names}

    def _repr_mimebundle_(self, **ignored: Any) -> dict[str, Any]:
        return _rich.bundle(self.data)

    def __repr__(self) -> str:
        return f"<Display {', '.join(self.data)}>"


@dataclass(frozen=True)
class Image:
    """A figure."""

    mime_type: str
    data: bytes = field(hash=False, repr=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the figure to a file of this machine.

        Raises:
            ValueError: The suffix of the path is that of another kind of picture.
        """
        kind = mimetypes.guess_type(os.fspath(path))[0]
        if kind is not None and kind != self.mime_type:
            suffix = mimetypes.guess_extension(self.mime_type)
            raise ValueError(f"the figure is {self.mime_type}: name the file {suffix}, not {os.fspath(path)}")
        with open(path, "wb") as file:
            file.write(self.data)

    def _repr_mimebundle_(self, **ignored: Any) -> dict[str, Any]:
        return {self.mime_type: self.data if self.mime_type in _RASTER else self.data.decode()}


@dataclass(frozen=True)
class ArtifactInfo:
    """A published artifact at the end of its call."""

    size: int
    mime_type: str
    sha256: str


@dataclass(frozen=True)
class Usage:
    """Resources that a call used."""

    cpu: float
    """Seconds of CPU time."""
    peak_memory: int
    """Bytes."""


@dataclass(frozen=True)
class RolledBackTo:
    """The state that was restored: the checkpoint, and the last call whose effects it has."""

    checkpoint: str | None
    execution_count: int


@dataclass(frozen=True)
class Between:
    """What threads and children of earlier calls wrote after the call before and before this one."""

    stdout: str
    """The first 64 KiB."""
    stderr: str
    dropped: int
    """Number of bytes beyond that."""


@dataclass(frozen=True)
class ControllerInfo:
    """What a controller says of itself."""

    version: str
    socket: str
    """Path where it listens, on its machine."""
    engine: str
    """``oci``, ``docker`` or ``local``."""
    pid: int
    spares: int
    """Containers that wait for a session."""
    misfits: int = 0
    """Spare containers that could not begin with the memory of the first of their kind."""
    features: tuple[str, ...] = ()
    """Parts of the protocol that it knows."""

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> ControllerInfo:
        """From the body of a reply."""
        return made(_CONTROLLER_INFO, "a description of the controller", body)


@dataclass(frozen=True)
class Holder:
    """A name that holds much of the memory."""

    name: str
    type: str
    bytes: int
    """Of all that can be reached from it, about."""


@dataclass(frozen=True)
class SessionInfo:
    """A row of ``client.sessions()`` and of ``limpet ls --json``."""

    session: str
    engine: str
    container: str | None
    status: SessionStatus
    created: float
    """Unix time."""
    idle: float
    """Seconds since the last call ended."""
    execution_count: int
    epoch: int
    memory: int
    """Bytes in use; 0 of a session that is saved."""
    user: int | None = None
    """The uid of whose it is."""
    language: str | None = None
    """Language of a context; None for Python."""
    saved: bool = False
    """Whether it is on disk, without a container, until it is used."""

    @classmethod
    def from_wire(cls, row: Mapping[str, Any]) -> SessionInfo:
        """From a row of the reply."""
        said = {**row, "status": "saved"} if row.get("saved") else row
        return made(_SESSION_INFO, "a row of sessions", said)


@dataclass(frozen=True, repr=False)
class Result:
    """The record of one call: its output and values, how it ended, and what happened to the variables."""

    run_id: str
    session: str | None
    """None for a call without a session."""
    engine: str
    execution_count: int | None
    """Number of the call in its session; never decreases. None for a command."""
    status: Status
    state: State
    rolled_back_to: RolledBackTo | None
    """With ``rolled_back``: the last call whose effects are in memory."""
    not_restored: list[str] = field(hash=False)
    """With ``rolled_back``: what a copy of memory does not restore, such as child processes."""
    state_protection: Protection = field(hash=False)
    """The protection of the call. Empty if it never ran."""
    changed: Changed
    """The names that the call added, changed and deleted; false if there are none."""
    epoch: int
    """Starts at 1 and increases by one each time the variables were not kept."""
    stdout: str
    stderr: str
    stdout_bytes: int
    """Number of bytes that the code wrote."""
    stderr_bytes: int
    truncated: bool
    """Whether ``stdout`` or ``stderr`` is incomplete."""
    stdout_file: str | None
    """Path in the container of the full text of an incomplete stream."""
    stderr_file: str | None
    result: str | None
    """``repr()`` of the value of the last expression."""
    displays: list[Display] = field(hash=False)
    error: ErrorInfo | None
    """None if and only if ``status`` is ``ok``."""
    signal: int | None
    """The signal that ended the interpreter or the command."""
    exit_code: int | None
    artifacts: dict[str, str] = field(hash=False)
    """Maps the path in the container to the path on the host, for files that the call created or changed."""
    artifact_info: dict[str, ArtifactInfo] = field(hash=False)
    skipped: dict[str, str] = field(hash=False)
    """Maps the path in the container to the reason why the file was not published."""
    duration: float
    """Seconds."""
    usage: Usage
    kind: str = "python"
    """``python``, or ``command`` for what :meth:`Session.exec` ran."""
    restored: list[str] | None = field(default=None, hash=False)
    """Of the first call after ``open(restore=)``: what is not as it was saved. Otherwise None."""
    between: Between | None = None
    """Output between the last call and this one, such as that of threads. None if there was none."""
    memory: list[Holder] | None = field(default=None, hash=False)
    """After a ``MemoryError``, or with 90 % of the memory taken: the names that hold most of it.

    After ``oom``: those that held most before the call, where the variables were rolled back. Otherwise None.
    """

    @property
    def ok(self) -> bool:
        """Whether ``status`` is ``ok``."""
        return self.status == "ok"

    def check(self) -> Result:
        """Returns the result if ``status`` is ``ok``, and raises otherwise.

        Raises:
            CallFailed: The code failed.
            CallTimeout: The code reached its time limit.
        """
        if self.error is None:
            return self
        failed = CallTimeout if self.status == "timeout" else CallFailed
        summary = f"{self.error.name}: {self.error.message}".rstrip(": ")
        told = self.error.traceback.rstrip() or summary, self._late, self.warning
        raise failed("\n".join(filter(None, told)), self)

    @property
    def _late(self) -> str | None:
        """One line for people where the time was too short."""
        if self.status != "timeout":
            return None
        return f"stopped after {self.duration:.1f} s, its time limit; timeout= gives a call more"

    def show(self) -> None:
        """Prints the output, the value and the error. Figures become temporary files, whose paths are printed."""
        _rich.show(self)

    def _repr_mimebundle_(self, **ignored: Any) -> dict[str, Any]:
        return _rich.result_bundle(self)

    @property
    def images(self) -> list[Image]:
        """The figures in the order in which they were shown, each in its best form: PNG before SVG."""
        return [display.image for display in self.displays if display.image is not None]

    @property
    def html(self) -> str | None:
        """The HTML of the last value, such as the table of a data frame, or of the last display; otherwise None."""
        shown = sorted(self.displays, key=lambda display: display.is_result)
        texts = [display.data["text/html"] for display in shown if "text/html" in display.data]
        return str(texts[-1]) if texts else None

    @property
    def warning(self) -> str | None:
        """One line for people if the variables are not as this call left them; otherwise None."""
        if self.state == "kept" or self.session is None:
            return None
        if self.rolled_back_to is None:
            return f"the variables of {self.session} are lost, its files are not"
        count = self.rolled_back_to.execution_count
        when = f"call {count} left them" if count else "they were before the first call"
        missing = f"; not restored: {', '.join(self.not_restored)}" if self.not_restored else ""
        return f"the variables of {self.session} are as {when}{missing}"

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Result:
        """From the protocol's record; ProtocolMismatch when it is none."""
        return made(_RESULT, "the record of a call", record)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, the same as ``limpet run --json`` prints. Binary values are base64 text."""
        plain = {name: _plain(getattr(self, name)) for name in _ORDER}
        for name in ("restored", "between", "memory"):
            if getattr(self, name) is None:
                del plain[name]
        plain["displays"] = [display.to_dict() for display in self.displays]
        for name in ("changed", "state_protection"):
            plain[name] = plain[name] if getattr(self, name) else None
        return plain

    def __repr__(self) -> str:
        parts: list[str] = [self.status]
        if self.rolled_back_to is not None:
            parts.append(f"rolled_back to [{self.rolled_back_to.execution_count}]")
        elif self.state != "kept":
            parts.append(self.state)
        if self.error is not None:
            parts.append(f"{self.error.name}: {_short(self.error.message)}")
        for name in ("result", "stdout", "stderr"):
            if getattr(self, name):
                parts.append(f"{name}={_short(getattr(self, name))!r}")
        for name in ("displays", "artifacts", "skipped", "not_restored"):
            if getattr(self, name):
                parts.append(f"{len(getattr(self, name))} {name.replace('_', ' ')}")
        where = (
            "in a container of its own"
            if self.session is None
            else f"{self.session} [{self.execution_count or self.kind}]"
        )
        return f"<Result {where}: {', '.join(parts)}>"


_ORDER = tuple(each.name for each in dataclasses.fields(Result))


def display_from_wire(body: Mapping[str, Any]) -> Display:
    """From an entry of ``displays`` or the body of a display event; ProtocolMismatch when it is neither."""
    return made(_DISPLAY, "a display", body)


_RASTER = ("image/png", "image/jpeg", "image/webp", "image/gif")
_SVG = "image/svg+xml"


def _path(path: str | bytes) -> str:
    return path if isinstance(path, str) else path.decode("utf-8", "surrogateescape")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    return value


def _protection(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"execution_count": None, "reason": None, **value} if value else {}


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


_CONTROLLER_INFO = shape(ControllerInfo, {"spares": 0, "misfits": 0, "features": ()})
_SESSION_INFO = shape(SessionInfo, {"container": None, "user": None, "language": None, "saved": False})
_DISPLAY = shape(
    Display, {"metadata": {}, "display_id": None, "is_result": False, "update": False},
    data=dict, metadata=dict, is_result=bool, update=bool,
)  # fmt: skip
_RESULT = shape(
    Result,
    {
        "changed": {}, "state_protection": {}, "kind": "python",
        **dict.fromkeys(
            (
                "session", "execution_count", "rolled_back_to", "stdout_file", "stderr_file", "result", "error",
                "signal", "exit_code", "restored", "between", "memory",
            )
        ),
    },
    error=shape(ErrorInfo, {"message": "", "traceback": ""}),
    usage=shape(Usage),
    rolled_back_to=shape(RolledBackTo, {"checkpoint": None}),
    not_restored=list,
    restored=list,
    between=shape(Between),
    memory=[shape(Holder)],
    state_protection=_protection,
    changed=CHANGED,
    displays=[_DISPLAY],
    artifacts=(_path, _path),
    artifact_info=(_path, shape(ArtifactInfo)),
    skipped=(_path, str),
)  # fmt: skip
