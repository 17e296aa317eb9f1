#!/usr/bin/python3 -S
"""A small interpreter that speaks the channel, for tests of the supervisor that must not depend on CPython's
embedding, and for what the real one never does: cells find everything here as globals, and may replace what
`handlers` does with a message."""

import builtins
import itertools
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import time

# What the option -S has left out of the path, as looking for it takes time.
sys.path.append("/usr/lib/python3/dist-packages")
import msgpack  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from tests.support.wire import (  # noqa: E402, F401
    ANSWER,
    ASK,
    CHECKPOINT,
    CHECKPOINTED,
    DISPLAY,
    EXECUTE,
    EXECUTED,
    FROZEN,
    LOAD,
    NAMESPACE,
    PREPARE,
    PREPARED,
    READY,
    RESTORE,
    SAVE,
)  # fmt: skip

SUPERVISOR = os.getppid()
channel = socket.socket(fileno=3)
running = False
current = 0  # id of the call


def on_interrupt(number, frame):
    if running:
        raise KeyboardInterrupt


def pack(kind, body, id=None):
    frame = msgpack.packb([1, kind, current if id is None else id, body], use_bin_type=True)
    return struct.pack(">I", len(frame)) + frame


def send(kind, body, id=None, to=None):
    (to or channel).sendall(pack(kind, body, id))


def read_exactly(size):
    data, fds = b"", []
    while len(data) < size:
        part, received, _, _ = socket.recv_fds(channel, size - len(data), 4)
        if not part:
            os._exit(0)
        data += part
        fds += received
    return data, fds


def receive():
    header, fds = read_exactly(4)
    frame, _ = read_exactly(struct.unpack(">I", header)[0])
    return msgpack.unpackb(frame, raw=False), fds


def place(fds):
    for source, target in zip(fds, (1, 2)):
        os.dup2(source, target)
        os.close(source)


def share(fd):
    """The memory that the real one prints into: as (head, start, tail, nonce) and bytes, twice."""
    global rings
    rings = mmap.mmap(fd, 0)
    os.close(fd)


def describe(error):
    import traceback

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
        "changed": namespace.pop("changed", None),
        "displays": namespace.pop("displays", []),
        "error": error,
        "spawned": namespace.pop("spawned", False),
        "cpu": 0.001,
        "peak_memory": used.ru_maxrss * 1024,
    }


def execute(id, body, fds):
    send(EXECUTED, run(body["code"], cells))


def ask(kind, name="", payload=None):
    """Asks, and waits for the answer: what goes with it."""
    send(ASK, {"ask": next(numbers), "kind": kind, "name": name, "payload": payload})
    return answer()


def answer():
    (_, kind, id, body), _ = receive()
    assert (kind, id) == (ANSWER, current), (kind, id, body)
    error = body.get("error")
    if error:
        raise getattr(builtins, error["name"])(error["message"])
    return body["payload"]


def prepare(id, body, fds):
    if body.get("env") is not None:
        os.environ.clear()
        os.environ.update(body["env"])
    failed = []
    for name in body.get("imports") or []:
        try:
            __import__(name)
        except Exception as error:
            failed.append(f"{name}: {error}")
    send(PREPARED, {"failed": failed}, id)


def ignore(id, body, fds):
    pass


def list_variables(id, body, fds):
    names = [name for name in cells if not name.startswith("_") and name not in own]
    rows = [{"name": name, "type": type(cells[name]).__name__} for name in names]
    send(NAMESPACE, {"names": rows, "more": 0}, id)


def fork_sibling():
    """A fork that is the supervisor's child; 0 in it."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return pid
    if os.fork():
        os._exit(0)
    while os.getppid() != SUPERVISOR:
        time.sleep(0.0005)
    os.setsid()
    return 0


def freeze(end):
    """The life of a frozen copy; returns in one that was brought back."""
    global channel
    channel.close()
    channel = socket.socket(fileno=end)
    with open("/proc/self/smaps_rollup", "rb") as memory:
        socket.send_fds(channel, [pack(FROZEN, {}, 0)], [memory.fileno()])
    while True:
        (_, kind, id, body), fds = receive()
        assert kind == RESTORE
        handlers[RESTORE](id, body, fds)
        if fds[-1] is None:  # the mark of one that was brought back
            return


def restore(id, body, fds):
    global channel
    try:
        copy = fork_sibling()
    except OSError as error:
        send(CHECKPOINTED, {"error": f"fork: {error.strerror}"}, id)
        copy = 1
    if copy:
        for fd in fds:
            os.close(fd)
        return
    channel.close()
    channel = socket.socket(fileno=fds[0])
    place(fds[1:3])
    share(fds[3])
    fds.append(None)
    send(READY, {"peer": "fake", "not_restored": notes}, 0)


def checkpoint(id, body, fds):
    try:
        copy = fork_sibling()
    except OSError as error:
        send(CHECKPOINTED, {"error": f"fork: {error.strerror}"}, id)
        os.close(fds[0])
        return
    if not copy:
        freeze(fds[0])
        return
    os.close(fds[0])
    send(CHECKPOINTED, {"error": None}, id)


notes = []
numbers = itertools.count(1)
handlers = {
    EXECUTE: execute,
    CHECKPOINT: checkpoint,
    NAMESPACE: list_variables,
    RESTORE: restore,
    PREPARE: prepare,
    ANSWER: ignore,
}
own = set()
cells = globals()


def main():
    global current
    signal.signal(signal.SIGINT, on_interrupt)
    share(4)
    own.update(cells)
    send(READY, {"peer": "fake"})
    while True:
        (_, kind, id, body), fds = receive()
        if kind != CHECKPOINT:
            place(fds)
        if kind == EXECUTE:
            current = id
        handlers[kind](id, body, fds)


main()
