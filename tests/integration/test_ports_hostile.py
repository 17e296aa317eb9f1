"""What a supervisor passes in place of a connection. The guest is a script."""

import os

import pytest

from tests.support.limpetd import controllers

from .killed import wait_for
from .raw_peer import Refused
from .scripted import client, refused, script, scripted_controller, session

pytestmark = [pytest.mark.once, pytest.mark.sanitize]

__all__ = ["client", "session"]


@pytest.fixture(scope="module")
def controller():
    yield from scripted_controller("1g")


def passing(made, count=1, kind="connect", reply="{}"):
    """Code of the guest, which passes what that expression makes with an answer."""
    return f"""
import os, socket
from limpet._connection import _zmtp
from tests.support.wire import KINDS
from tests.wire import rawpack

def answer(id, body):
    frame = _zmtp.pack(rawpack.message(KINDS["reply"], id, {reply}))
    for _ in range({count}):
        made = {made}
        socket.send_fds(guest.peer.socket, [frame[:1]], [made if isinstance(made, int) else made.fileno()])
        frame = frame[1:]
    guest.peer.socket.sendall(frame)

guest.replies["{kind}"] = answer
"""


@pytest.mark.parametrize(
    "made",
    ["os.open('/etc/passwd', os.O_RDONLY)", "os.open('/', os.O_PATH)", "socket.socket(socket.AF_UNIX)",
     "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", "os.memfd_create('x')"],
)  # fmt: skip
def test_what_is_no_connection_ends_the_session(client, session, made):
    client.run(session, passing(made))
    refusal = refused(client, "connect", session=session, port=80)
    assert refusal.name in ("SessionClosed", "Internal")
    assert refused(client, "namespace", session=session).name in ("NoSuchSession", "SessionClosed")


def test_too_many_end_the_connection(client, session):
    client.run(session, passing("socket.socket()", count=20))
    with pytest.raises(Refused):
        client("connect", session=session, port=80)


def test_none_at_all(client, session):
    client.run(session, "guest.replies['connect'] = {}")
    assert refused(client, "connect", session=session, port=80).name == "Internal"
    script(client, session, "guest.replies['connect'] = (1121, 'nobody there')")
    refusal = refused(client, "connect", session=session, port=80)
    assert (refusal.name, str(refusal)) == ("NotListening", "nobody there")


def test_descriptors_that_nobody_asked_for_are_not_kept(controller, client, session):
    def open_files():
        pid = controller.process.pid
        return sum(len(os.listdir(f"/proc/{each}/fd")) for each in (pid, *controllers(pid)))

    script(client, session, passing("socket.socket()", 5, "namespace", "{'names': [], 'more': 0}"))
    before = open_files()
    assert client("namespace", session=session) == {"names": [], "more": 0}
    client("close", session=session)
    wait_for(lambda: open_files() < before)
