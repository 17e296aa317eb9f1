"""Callbacks while a call runs: text, displays, credit, nested requests, callbacks that raise."""

import contextlib
import gc
import weakref

import limpet
import pytest
from limpet._calls._stream import Stream

from tests.support import fake
from tests.support.wire import KINDS

pytestmark = pytest.mark.wire


def streaming(*events, **record):
    """A handler that sends these events and then the record."""

    def handle(request):
        assert request.body["stream"] is True
        for kind, body in events:
            request.send(kind, body)
        request.record(**record)

    return handle


def out(data, stream=1):
    return "output", {"stream": stream, "data": data}


PLOT = {"data": {"image/png": b"\x89"}, "metadata": {}, "display_id": "d", "is_result": False}


def test_text_is_decoded_across_events(session, controller):
    events = [out(b"a\xc3"), out(b"\xa4b"), out(b"err", 2), out(b"\xff"), out(b"\xe2\x82")]
    controller.on("run", streaming(*events))
    stdout, stderr = [], []
    session.run("1", on_stdout=stdout.append, on_stderr=stderr.append)
    assert stdout == ["a", "äb", "�", "�"]
    assert stderr == ["err"]


def test_displays(session, controller):
    controller.on(
        "run", streaming(("display", PLOT), ("display", {**PLOT, "update": True}), displays=[PLOT])
    )
    shown = []
    result = session.run("1", on_display=shown.append)
    assert [display.update for display in shown] == [False, True]
    assert shown[0] == result.displays[0] and shown[0].data["image/png"] == b"\x89"


def test_without_callbacks_nothing_streams(session, controller):
    session.run("1")
    assert "stream" not in controller.bodies("run")[0]


def test_one_callback_is_enough(session, controller):
    controller.on("run", streaming(out(b"x"), out(b"y", 2), ("display", PLOT)))
    for name in ("on_stdout", "on_stderr", "on_display"):
        got = []
        session.run("1", **{name: got.append})
        assert len(got) == 1


def test_credit_comes_back_every_16_events(session, controller):
    controller.on("run", streaming(*[out(b"x", 1 + i % 2) for i in range(50)]))
    session.run("1", on_stderr=lambda text: None)
    session.interrupt()  # answered after every credit has been taken
    assert controller.bodies("credit") == [{"count": 16}] * 3
    run = next(request for request in controller.requests if request.kind == "run")
    credits = [request for request in controller.requests if request.kind == "credit"]
    assert {request.id for request in credits} == {run.id}


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

    controller.on("run", handle)
    other, seen = client.open("b"), []

    def on_stdout(text):
        seen.append(text)
        if text == "1":
            seen.append(other.run("inner", on_stdout=seen.append).result)
            seen.append(session.interrupt())

    assert session.run("outer", on_stdout=on_stdout).result == "outer"
    assert seen == ["1", "inner", "inner", False, "2"]
    assert len({request.peer for request in controller.requests}) == 1


class Noted:
    """A lock that counts who takes it."""

    def __init__(self, lock):
        self.lock, self.count = lock, 0

    def __enter__(self):
        self.count += 1
        return self.lock.__enter__()

    def __exit__(self, *error):
        return self.lock.__exit__(*error)


def test_a_nested_request_lets_an_answer_that_is_being_sent_go_first(session, client, controller):
    """Answers come from other threads: neither may get into the middle of the other."""
    controller.on("run", streaming(out(b"1")))
    connection = client._local.connection
    connection._sending, seen = Noted(connection._sending), []

    def on_stdout(text):
        before = connection._sending.count
        session.interrupt()
        seen.append(connection._sending.count - before)

    session.run("1", on_stdout=on_stdout)
    assert seen == [1]


@pytest.mark.parametrize(
    "error", [ValueError("mine"), limpet.Busy("from a nested call"), limpet.Unavailable("x")]
)
def test_a_callback_that_raises_interrupts_the_call(session, controller, error):
    def run(request):
        request.send(*out(b"x"))

    controller.on("run", run)
    controller.on("interrupt", lambda request: request.reply(interrupted=True))
    controller.on("result", lambda request: request.reply(record=fake.record(status="interrupted")))

    def on_stdout(text):
        raise error

    with pytest.raises(type(error)) as caught:
        session.run("1", on_stdout=on_stdout)
    assert caught.value is error
    assert caught.value.limpet_result.status == "interrupted"
    run_id = controller.bodies("run")[0]["run_id"]
    assert controller.bodies("interrupt") == controller.bodies("result") == [{"run_id": run_id}]


class Holding:
    """A callback with much in its memory."""

    def __call__(self, text):
        raise ValueError(text)


