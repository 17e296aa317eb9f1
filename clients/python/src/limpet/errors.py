"""Exceptions for failures of the sandbox.

There is one class for each entry of the protocol's table of errors, derived from the built-in exception that fits. Code
that raises, reaches its time limit or crashes is not a failure of the sandbox: it gives a :class:`limpet.Result` with
a ``status``, from which :meth:`limpet.Result.check` raises :class:`CallFailed`.
"""

from __future__ import annotations

import errno
import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .results import Result


class LimpetWarning(UserWarning):
    """A notice of the controller that is shown once, for example that its engine does not isolate."""


def warn(message: str) -> None:
    """A LimpetWarning, said of the line that has called into this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "limpet":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, LimpetWarning, stacklevel=level)


class Error(Exception):
    """Base class of all exceptions of Limpet.

    ``number`` and ``name`` are stable; ``message`` is a sentence for people.
    """

    number = 0
    name = "Error"

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message

    def __init_subclass__(cls) -> None:
        cls.name = cls.__name__


class BadRequest(Error, ValueError):
    """The request is malformed, names an unknown option, or has a value out of range."""

    number = 1001


class ProtocolMismatch(Error):
    """The two sides speak different versions of the protocol, or the peer speaks another protocol."""

    number = 1002


class TooLarge(Error, ValueError):
    """A size limit is exceeded; the message names the limit."""

    number = 1003


class Denied(Error, PermissionError):
    """The caller may not do this on this controller."""

    number = 1004


class NoSuchSession(Error, LookupError):
    """No open session has this name."""

    number = 1101


class SessionClosed(Error, RuntimeError):
    """The session was closed during the request, or the object is closed."""

    number = 1102


class OptionsDiffer(Error, ValueError):
    """The session exists with other options; ``options`` lists their names."""

    number = 1103

    def __init__(self, message: str = "", options: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.options = options

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.options)


class Busy(Error):
    """The queue of calls is full."""

    number = 1104


class NoSuchRun(Error, LookupError):
    """No running or stored call has this run_id."""

    number = 1105


class NoSuchCheckpoint(Error, LookupError):
    """The session has no checkpoint with this id or name."""

    number = 1106


class NoSuchFile(Error, FileNotFoundError):
    """There is no regular file at this path in /session."""

    number = 1107


class CheckpointFailed(Error, RuntimeError):
    """The checkpoint could not be taken; the message gives the reason."""

    number = 1108


class BranchExists(Error, ValueError):
    """An open branch has this name."""

    number = 1109


class LimitReached(Error, RuntimeError):
    """A limit of this user on this controller is reached; close a session first."""

    number = 1110


class FileFailed(Error, OSError):
    """Something about a file in the sandbox failed. Also the OSError of its kind, such as FileNotFoundError.

    Attributes:
        errno: What failed, as in the module ``errno``.
        filename: The path in the container, or None.
    """

    number = 1120
    filename: str | None

    def __init__(self, message: str = "", symbol: str = "EIO", path: bytes | None = None) -> None:
        super().__init__(message)
        self.errno = getattr(errno, symbol, errno.EIO)
        self.filename = None if path is None else path.decode("utf-8", "surrogateescape")
        self._given = symbol, path

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return file_failed, (self.message, *self._given)


class NotListening(Error, ConnectionRefusedError):
    """Nothing in the session takes connections on this port."""

    number = 1121


class NoSuchTemplate(Error, LookupError):
    """No template has this name."""

    number = 1140


class TemplateExists(Error, ValueError):
    """A template has this name."""

    number = 1141


class TemplateFailed(Error, RuntimeError):
    """No sandbox could be made from the template; ``traceback`` is that of its setup code, or empty."""

    number = 1142

    def __init__(self, message: str = "", traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.traceback)


class InstallFailed(Error, RuntimeError):
    """The packages could not be installed; the message gives the reason.

    Attributes:
        log: The end of what the installer wrote, or an empty text.
    """

    number = 1130

    def __init__(self, message: str = "", log: str = "") -> None:
        super().__init__(message)
        self.log = log

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.log)


class ImageMissing(Error, LookupError):
    """The image does not exist; the message names the command that builds it."""

    number = 1201


class EngineError(Error, RuntimeError):
    """The container engine failed; the message contains its error."""

    number = 1202


class Unavailable(Error, ConnectionError):
    """The controller cannot be reached or is shutting down."""

    number = 1203


class Internal(Error, RuntimeError):
    """The controller failed: out of memory, disk full, or a bug in Limpet."""

    number = 1204


class CallFailed(Error):
    """The code failed. Raised only by :meth:`limpet.Result.check`; the text is the traceback, if there is one.

    Attributes:
        result: The :class:`limpet.Result` of the call.
    """

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.result)


class CallTimeout(CallFailed, TimeoutError):
    """The code reached its time limit."""


class Leave(Exception):
    """Raise this in a callback, in ``approve``, in ``on_input`` or in a tool to stop waiting for the call.

    ``run()`` raises it at once, and the code continues or keeps waiting for its answer. A later ``run()`` with the
    same ``run_id``, also in another process, joins the call and is asked again.
    """


def is_leave(error: BaseException | None) -> bool:
    """Also what LangGraph's ``interrupt()`` raises, which is known by its name: nothing of it is imported."""
    return isinstance(error, Leave) or any(
        (cls.__module__, cls.__name__) == ("langgraph.errors", "GraphBubbleUp") for cls in type(error).__mro__
    )


