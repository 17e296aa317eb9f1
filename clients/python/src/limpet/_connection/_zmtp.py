"""A ZMTP 3.0 peer of type DEALER with the NULL mechanism: bytes in, frames out.

It opens nothing and never blocks, so that the blocking client and the asyncio client share it and tests feed
it byte strings. Why not pyzmq: libzmq reconnects behind our back, while a client must see at once that its
controller is gone, to ask the next one for the same call; a libzmq socket belongs to one thread and does not
survive fork(), while here every thread simply has a socket of its own; and a call costs less, because there
is no second thread to wake.

Only what Limpet uses exists. A message of several frames, an unknown command, a frame over the limit or a
peer that is no ROUTER raises ZmtpError, after which the connection is to be closed.
Reference: rfc.zeromq.org/spec/23.
"""

from __future__ import annotations

_BUFFER = 64 << 10
_GREETING = 64
_MECHANISM = b"NULL".ljust(20, b"\0")
_READY = b"\x05READY" + b"\x0bSocket-Type" + (6).to_bytes(4, "big") + b"DEALER"
_MORE, _LONG, _COMMAND = 1, 2, 4

# What a DEALER sends first. Frames must wait until the peer is ready: libzmq takes one that it reads together
# with our READY, before it has sent its own, for a command it does not know, and closes the connection.
_SIGNATURE, _VERSION, _FILLER = b"\xff" + bytes(8) + b"\x7f", b"\x03\x00", bytes(32)
OPENING = _SIGNATURE + _VERSION + _MECHANISM + _FILLER + bytes((_COMMAND, len(_READY))) + _READY


class ZmtpError(Exception):
    """The peer does not speak ZMTP as Limpet does."""


def pack(payload: bytes) -> bytes:
    """The frame of a message."""
    size = len(payload)
    if size < 256:
        return bytes((0, size)) + payload
    return b"\x02" + size.to_bytes(8, "big") + payload


class Peer:
    """One connection: read into space(), tell received() how much, take frames until there is none."""

    def __init__(self, limit: int) -> None:
        """``limit``: bytes of the largest frame that is taken."""
        self._limit = limit
        self._view = memoryview(bytearray(_BUFFER))
        self._start = self._end = 0
        self._wanted = _GREETING  # bytes from _start on that the next step needs
        self._greeted = False
        self.ready = False  # whether hands are shaken, and frames may be sent

    def space(self) -> memoryview:
        """Where the next bytes go; never empty. Frames that were taken before are no longer valid."""
        start, end, view = self._start, self._end, self._view
        if start == end:
            if len(view) > _BUFFER:
                view = self._view = memoryview(bytearray(_BUFFER))
            start = end = self._start = self._end = 0
        if start + self._wanted > len(view):
            kept = bytes(view[start:end])
            if self._wanted > len(view):
                view = self._view = memoryview(bytearray(self._wanted))
            view[: len(kept)] = kept
            self._start, self._end = 0, len(kept)
        return self._view[self._end :]

    def received(self, size: int) -> None:
        self._end += size

    def frame(self) -> memoryview | None:
        """The next message, valid until space() is called; None when more bytes are needed."""
        if not self.ready and not self._shake_hands():
            return None
        header = self._header(0)
        if header is None:
            return None
        start = self._start + header[0]
        self._start = start + header[1]
        return self._view[start : self._start]

    def _header(self, command: int) -> tuple[int, int] | None:
        """Size of the header and of the body of the next frame, when all of it is there."""
        start, view = self._start, self._view
        there = self._end - start
        if there < 2:
            self._wanted = 2
            return None
        flags = view[start]
        if flags == command:
            header, size = 2, view[start + 1]
        elif flags == command | _LONG:
            if there < 9:
                self._wanted = 9
                return None
            header, size = 9, int.from_bytes(view[start + 1 : start + 9], "big")
            if size > self._limit:
                raise ZmtpError(f"a frame of {size} bytes is over the limit of {self._limit}")
        else:
            raise ZmtpError(_unexpected(flags))
        if there < header + size:
            self._wanted = header + size
            return None
        self._wanted = 2
        return header, size

    def _shake_hands(self) -> bool:
        if not self._greeted and not self._greet():
            return False
        header = self._header(_COMMAND)
        if header is None:
            return False
        start = self._start + header[0]
        self._start = start + header[1]
        _check_ready(bytes(self._view[start : self._start]))
        self.ready = True
        return True

    def _greet(self) -> bool:
        greeting = bytes(self._view[self._start : min(self._end, self._start + _GREETING)])
        if greeting[:1] not in (b"", b"\xff") or (len(greeting) > 9 and not greeting[9] & 1):
            raise ZmtpError("not a ZMTP peer")
        if len(greeting) < _GREETING:
            return False
        if greeting[10] < 3:
            raise ZmtpError(f"ZMTP {greeting[10]} is too old, 3 is needed")
        if greeting[12:32] != _MECHANISM:
            raise ZmtpError("the peer wants another security mechanism than NULL")
        self._start += _GREETING
        self._wanted = 2
        self._greeted = True
        return True


def _unexpected(flags: int) -> str:
    if flags & ~(_MORE | _LONG | _COMMAND):
        return f"unknown frame flags {flags:#04x}"
    if flags & _MORE:
        return "a message of several frames"
    return "an unexpected command" if flags & _COMMAND else "a message before the handshake"


def _check_ready(command: bytes) -> None:
    name, rest = (
        command[1 : 1 + command[0]] if command else b"",
        command[1 + command[0] :] if command else b"",
    )
    if name == b"ERROR":
        raise ZmtpError(f"the peer refuses: {rest[1:].decode('utf-8', 'replace')}")
    if name != b"READY":
        raise ZmtpError("no READY in the handshake")
    socket_type = _properties(rest).get(b"socket-type")
    if socket_type != b"ROUTER":
        raise ZmtpError(
            f"the peer is a {(socket_type or b'nothing').decode('ascii', 'replace')}, not a ROUTER"
        )


def _properties(data: bytes) -> dict[bytes, bytes]:
    properties = {}
    while data:
        value = 1 + data[0] + 4
        size = int.from_bytes(data[value - 4 : value], "big")
        if len(data) < value + size:
            raise ZmtpError("a property of READY is cut short")
        properties[data[1 : value - 4].lower()] = data[value : value + size]
        data = data[value + size :]
    return properties