def test_what_a_callback_that_raises_holds_goes_at_once(session, controller):
    controller.on("run", lambda request: request.send(*out(b"x")))
    controller.on("interrupt", lambda request: request.reply(interrupted=True))
    controller.on("result", lambda request: request.reply(record=fake.record(status="interrupted")))
    callback = Holding()
    held = weakref.ref(callback)
    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            session.run("1", on_stdout=callback)
        del callback
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "event",
    [
        ("output", {}),
        ("output", {"stream": 3, "data": b"x"}),
        ("output", {"stream": 1, "data": "text"}),
        ("output", {"stream": [], "data": b""}),
        ("display", {}),
        (99, {}),
    ],
)
def test_malformed_events_are_a_mismatch(session, controller, event):
    controller.on("run", streaming(event))
    with pytest.raises(limpet.ProtocolMismatch):
        session.run("1", on_stdout=lambda text: None)


class Outage:
    """A call with callbacks whose connection is lost after some events; got is what the callbacks got."""

    def __init__(self, *events):
        self.got = []
        self.stream = Stream(
            lambda text: self.got.append(text), lambda text: self.got.append(text), self.got.append
        )
        for kind, body in events:
            self._deliver([self.stream.event(KINDS[kind], body)])
        assert self.stream.lost({"code": "x", "stream": True}) == {"code": "x"}

    def end(self, **record):
        before = len(self.got)
        self._deliver(self.stream.rest(limpet.Result.from_record(fake.record(**record))))
        return self.got[before:]

    @staticmethod
    def _deliver(deliveries):
        for callback, value in filter(None, deliveries):
            callback(value)


def test_missed_output_begins_where_the_events_ended():
    """In the middle of a character, after bytes that are none, and with nothing before or after."""
    data = "aä€b".encode() + b"\xff\xe2\x82" + "c€".encode()
    text = data.decode("utf-8", "replace")
    for size in range(len(data) + 1):
        outage = Outage(*(out(data[i : i + 1]) for i in range(size)))
        outage.end(stdout=text, stdout_bytes=len(data))
        assert "".join(outage.got) == text


def test_what_was_missed_comes_by_stream():
    outage = Outage(out(b"1"), out(b"2", 2))
    assert outage.end(stdout="1a", stderr="2b", stdout_bytes=2, stderr_bytes=2) == ["a", "b"]


@pytest.mark.parametrize("seen, lost", [(0, 7), (2, 7), (5, 7), (9, 3), (12, 0)])
@pytest.mark.parametrize("file", ["/session/.limpet/1.stdout", None])
def test_output_that_is_not_in_the_record_is_counted(seen, lost, file):
    """12 bytes were written; the record has the first 5."""
    data = b"0123456789ab"
    outage = Outage(out(data[:seen]))
    rest = outage.end(stdout="01234", stdout_bytes=12, truncated=True, stdout_file=file)
    notice = [rest.pop()] if lost else []
    assert "".join(rest) == data[seen:5].decode()
    where = f"the whole text is in {file}" if file else "they are lost"
    expected = f"\n[limpet: {lost} more bytes of stdout came while the controller was away; {where}]\n"
    assert notice == ([expected] if lost else [])


def test_only_the_stream_that_was_cut_is_counted():
    outage = Outage(out(b"\xe2\x82"), out(b"x", 2))
    rest = outage.end(
        stdout="\ufffd", stdout_bytes=2, stderr="x", stderr_bytes=9, truncated=True, stderr_file="/f"
    )
    assert rest[0] == "\ufffd" and "8 more bytes of stderr" in rest[1] and len(rest) == 2


def shown(text, display_id=None, update=False):
    return "display", {
        "data": {"text/plain": text},
        "metadata": {},
        "display_id": display_id,
        "is_result": False,
        "update": update,
    }


def test_displays_that_were_missed_or_changed_meanwhile():
    entry = {text: shown(text, display_id)[1] for text, display_id in (("a2", "a"), ("b2", "b"), ("c", None))}
    outage = Outage(shown("a1", "a"), shown("b1", "b"), shown("a2", "a", update=True))
    rest = outage.end(displays=[entry["a2"], entry["b2"], entry["c"]])
    assert [(display.data["text/plain"], display.update) for display in rest] == [("b2", True), ("c", False)]


@pytest.mark.parametrize("wait", [False, True])
def test_displays_that_were_taken_back(wait):
    back = ("display", {**shown("", None)[1], "data": {}, "metadata": {"wait": wait}, "update": True})
    outage = Outage(shown("a", None), shown("b", None), back, shown("c", None), shown("d", None))
    rest = outage.end(displays=[shown(text, None)[1] for text in ("c", "d", "e")])
    assert [display.data["text/plain"] for display in rest] == ["e"]


def test_without_a_callback_nothing_is_made_up():
    stream = Stream(None, None, None)
    stream.lost({})
    result = limpet.Result.from_record(
        fake.record(stdout="x", stdout_bytes=9, truncated=True, displays=[PLOT])
    )
    assert list(stream.rest(result)) == []
