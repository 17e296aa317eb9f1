"""Output and displays: complete in the record, streamed under credit, and never in another call's reply."""

import hashlib

import pytest

from tests.support.wire import (
    BRANCH,
    CHECKPOINT,
    CONTEXT,
    CREDIT,
    DISPLAY,
    EXECUTED,
    INTERRUPT,
    LOAD,
    NAMESPACE,
    OUTPUT,
    SAVE,
)  # fmt: skip

from .guest_harness import FAKE, MIB, REAL, Controller, assert_works, needs_real


def test_output_over_the_cap(guest):
    record = guest.controller.run(
        "import sys\nfor i in range(300): sys.stdout.write('ä%04d ' % i * 1024)\nprint('end')"
    )
    text = "".join("ä%04d " % i * 1024 for i in range(300)) + "end\n"
    assert record["truncated"] and record["stdout_bytes"] == len(text.encode())
    assert record["stdout_file"] == "/session/.limpet/1.stdout" and record["stderr_file"] is None
    assert text.startswith(record["stdout"]) and MIB - 4 < len(record["stdout"].encode()) <= MIB
    with open(guest.directory / ".limpet" / "1.stdout", "rb") as file:
        assert hashlib.sha256(file.read()).digest() == hashlib.sha256(text.encode()).digest()


def test_output_over_the_spill_limit(make_guest):
    guest = make_guest(FAKE)
    guest.controller.welcome(output_limit=10, spill_limit=100)
    record = guest.controller.run("print('0123456789' * 20)")
    assert (record["stdout"], record["stdout_bytes"]) == ("0123456789", 201)
    with open(guest.directory / ".limpet" / "1.stdout") as file:
        assert file.read() == "0123456789" * 10


def test_undecodable_output(run):
    record = run("import os; os.write(1, b'a\\xffb\\xc3')")
    assert (record["stdout"], record["stdout_bytes"], record["truncated"]) == ("a\ufffdb\ufffd", 4, False)


def test_flood_until_the_deadline(guest):
    record = guest.controller.run(
        "import os\nwhile True:\n  try: os.write(1, b'y' * 65536)\n  except BaseException: pass", timeout=2
    )
    assert record["status"] == "timeout" and record["truncated"] and record["stdout_bytes"] > MIB
    assert_works(guest, 2)


def test_streaming(guest):
    record = guest.controller.run(
        "import sys\nfor i in range(20000): print(i)\nprint('e', file=sys.stderr)", stream=True
    )
    for stream, name in ((1, "stdout"), (2, "stderr")):
        data = [
            body["data"]
            for kind, body in guest.controller.events
            if kind == OUTPUT and body["stream"] == stream
        ]
        assert b"".join(data).decode() == record[name]
        assert all(len(part) <= 65536 for part in data)


def test_stream_comes_while_it_runs(guest):
    guest.controller.start("print('now', flush=True)\nimport time; time.sleep(60)", stream=True)
    kind, id, body = guest.controller.receive()
    assert (kind, id, body) == (OUTPUT, 1, {"stream": 1, "data": b"now\n"})
    guest.controller.send(INTERRUPT, {})
    guest.controller.record()


def test_without_credit_the_writer_waits(guest):
    code = "import os\nfor i in range(200): os.write(1, b'%065535d' % i)\nprint('done')"
    guest.controller.start(code, stream=True)
    events = [guest.controller.receive() for _ in range(58)]
    assert {kind for kind, _, _ in events} == {OUTPUT}
    assert not guest.controller.socket.poll(300), "more events than the window allows"
    guest.controller.send(CREDIT, {"count": 58}, 1)
    record = guest.controller.record()
    received = sum(len(body["data"]) for _, _, body in events) + sum(
        len(body["data"]) for kind, body in guest.controller.events if kind == OUTPUT
    )
    assert record["status"] == "ok" and record["stdout_bytes"] == received == 200 * 65535 + 5


def test_without_credit_the_deadline_lifts_the_wait(guest):
    """The writer ignores SIGINT; it can only end by itself because nobody makes it wait any more."""
    guest.controller.start(
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "for i in range(70): os.write(1, b'%065535d' % i)",
        timeout=5,
        stream=True,
    )
    events = 0
    while True:
        kind, _, body = guest.controller.receive()
        if kind == EXECUTED:
            break
        events += 1
    assert (body["status"], body["state"], body["error"]["name"]) == ("timeout", "kept", "Timeout")
    assert body["stdout_bytes"] == 70 * 65535 and events <= 64


def test_displays(fake):
    record = fake.controller.run(
        """
send(41, {'data': {'text/plain': 'one'}, 'display_id': 'a'})
send(41, {'data': {'image/png': b'two'}, 'metadata': {'width': 3}})
send(41, {'data': {'text/plain': 'new one'}, 'display_id': 'a', 'update': True})
displays = [{'data': {'text/html': '<b>'}, 'is_result': True}]
""",
        stream=True,
    )
    assert [(entry["data"], entry["display_id"], entry["is_result"]) for entry in record["displays"]] == [
        ({"text/plain": "new one"}, "a", False),
        ({"image/png": b"two"}, None, False),
        ({"text/html": "<b>"}, None, True),
    ]
    assert record["displays"][1]["metadata"] == {"width": 3}
    assert [body["update"] for kind, body in fake.controller.events if kind == DISPLAY] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("metadata", [{}, {"wait": True}, {"wait": False}])
