"""The socket that outputs are sent on, and those who listen."""

import threading

import zmq

from limpet.jupyter._app import SharedSocket

MANY, PIECE = 3000, b"x" * (1 << 16)


def test_a_slow_listener_misses_nothing():
    with zmq.Context() as context, context.socket(zmq.PUB) as to, context.socket(zmq.SUB) as listener:
        sender, sent = SharedSocket(to), threading.Semaphore(0)
        listener.connect(f"tcp://127.0.0.1:{to.bind_to_random_port('tcp://127.0.0.1')}")
        listener.subscribe(b"")
        while not listener.poll(10):  # until it is known to listen
            sender.send_multipart([b"are you there"])

        def send():
            for number in range(MANY):
                sender.send_multipart([b"%d" % number, PIECE])
                sent.release()

        thread = threading.Thread(target=send)
        thread.start()
        for _ in range(200):
            sent.acquire()
        numbers = []
        while len(numbers) < MANY and listener.poll(20_000):
            first, *rest = listener.recv_multipart()
            if rest:
                numbers.append(int(first))
        thread.join()
        assert numbers == list(range(MANY))
