"""A controller with spare containers, for the tests of the pool."""

import os
import threading

import pytest

from .killed import PATIENCE, Asking, Host, supervisors, wait_for
from .raw_peer import Client

# Of the standard library, and imported by nothing else: a session that has it was a spare.
IMPORTS = "wave"
CLAIMED = "import sys; 'wave' in sys.modules"


class Pool(Host):
    """With spares; `raw` speaks the protocol and so sees how many there are."""

    def __init__(self, limpetd):
        self.raw = None
        super().__init__(limpetd)

    def controller(self):
        try:
            if not self.raw:
                self.raw = Client(self.limpetd.socket)
            return self.raw("sessions")["controller"]
        except (EOFError, OSError):  # it is another one by now
            self.raw = None
            return self.controller()

    def ready(self, count=1):
        wait_for(lambda: self.controller()["spares"] == count, lambda: f"{self.controller()}\n{self.limpetd.said()[-4000:]}")

    def asking(self, ask, *args):
        """Asks from a thread that is connected by now: for one that is not, no controller is an answer too."""
        connected = threading.Event()

        def connect_and_ask():
            self.client.sessions()
            connected.set()
            return ask(*args)

        running = Asking(connect_and_ask)
        assert connected.wait(PATIENCE)
        return running

    def was_claimed(self, session):
        return session.run(CLAIMED).result == "True"

    def spare_directories(self):
        """Of those that have been born, whoever has them now."""
        sessions = self.path("sessions")
        names = os.listdir(sessions) if os.path.isdir(sessions) else []
        return [os.path.join(sessions, name) for name in names if name.startswith("~")]

    def supervisors(self):
        """Their processes 1, as the host sees them, with their directories."""
        found = {}
        for directory in self.spare_directories():
            for pid in supervisors(os.path.join(directory, "files")):
                found[directory] = pid
        return found


@pytest.fixture
def settings(monkeypatch):
    """Options of the controller, by name."""

    def set(**options):
        for name, value in options.items():
            monkeypatch.setenv(f"LIMPET_{name.upper()}", str(value))

    set(pool=1, imports=IMPORTS)
    return set


@pytest.fixture
def pool(own_limpetd, settings):
    """Started, with one spare that is ready. Nothing of it is left behind."""
    pool = Pool(own_limpetd.start())
    try:
        pool.ready()
        yield pool
    finally:
        pool.client.close()
        if not own_limpetd.process:
            own_limpetd.start()
        status = own_limpetd.stop()
    assert status == 0, own_limpetd.said()
    assert own_limpetd.leftovers() == {}
    assert {left: os.listdir(left) for left in pool.spare_directories()} == {}, own_limpetd.said()
    assert not os.path.exists(os.path.join(own_limpetd.directory, "run", "guests"))
