"""The socket that outputs are sent on, and those who listen."""

import contextlib
import threading

import pytest
import zmq

from limpet.jupyter import _app
from limpet.jupyter._app import SharedSocket

MANY, PIECE = 3000, b"x" * (1 << 16)


@pytest.fixture
def context():
    with zmq.Context() as context:
        yield context


@pytest.fixture
def sender(context):
    with context.socket(zmq.PUB) as socket:
        socket.linger = 0
        yield SharedSocket(socket)


@contextlib.contextmanager
def listening(context, sender):
    port = sender.port = getattr(sender, "port", None) or sender._socket.bind_to_random_port("tcp://127.0.0.1")
    with context.socket(zmq.SUB) as listener:
        listener.connect(f"tcp://127.0.0.1:{port}")
        listener.subscribe(b"")
        while not listener.poll(10):  # until it is known to listen
            sender.send_multipart([b"are you there"])
        yield listener


def sending(sender, sent=None):
    def send():
        for number in range(MANY):
            sender.send_multipart([b"%d" % number, PIECE])
            if sent:
                sent.release()

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread


def heard(listener, last):
    """The first parts of what comes, up to that one, or until nothing comes."""
    found = []
    while (not found or found[-1] != last) and listener.poll(60_000 if last else 3000):
        first, *rest = listener.recv_multipart()
        if first != b"are you there":
            found.append(first)
    return found


NUMBERS = [b"%d" % number for number in range(MANY)]


def test_a_slow_listener_misses_nothing(context, sender):
    sent = threading.Semaphore(0)
    with listening(context, sender) as listener:
        thread = sending(sender, sent)
        for _ in range(200):
            sent.acquire()
        assert heard(listener, NUMBERS[-1]) == NUMBERS
        thread.join()


def test_one_that_reads_nothing_delays_the_others_once_and_they_miss_nothing(context, sender, monkeypatch):
    monkeypatch.setattr(_app, "PATIENCE", 0.2)
    with listening(context, sender) as stalled, listening(context, sender) as other:
        thread = sending(sender)
        assert heard(other, NUMBERS[-1]) == NUMBERS
        thread.join()
        found = heard(stalled, None)
        assert found == NUMBERS[: len(found)] and 200 < len(found) < MANY
        sender.send_multipart([b"more"])
        assert heard(stalled, b"more") == heard(other, b"more") == [b"more"]


def test_interrupts_do_not_wait_for_one_that_reads_nothing(context, sender, monkeypatch):
    monkeypatch.setattr(_app, "PATIENCE", 3600)
    with listening(context, sender) as listener:
        thread = sending(sender)
        control = threading.Thread(target=lambda: [sender.send_multipart([b"busy", PIECE]) for _ in range(MANY)], name="Control")
        control.start()
        control.join(60)
        assert not control.is_alive() and thread.is_alive()
        assert [each for each in heard(listener, NUMBERS[-1]) if each != b"busy"] == NUMBERS
        thread.join()
