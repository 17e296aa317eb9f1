"""Callbacks while a call runs: text, displays, credit, nested requests, callbacks that raise."""

import fake
import limpet
import pytest


def streaming(*events, **record):
    """A handler that sends these events and then the record."""

    def handle(request):
        assert request.body["stream"] is True
        for kind, body in events:
            request.send(kind, body)
        request.record(**record)

    return handle


def out(data, stream=1):
    return fake.OUTPUT, {"stream": stream, "data": data}


PLOT = {"data": {"image/png": b"\x89"}, "metadata": {}, "display_id": "d", "is_result": False}


def test_text_is_decoded_across_events(session, controller):
    events = [out(b"a\xc3"), out(b"\xa4b"), out(b"err", 2), out(b"\xff"), out(b"\xe2\x82")]
    controller.on(fake.RUN, streaming(*events))
    stdout, stderr = [], []
    session.run("1", on_stdout=stdout.append, on_stderr=stderr.append)
    assert stdout == ["a", "äb", "�", "�"]
    assert stderr == ["err"]


def test_displays(session, controller):
    controller.on(
        fake.RUN, streaming((fake.DISPLAY, PLOT), (fake.DISPLAY, {**PLOT, "update": True}), displays=[PLOT])
    )
    shown = []
    result = session.run("1", on_display=shown.append)
    assert [display.update for display in shown] == [False, True]
    assert shown[0] == result.displays[0] and shown[0].data["image/png"] == b"\x89"


def test_without_callbacks_nothing_streams(session, controller):
    session.run("1")
    assert "stream" not in controller.bodies(fake.RUN)[0]


def test_one_callback_is_enough(session, controller):
    controller.on(fake.RUN, streaming(out(b"x"), out(b"y", 2), (fake.DISPLAY, PLOT)))
    for name in ("on_stdout", "on_stderr", "on_display"):
        got = []
        session.run("1", **{name: got.append})
        assert len(got) == 1


def test_credit_comes_back_every_16_events(session, controller):
    controller.on(fake.RUN, streaming(*[out(b"x", 1 + i % 2) for i in range(50)]))
    session.run("1", on_stderr=lambda text: None)
    session.interrupt()  # answered after every credit has been taken
    assert controller.bodies(fake.CREDIT) == [{"count": 16}] * 3
    run = next(request for request in controller.requests if request.kind == fake.RUN)
    credits = [request for request in controller.requests if request.kind == fake.CREDIT]
    assert {request.number for request in credits} == {run.number}


def test_callbacks_may_use_the_client(session, client, controller):
    """Nested requests on one connection: events of the outer call wait for it."""
    outer = []

    def handle(request):
        if request.body["code"] == "outer":
            outer.append(request)
            request.send(*out(b"1"))
        else:
            outer[0].send(*out(b"2"))
            outer[0].record(result="outer")
            request.send(*out(b"inner"))
            request.record(result="inner")

    controller.on(fake.RUN, handle)
    other, seen = client.open("b"), []

    def on_stdout(text):
        seen.append(text)
        if text == "1":
            seen.append(other.run("inner", on_stdout=seen.append).result)
            seen.append(session.interrupt())

    assert session.run("outer", on_stdout=on_stdout).result == "outer"
    assert seen == ["1", "inner", "inner", False, "2"]
    assert len({request.peer for request in controller.requests}) == 1


@pytest.mark.parametrize(
    "error", [ValueError("mine"), limpet.Busy("from a nested call"), limpet.Unavailable("x")]
)
def test_a_callback_that_raises_interrupts_the_call(session, controller, error):
    def run(request):
        request.send(*out(b"x"))

    controller.on(fake.RUN, run)
    controller.on(fake.INTERRUPT, lambda request: request.reply(interrupted=True))
    controller.on(fake.RESULT, lambda request: request.reply(record=fake.record(status="interrupted")))

    def on_stdout(text):
        raise error

    with pytest.raises(type(error)) as caught:
        session.run("1", on_stdout=on_stdout)
    assert caught.value is error
    assert caught.value.limpet_result.status == "interrupted"
    run_id = controller.bodies(fake.RUN)[0]["run_id"]
    assert controller.bodies(fake.INTERRUPT) == controller.bodies(fake.RESULT) == [{"run_id": run_id}]


@pytest.mark.parametrize(
    "event",
    [
        (fake.OUTPUT, {}),
        (fake.OUTPUT, {"stream": 3, "data": b"x"}),
        (fake.OUTPUT, {"stream": 1, "data": "text"}),
        (fake.OUTPUT, {"stream": [], "data": b""}),
        (fake.DISPLAY, {}),
        (99, {}),
    ],
)
def test_malformed_events_are_a_mismatch(session, controller, event):
    controller.on(fake.RUN, streaming(event))
    with pytest.raises(limpet.ProtocolMismatch):
        session.run("1", on_stdout=lambda text: None)
