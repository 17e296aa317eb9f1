"""What a call raises when the sandbox failed.

One class for each entry of the protocol's table of errors, which is also of the built-in kind that people catch. Code
that raises, runs into its time limit or crashes is not an error of the sandbox: that is a :class:`limpet.Result` with
its ``status``, of which :meth:`limpet.Result.check` makes :class:`CallFailed`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .results import Result


class LimpetWarning(UserWarning):
    """What the controller wants a person to know once, for example that its engine does not isolate."""


def warn(message: str) -> None:
    """A LimpetWarning, said of the line that has called into this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "limpet":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, LimpetWarning, stacklevel=level)


class Error(Exception):
    """Base of everything Limpet raises.

    ``number`` and ``name`` are stable, ``message`` is a sentence for people.
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
    """The two sides speak different versions of the protocol, or the peer speaks another one altogether."""

    number = 1002


class TooLarge(Error, ValueError):
    """Something is over its size limit; the message names the limit."""

    number = 1003


class Denied(Error, PermissionError):
    """The caller is not allowed to do this on this controller."""

    number = 1004


class NoSuchSession(Error, LookupError):
    """No session of that name is open."""

    number = 1101


class SessionClosed(Error, RuntimeError):
    """The session was closed while the request was under way, or the object is closed."""

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
    """No running or stored call has that run_id."""

    number = 1105


class NoSuchCheckpoint(Error, LookupError):
    """The session keeps no checkpoint of that name."""

    number = 1106


class NoSuchFile(Error, FileNotFoundError):
    """No regular file is at that path under /session."""

    number = 1107


class CheckpointFailed(Error, RuntimeError):
    """No checkpoint could be taken; the message says what it lacked."""

    number = 1108


class BranchExists(Error, ValueError):
    """A branch of that name is open."""

    number = 1109


class ImageMissing(Error, LookupError):
    """The image is not there; the message has the command that makes it."""

    number = 1201


class EngineError(Error, RuntimeError):
    """The container engine failed; the message carries its words."""

    number = 1202


class Unavailable(Error, ConnectionError):
    """The controller cannot be reached or is shutting down."""

    number = 1203


class Internal(Error, RuntimeError):
    """The controller could not do it: out of memory, disk full, or a fault of Limpet."""

    number = 1204


class CallFailed(Error):
    """The code did not end well; raised by :meth:`limpet.Result.check` alone. Its text is the traceback, if any.

    Attributes:
        result: The :class:`limpet.Result` of the call.
    """

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.result)


class CallTimeout(CallFailed, TimeoutError):
    """The code ran into its time limit."""


class Leave(Exception):
    """Raised by the caller, not by Limpet: in a callback, in ``approve``, ``on_input`` or a tool of a call.

    ``run()`` raises it at once, and the code goes on; a question it has asked stays unanswered. A later ``run()``
    with the same ``run_id``, also of another process, joins the call and is asked again.
    """


def is_leave(error: BaseException | None) -> bool:
    """Also what LangGraph's ``interrupt()`` raises, which is known by its name: nothing of it is imported."""
    return isinstance(error, Leave) or any(
        (cls.__module__, cls.__name__) == ("langgraph.errors", "GraphBubbleUp") for cls in type(error).__mro__
    )


BY_NUMBER: dict[int, type[Error]] = {cls.number: cls for cls in Error.__subclasses__() if cls.number}


def from_wire(body: Mapping[str, Any]) -> Error:
    """The exception for the body of an ``error`` message; a number newer than this table gives an Error."""
    number, name, message = body.get("number"), body.get("name"), body.get("message") or ""
    if not (isinstance(number, int) and isinstance(name, str) and isinstance(message, str)):
        return ProtocolMismatch(f"the controller sent an error without a number and a name: {dict(body)!r}")
    cls = BY_NUMBER.get(number)
    if cls is OptionsDiffer:
        return OptionsDiffer(message, tuple(body.get("options") or ()))
    if cls is not None:
        return cls(message)
    error = Error(message)
    error.number, error.name = number, name
    return error
