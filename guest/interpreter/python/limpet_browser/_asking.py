"""Asking the supervisor for the browser, which starts it where it does not run."""

import os
import socket
import time
import urllib.parse

SOCKET = os.environ.get("LIMPET_BROWSER_SOCKET", "/run/limpet-browser")
PORT = 9222  # where the browser is controlled, on the loopback of the container
PATIENCE = 120  # seconds; the supervisor gives up earlier
DYING = 10  # seconds at most between the end of a browser's port and that of its process, which the supervisor sees
PAUSE = 0.02  # seconds


class BrowserError(Exception):
    """The session has no browser, or it does not start; the message says why."""


def asked():
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE)
        try:
            connection.connect(SOCKET)
        except OSError as error:
            raise BrowserError(
                f"this session has no browser ({error.strerror}): open one with an engine of containers, and an image "
                "built by `limpet image build --with browser`"
            ) from None
        with connection.makefile("r", encoding="ascii", errors="replace") as answer:
            return answer.readline()


def address_of_one_that_runs():
    word, _, rest = asked().strip().partition(" ")
    if word != "at":
        raise BrowserError(f"there is no browser: {rest or 'the session ends'}")
    return rest


def is_listened_at(address):
    place = urllib.parse.urlsplit(address)
    try:
        socket.create_connection((place.hostname, place.port), timeout=PATIENCE).close()
    except ConnectionRefusedError:
        return False
    return True


def endpoint():
    """The address at which the browser is controlled (Chrome DevTools Protocol). Starts the browser.

    One that has crashed stays the supervisor's until its process has ended, which is after its port: asked again.
    """
    end = time.monotonic() + DYING
    while not is_listened_at(address := address_of_one_that_runs()):
        if time.monotonic() > end:
            raise BrowserError(f"the browser runs, but does not listen at {address}")
        time.sleep(PAUSE)
    return address
