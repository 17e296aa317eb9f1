#!/usr/bin/python3
"""A small interpreter that speaks the channel, for tests of the supervisor that must not depend on CPython's
embedding, and for what the real one never does: cells find `channel`, `pack` and `send` as globals."""

import os
import resource
import signal
import socket
import struct
import sys
import traceback

import msgpack

DISPLAY, EXECUTE, EXECUTED, READY = 41, 62, 63, 65

channel = socket.socket(fileno=3)
running = False
current = 0  # id of the call


def on_interrupt(number, frame):
    if running:
        raise KeyboardInterrupt


def pack(kind, body, id=None):
    frame = msgpack.packb([1, kind, current if id is None else id, body], use_bin_type=True)
    return struct.pack(">I", len(frame)) + frame


def send(kind, body, id=None):
    channel.sendall(pack(kind, body, id))


def read_exactly(size):
    data, fds = b"", []
    while len(data) < size:
        part, received, _, _ = socket.recv_fds(channel, size - len(data), 2)
        if not part:
            sys.exit(0)
        data += part
        fds += received
    return data, fds


def receive():
    header, fds = read_exactly(4)
    frame, _ = read_exactly(struct.unpack(">I", header)[0])
    for source, target in zip(fds, (1, 2)):
        os.dup2(source, target)
        os.close(source)
    return msgpack.unpackb(frame, raw=False)


def describe(error):
    return {"name": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}


def run(code, namespace):
    global running
    error = None
    try:
        running = True
        exec(compile(code, "<cell>", "exec"), namespace)
    except BaseException as raised:
        running = False
        error = describe(raised)
    running = False
    sys.stdout.flush()
    sys.stderr.flush()
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "result": namespace.pop("result", None),
        "displays": namespace.pop("displays", []),
        "error": error,
        "spawned": namespace.pop("spawned", False),
        "cpu": 0.001,
        "peak_memory": used.ru_maxrss * 1024,
    }


def main():
    global current
    signal.signal(signal.SIGINT, on_interrupt)
    namespace = {"channel": channel, "pack": pack, "send": send, "__name__": "__main__"}
    send(READY, {"peer": "fake"})
    while True:
        _, kind, current, body = receive()
        assert kind == EXECUTE
        send(EXECUTED, run(body["code"], namespace))


main()
