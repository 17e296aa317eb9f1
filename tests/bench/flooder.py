"""A user who takes as much of a controller as it gives: 20,000 requests for a file at once, 8 clients that never read, and 1,000
requests that wait for a call.

usage: flooder.py SOCKET UID GROUP

Becomes that user, at the lowest priority, as what a client computes for itself is not what a controller can bound. Opens a session, and
prints "ready". Each line on standard input begins that, or ends it again; a line answers when it has.
"""
import contextlib
import grp
import itertools
import os
import sys
import threading

import limpet

from tests.integration.raw_peer import Client, Refused

SIZE = 1 << 20
PIPELINED, SILENT, PARKED = 20_000, 8, 1_000


def get(client, session):
    return client.ask("get", session=session, path="file", offset=0, size=SIZE)


class Flood:
    def __init__(self, socket, session):
        self.socket, self.session = socket, session
        self.ended, self.begun = threading.Event(), threading.Semaphore(0)
        self.clients = []
        jobs = [self.pipeline, self.park, *[self.fall_silent] * SILENT]
        self.threads = [threading.Thread(target=self.keep_at, args=[job]) for job in jobs]
        for thread in self.threads:
            thread.start()
        for _ in jobs:
            self.begun.acquire()

    def keep_at(self, job):
        """A client that was put out comes again."""
        while not self.ended.is_set():
            client = Client(self.socket)
            self.clients.append(client)
            with contextlib.suppress(OSError, EOFError, Refused):
                job(client)

    def get(self, client):
        return get(client, self.session)

    def pipeline(self, client):
        """20,000 on their way, as many as the controller takes, and what is answered asked anew."""
        asked = [self.get(client) for _ in range(PIPELINED)]
        self.begun.release()
        for id in itertools.cycle(asked):
            client.receive()
            self.get(client)

    def park(self, client):
        run_id = os.urandom(16).hex()
        call = client.ask("run", session=self.session, run_id=run_id, code="import time; time.sleep(600)", timeout=600.0)
        for _ in range(PARKED):
            client.ask("result", run_id=run_id)
        self.begun.release()
        client.answer(call)

    def fall_silent(self, client):
        with contextlib.suppress(TimeoutError):
            client.socket.settimeout(2)
            for _ in range(1000):
                self.get(client)
        self.begun.release()
        self.ended.wait()

    def end(self):
        self.ended.set()
        for client in self.clients:
            with contextlib.suppress(OSError):
                client.socket.shutdown(2)
        for thread in self.threads:
            thread.join()


def become(uid, group):
    os.setgroups([grp.getgrnam(group).gr_gid])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.nice(19)


def serve(socket):
    with limpet.Client(socket, autostart=False) as client, client.open("bench-flooder") as session:
        session.files.write("file", b"x" * SIZE)
        first = Client(socket)
        assert len(first.answer(get(first, session.name))["data"]) == SIZE
        first.close()
        print("ready", flush=True)
        flood = None
        for _ in sys.stdin:
            if flood:
                flood.end()
            flood = None if flood else Flood(socket, session.name)
            print("done", flush=True)
        if flood:
            flood.end()


if __name__ == "__main__":
    become(int(sys.argv[2]), sys.argv[3])
    serve(sys.argv[1])
