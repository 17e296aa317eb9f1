"""Ports at addresses of this machine, without a controller."""

import errno
import os
import socket

from limpet._connection import _ports


def test_a_connection_that_cannot_be_taken_does_not_end_it(monkeypatch):
    failures = [errno.ECONNABORTED, errno.EMFILE, errno.ENOBUFS]

    class Listener(socket.socket):
        def accept(self):
            if failures:
                number = failures.pop()
                raise OSError(number, os.strerror(number))
            return super().accept()

    listen = _ports._listen
    monkeypatch.setattr(_ports, "_listen", lambda to: Listener(fileno=listen(to).detach()))
    ours, theirs = socket.socketpair()
    with _ports.Forwarding(lambda: theirs, 0) as address:
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), 30) as near:
            near.sendall(b"through")
            ours.settimeout(30)
            assert ours.recv(100) == b"through"
    ours.close()