def test_displays_that_are_taken_back(fake, metadata):
    record = fake.controller.run(
        f"""
send(41, {{'data': {{'text/plain': 'one'}}, 'display_id': 'a'}})
send(41, {{'data': {{'text/plain': 'two'}}}})
send(41, {{'data': {{}}, 'metadata': {metadata!r}, 'update': True}})
send(41, {{'data': {{'text/plain': 'three'}}}})
displays = [{{'data': {{'text/plain': 'result'}}, 'is_result': True}}]
""",
        stream=True,
    )
    assert [entry["data"]["text/plain"] for entry in record["displays"]] == ["three", "result"]
    events = [body for kind, body in fake.controller.events if kind == DISPLAY]
    assert [body["metadata"] for body in events if body["update"]] == [metadata]


def test_displays_are_taken_back_at_once_or_when_there_are_new_ones(fake):
    shown = "send(41, {'data': {'text/plain': 'one'}}); send(41, {'data': {}, 'metadata': {'wait': %s}, 'update': True})"
    assert fake.controller.run(shown % False)["displays"] == []
    assert len(fake.controller.run(shown % True)["displays"]) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        "'data': {'text/plain': 'x'}",
        "'data': {}, 'metadata': {'wait': 1}",
        "'data': {}, 'metadata': {'a': True}",
    ],
)
def test_what_takes_back_shows_nothing(fake, wrong):
    record = fake.controller.run("send(41, {%s, 'update': True}); import time; time.sleep(60)" % wrong)
    assert (record["status"], record["displays"]) == ("crashed", [])


def test_displays_over_the_limit(fake):
    record = fake.controller.run("for i in range(20): send(41, {'data': {'image/png': bytes(1 << 20)}})")
    assert len(record["displays"]) == 16
    assert "5 more displays" in record["displays"][-1]["data"]["text/plain"]


@needs_real
@pytest.mark.parametrize(
    "code, shown",
    [
        ("h = display(0, display_id=True)\nfor i in range(1000): h.update(i)", ["999"]),
        ("for i in range(1000):\n    clear_output(wait=True); display(i)\ndisplay('final')", ["999", "'final'"]),
        ("for i in range(40): clear_output(); display({'image/png': bytes(1 << 20), 'text/plain': f'{i}'}, raw=True)", ["39"]),
    ],
    ids=["updates", "frames", "figures"],
)
def test_what_takes_the_place_of_others_is_not_over_the_limits(make_guest, code, shown):
    controller = make_guest(REAL).controller
    controller.welcome()
    record = controller.run(code)
    assert [display["data"]["text/plain"] for display in record["displays"]] == shown


@needs_real
def test_all_that_is_over_the_limits_is_counted(make_guest):
    controller = make_guest(REAL).controller
    controller.welcome()
    record = controller.run("for i in range(1000): display(i)")
    assert record["displays"][-2]["data"]["text/plain"] == "254"
    assert record["displays"][-1]["data"]["text/plain"].startswith("745 more displays were dropped")


LATE_WRITER = """
import os, subprocess, time
subprocess.Popen(['sh', '-c', 'echo early; touch begun; while [ ! -e go ]; do sleep 0.02; done;'
                              'echo LATE; echo LATE >&2; touch done'])
spawned = True
while not os.path.exists('begun'): time.sleep(0.01)
"""


def test_late_writer_of_a_child(guest):
    first = guest.controller.run(LATE_WRITER)
    assert first["status"] == "ok" and first["stdout"] == "early\n"
    second = guest.controller.run(
        "import os, time\n"
        "open('go', 'w').close()\n"
        "while not os.path.exists('done'): time.sleep(0.01)\n"
        "print('mine')"
    )
    assert (second["stdout"], second["stderr"]) == ("mine\n", "")


def new_controller(guest, **fields):
    guest.controller.close()
    guest.controller = Controller(guest.link)
    guest.controller.welcome(**fields)
    guest.controller.record()  # again


PLACE = "/session/.limpet-saved-0"
BETWEEN = {
    "namespace": lambda guest, branch: guest.controller.ask(NAMESPACE, branch=branch),
    "save": lambda guest, branch: guest.controller.ask(SAVE, branch=branch, path=PLACE),
    "load": lambda guest, branch: guest.controller.ask(LOAD, branch=branch, path="/none"),
    "checkpoint": lambda guest, branch: guest.controller.ask(CHECKPOINT, branch=branch),
    "a branch": lambda guest, branch: guest.controller.ask(BRANCH, branch=9, **{"from": branch}),
    "a network": lambda guest, branch: new_controller(guest, proxied=True),
}


@needs_real
@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("branch", ["main", "branch", "context"])
def test_children_are_heard_whatever_comes_between(keep, branch, between):
    guest = keep(REAL, "off")
    number = 0 if branch == "main" else 3
    if branch == "branch":
        guest.controller.run("x = 1")
        guest.controller.ask(BRANCH, branch=number, **{"from": 0})
    elif branch == "context":
        guest.controller.ask(CONTEXT, branch=number)
    for word in ("one", "two", "three"):
        record = guest.controller.run(f"import os; os.system('echo {word}; echo {word} >&2')", branch=number)
        assert (record["stdout"], record["stderr"]) == (f"{word}\n", f"{word}\n")
        BETWEEN[between](guest, number)
    record = guest.controller.run("os.write(1, b'four'); print('five')", branch=number, stream=True)
    assert record["stdout"] == "fourfive\n" and len(guest.controller.events) > 0
