"""What limpet._native does in C, in Python: for where that could not be built."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import msgpack

from .._protocol import _wire
from ..errors import ProtocolMismatch
from . import _zmtp


class Wire:
    """One connection's bytes: messages in, messages out. It opens nothing.

    What a socket has read goes through space() and received(), and messages are taken until there is none.
    Whatever is no message of a controller raises ProtocolMismatch, after which the connection is to be closed.
    """

    def __init__(self, limit: int) -> None:
        """``limit``: bytes of the largest message that is taken."""
        self._packer = msgpack.Packer()
        self._peer = _zmtp.Peer(limit)
        self._pending = _zmtp.OPENING

    @property
    def ready(self) -> bool:
        """Whether hands are shaken, and messages may be sent."""
        return self._peer.ready

    def pending(self) -> bytes:
        """What is to be sent besides the frames of encode(), each time there is no message; mostly nothing."""
        pending, self._pending = self._pending, b""
        return pending

    def encode(self, kind: int, number: int, body: Mapping[str, Any]) -> bytes:
        """The frame of a message. Values that cannot be sent raise BadRequest, too many of them TooLarge."""
        packer = msgpack.Packer() if kind == _wire.ANSWER else self._packer  # answers come from any thread
        return _wire.encode(packer, kind, number, body)

    def ask(self, fd: int, kind: int, number: int, body: Mapping[str, Any]) -> _wire.Message | None:
        """encode(), then as receive() when a blocking socket has taken all of it at once; otherwise it is pending."""
        self._pending += self.encode(kind, number, body)
        return None

    def space(self) -> memoryview:
        """Where the next bytes go; never empty."""
        return self._peer.space()

    def received(self, size: int) -> None:
        self._peer.received(size)

    def message(self) -> _wire.Message | None:
        """The next message that has come whole, or None."""
        try:
            frame = self._peer.frame()
        except _zmtp.ZmtpError as error:
            raise ProtocolMismatch(f"the controller's socket: {error}") from error
        return None if frame is None else _wire.decode(frame)

    def receive(self, fd: int) -> _wire.Message | None:
        """The next message, read from a blocking socket where none has come; OSError at the end.

        None when more is to be read, or a signal's handler has run, which may have received for the caller.
        """
        message = self.message()
        if message is None:
            size = os.readv(fd, (self.space(),))
            if not size:
                raise ConnectionResetError("it closed the connection")
            self.received(size)
            message = self.message()
        return message


class Shape:
    """A dataclass as the protocol has it: what came for one becomes an instance, past its __init__.

    ``absent``: what stands for fields that are absent or nil; the others have to be there. ``converts``: how what came
    becomes the value of a field: a function, or [how] for each item of a list, or (how, how) for the keys and the
    values of a map. None that stands for a field is not converted. What has no field is passed over: a newer
    controller says more. AttributeError, KeyError, TypeError or ValueError say what is malformed.
    """

    def __init__(
        self, cls: type, names: tuple[str, ...], absent: dict[str, Any], converts: dict[str, Any]
    ) -> None:
        self._class, self._names, self._absent = cls, frozenset(names), absent
        self._not_nil = tuple((name, value) for name, value in absent.items() if value is not None)
        self._converts = tuple((name, _converter(how)) for name, how in converts.items())

    def __call__(self, fields: dict[str, Any]) -> Any:
        values = {**self._absent, **_check(fields, dict)}
        if values.keys() != self._names:
            values = {name: values[name] for name in self._names}
        for name, value in self._not_nil:
            if values[name] is None:
                values[name] = value
        for name, convert in self._converts:
            if values[name] is not None or name not in self._absent:
                values[name] = convert(values[name])
        made: Any = object.__new__(self._class)
        made.__dict__.update(values)
        return made


def _converter(how: Any) -> Callable[[Any], Any]:
    if isinstance(how, list):
        each = _converter(how[0])
        return lambda value: [each(item) for item in _check(value, list)]
    if isinstance(how, tuple):
        key, item = map(_converter, how)
        return lambda value: {key(name): item(each) for name, each in _check(value, dict).items()}
    convert: Callable[[Any], Any] = how
    return convert


def _check(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} where a {'map' if kind is dict else 'list'} belongs")
    return value
