"""What a user is told when the controller refuses, talks nonsense, or is not there."""

import socket
import threading

import pytest

from .fake_controller import FakeController, record

# errors and garbage


def test_options_differ(limpet):
    def differ(request):
        request.fail(1103, "OptionsDiffer", "session 'a' has another memory", options=["memory"])

    with FakeController(limpet.socket, open=differ):
        result = limpet("open", "--memory", "2g", "a")
    assert (result.returncode, result.err) == (125, "limpet: OptionsDiffer: session 'a' has another memory\n")


def test_an_error_of_a_newer_controller_keeps_its_name(limpet):
    with FakeController(limpet.socket, run=lambda request: request.fail(1999, "Tired", "come back tomorrow")):
        result = limpet("run", "-c", "1")
    assert (result.returncode, result.err) == (125, "limpet: Unknown: Tired: come back tomorrow\n")


def without(name):
    fields = record()
    del fields[name]
    return fields


def reply_of(body):
    return lambda request: request.send("reply", body)


@pytest.mark.parametrize("run", [
    lambda request: request.raw(b"\xc1"),
    lambda request: request.raw(b""),
    lambda request: request.raw(b"\xdd\xff\xff\xff\xff"),
    lambda request: request.send("hello", {}),
    lambda request: request.send("error", {}),
    lambda request: request.fail(0, "", ""),
    lambda request: request.send("output", {"stream": 0, "data": b"x"}),
    lambda request: request.send("output", {"stream": 3, "data": b"x"}),
    lambda request: request.send("output", {"stream": 1, "data": "text"}),
    reply_of({}),
    reply_of(without("status")),
    reply_of(record(status="sleepy")),
    reply_of(record(state="gone")),
    reply_of(record(status="error")),
    reply_of(record(error={"name": "E", "message": "", "traceback": ""})),
    reply_of(record(displays=[1])),
    reply_of(record(displays=[{"data": {b"x": 1}}])),
    reply_of(record(artifacts={"/a": 5})),
    reply_of(record(artifacts={"/a": "/h"}, artifact_info={"/a": {"size": "big"}})),
    reply_of(record(skipped={1: "x"})),
    reply_of(record(stdout=b"bytes")),
    reply_of(record(execution_count=-1)),
    reply_of(without("state_protection")),
    reply_of(record(state_protection={"level": "paper"})),
    reply_of(record(not_restored=[b"x"])),
    reply_of(record(rolled_back_to={"checkpoint": "c"})),
    reply_of(record(changed={})),
    reply_of(record(changed={"added": [7], "changed": [], "deleted": [], "more": 0})),
    reply_of(record(changed={"added": [], "changed": [], "deleted": [7], "more": 0})),
    reply_of(record(changed={"added": [], "changed": [{"name": "x", "type": "t", "shape": [-1]}], "deleted": [],
                             "more": 0})),
])
def test_garbage_instead_of_a_record(limpet, run):
    with FakeController(limpet.socket, run=run):
        result = limpet("run", "-c", "1")
    assert result.returncode == 125
    assert result.err.startswith("limpet: ProtocolMismatch: ")
    assert result.out == ""


def test_another_protocol_version(limpet):
    def hello(request):
        request.reply(protocol=2, peer="future/9", pid=1, engine="oci", image=None, warning=None)

    with FakeController(limpet.socket, hello=hello):
        result = limpet("ls")
    assert result.returncode == 125
    assert result.err.startswith("limpet: ProtocolMismatch: the controller speaks protocol 2, this client speaks 1")


@pytest.mark.parametrize("words", [b"SSH-2.0-OpenSSH\r\n" * 8, b"\0" * 200, b"\xff" * 200])
def test_something_else_listens(limpet, words):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(limpet.socket))
    listener.listen()

    def talk():
        connection, _ = listener.accept()
        with connection:
            connection.sendall(words)
            while connection.recv(4096):
                pass

    thread = threading.Thread(target=talk)
    thread.start()
    result = limpet("ls")
    thread.join()
    listener.close()
    assert (result.returncode, result.err) == (
        125, f"limpet: ProtocolMismatch: the process that listens at {limpet.socket} is not a Limpet controller\n")


# where the socket is


def test_no_controller_and_none_may_be_started(limpet):
    result = limpet("run", "-c", "1")
    assert (result.returncode, result.out) == (125, "")
    assert result.err == f"limpet: Unavailable: no controller listens at {limpet.socket}\n"


def test_a_socket_left_behind(limpet):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(limpet.socket))
    result = limpet("run", "-c", "1")
    assert result.returncode == 125
    assert result.err == f"limpet: Unavailable: no controller listens at {limpet.socket}\n"


def test_a_path_that_is_too_long(limpet):
    result = limpet("ls", environment={"LIMPET_SOCKET": "/tmp/" + "x" * 200})
    assert result.returncode == 125
    assert result.err.startswith("limpet: BadRequest: the socket path is too long")