# The classes that OSError itself would have, by what failed.
_OF_KIND: dict[int, type[FileFailed]] = {
    number: type("FileFailed", (FileFailed, kind), {"__module__": __name__, "__doc__": FileFailed.__doc__})
    for kind, numbers in {
        FileNotFoundError: (errno.ENOENT,),
        PermissionError: (errno.EACCES, errno.EPERM),
        IsADirectoryError: (errno.EISDIR,),
        NotADirectoryError: (errno.ENOTDIR,),
        FileExistsError: (errno.EEXIST,),
        BlockingIOError: (errno.EAGAIN,),
    }.items()
    for number in numbers
}


def file_failed(message: str, symbol: str, path: bytes | None) -> FileFailed:
    """The exception for an error of that name, such as ENOENT."""
    return _OF_KIND.get(getattr(errno, symbol, 0), FileFailed)(message, symbol, path)


def is_stale(error: FileFailed) -> bool:
    """What was begun has to begin anew."""
    return error.errno == errno.ESTALE


class SaveFailed(Error, RuntimeError):
    """The session could not be saved; the message gives the reason."""

    number = 1150


class RestoreFailed(Error, ValueError):
    """The saved session is damaged, or could not be restored; the message gives the reason."""

    number = 1151


class SessionExists(Error, ValueError):
    """A session of this name is open. Close it first, or restore under another name."""

    number = 1152


BY_NUMBER: dict[int, type[Error]] = {cls.number: cls for cls in Error.__subclasses__() if cls.number}


def from_wire(body: Mapping[str, Any]) -> Error:
    """The exception for the body of an ``error`` message; a number newer than this table gives an Error."""
    number, name, message = body.get("number"), body.get("name"), body.get("message") or ""
    if not (isinstance(number, int) and isinstance(name, str) and isinstance(message, str)):
        return ProtocolMismatch(f"the controller sent an error without a number and a name: {dict(body)!r}")
    cls = BY_NUMBER.get(number)
    if cls is OptionsDiffer:
        return OptionsDiffer(message, tuple(body.get("options") or ()))
    if cls is InstallFailed:
        return InstallFailed(message, str(body.get("log") or ""))
    if cls is FileFailed:
        return file_failed(message, str(body.get("errno") or "EIO"), body.get("path"))
    if cls is TemplateFailed:
        return TemplateFailed(message, str(body.get("traceback") or ""))
    if cls is not None:
        return cls(message)
    error = Error(message)
    error.number, error.name = number, name
    return error
