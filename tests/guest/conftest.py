"""Guests for the tests, with the small interpreter of the tests or the real one."""

import os
import pathlib
import tempfile

import pytest

from tests.support.wire import CLAIM

from .guest_harness import FAKE, REAL, Controller, Guest

# The second so that a crash is a crash also with an interpreter built for AddressSanitizer.
ENVIRONMENT = {"GREETING": "hello", "ASAN_OPTIONS": "handle_segv=0"}


@pytest.fixture
def root():
    """A directory of the test that other users reach too; pytest's own are private."""
    with tempfile.TemporaryDirectory(prefix="limpet-guest-") as path:
        os.chmod(path, 0o755)
        yield pathlib.Path(path)


@pytest.fixture
def make_guest(root):
    guests = []

    def make(interpreter, *arguments, root=root, **options):
        guest = Guest(root, interpreter, *arguments, **options)
        guests.append(guest)
        guest.controller = Controller(guest.link)
        guest.start()
        return guest

    yield make
    for guest in guests:
        guest.close()
        guest.controller.close()


@pytest.fixture
def interpreter():
    """The real one. Where it is not built, the small one shows the same of the supervisor."""
    return REAL if REAL.exists() else FAKE


@pytest.fixture
def guest(interpreter, make_guest):
    """Without checkpoints: whatever ends its interpreter loses the variables."""
    guest = make_guest(interpreter)
    guest.hello = guest.controller.welcome(env=ENVIRONMENT)
    return guest


@pytest.fixture
def fake(make_guest):
    guest = make_guest(FAKE)
    guest.hello = guest.controller.welcome()
    return guest


@pytest.fixture
def run(guest):
    return guest.controller.run


@pytest.fixture
def keep(make_guest):
    """A guest that keeps checkpoints: keep(interpreter, mode, **fields of the welcome)."""

    def make(interpreter, mode="auto", *arguments, prefix=(), **fields):
        guest = make_guest(interpreter, *arguments, prefix=prefix)
        guest.hello = guest.controller.welcome(env=ENVIRONMENT, checkpoint=mode, **fields)
        return guest

    return make


@pytest.fixture
def keep_claimed(make_guest):
    """The same, of a guest that was a spare."""

    def make(interpreter, mode="auto"):
        guest = make_guest(interpreter)
        guest.hello = guest.controller.welcome(imports=[])
        guest.controller.prepared()
        guest.controller.send(CLAIM, {"env": ENVIRONMENT, "checkpoint": mode})
        return guest

    return make
