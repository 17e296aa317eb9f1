"""Fixtures of tests whose guest is scripted_guest.py."""

import json
import os

import pytest

from tests.support.limpetd import running

from .raw_peer import Client, Refused

GUEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripted_guest.py")
VARIABLE = {"name": "x", "type": "int", "shape": None, "dtype": None, "bytes": 28, "repr": "41"}
CHECKPOINT = {
    "id": "c1", "name": None, "branch": 0, "execution_count": 0, "created": 1.5, "automatic": False,
    "private_bytes": 0, "parent": None,
}  # fmt: skip


def scripted_controller(files_budget):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIMPET_GUEST", GUEST)
        patch.setenv("LIMPET_FILES_BUDGET", files_budget)
        with running() as controller:
            patch.undo()
            yield controller


@pytest.fixture(scope="module")
def controller():
    yield from scripted_controller("64k")


@pytest.fixture
def client(controller):
    client = Client(controller.socket)
    yield client
    client.close()


@pytest.fixture
def session(client, name):
    client("open", session=name)
    yield name
    try:
        client("close", session=name)
    except Refused as refused:
        assert refused.name == "NoSuchSession"


@pytest.fixture
def files(controller, session):
    """/session, as the host sees it."""
    return os.path.join(controller.directory, "state", "sessions", session, "files")


@pytest.fixture
def held(client, session, files):
    """held(code) asks for a call that waits for held.go(), which comes when the controller has read all requests."""

    def ask(code, session=session):
        wait = "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\n"
        return client.ask_run(session, wait + code)

    def go(client):
        client("interrupt", session=session)
        write(files, "go", "")

    ask.go = go
    return ask


def script(client, session, code):
    record = client.run(session, code)
    return None if record["result"] is None else json.loads(record["result"])


def received(client, session, kind):
    all = script(client, session, "result = guest.received")
    return [body for name, body in all if name == kind]


def refused(client, kind, **body):
    with pytest.raises(Refused) as caught:
        client(kind, **body)
    return caught.value


def rows(client):
    return {row["session"]: row for row in client("sessions")["sessions"]}


def write(files, name, text, mode=0o644):
    path = os.path.join(files, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    return path
