"""Guests for the tests, with the small interpreter of the tests or the real one."""

import os
import pathlib
import tempfile

import pytest

from guest_harness import FAKE, REAL, Controller, Guest, needs_real

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

    def make(interpreter, *arguments, **options):
        guest = Guest(root, interpreter, *arguments, **options)
        guests.append(guest)
        guest.controller = Controller(guest.link)
        guest.start()
        return guest

    yield make
    for guest in guests:
        guest.close()
        guest.controller.close()


@pytest.fixture(
    params=[
        "fake",
        pytest.param("real", marks=needs_real),
    ]
)
def guest(request, make_guest):
    guest = make_guest(FAKE if request.param == "fake" else REAL)
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
