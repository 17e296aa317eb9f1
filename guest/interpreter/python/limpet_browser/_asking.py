"""Asking the supervisor for the browser, which starts it where it does not run."""

import os
import socket

SOCKET = os.environ.get("LIMPET_BROWSER_SOCKET", "/run/limpet-browser")
PORT = 9222  # where the browser is controlled, on the loopback of the container
PATIENCE = 120  # seconds; the supervisor gives up earlier


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


def endpoint():
    """The address at which the browser is controlled (Chrome DevTools Protocol). Starts the browser."""
    word, _, rest = asked().strip().partition(" ")
    if word != "at":
        raise BrowserError(f"there is no browser: {rest or 'the session ends'}")
    return rest
