"""What the processes of limpetd say to each other (host/ipc): a message behind its size, with descriptors."""

import array
import socket
import struct

import msgpack

INT = array.array("i").itemsize


def message(kind, body, number=0):
    return msgpack.packb([1, kind, number, body])


def send(sock, data, fds=()):
    control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    return sock.sendmsg([data], control)


def receive(sock, size=1 << 17):
    """Bytes, and the descriptors that came with them."""
    data, control, _, _ = sock.recvmsg(size, socket.CMSG_SPACE(10 * INT))
    fds = array.array("i")
    for _, _, value in control:
        fds.frombytes(value[: len(value) // INT * INT])
    return data, list(fds)


def unpack(data):
    _, kind, number, body = msgpack.unpackb(data, strict_map_key=False)
    return kind, number, body


def read_exactly(sock, size):
    data, fds = b"", []
    while len(data) < size:
        piece, more = receive(sock, min(size - len(data), 1 << 20))
        fds += more
        if not piece:
            raise EOFError
        data += piece
    return data, fds


def send_frame(sock, data, fds=(), size=None, descriptors=None):
    frame = struct.pack("=II", len(data) if size is None else size, len(fds) if descriptors is None else descriptors) + data
    sent = send(sock, frame, fds)
    if sent < len(frame):
        sock.sendall(frame[sent:])


def receive_frame(sock):
    header, fds = read_exactly(sock, 8)
    size, n = struct.unpack("=II", header)
    data, _ = read_exactly(sock, size)
    assert n == len(fds)
    return data, fds
